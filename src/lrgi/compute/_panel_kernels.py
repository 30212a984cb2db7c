"""Panels: parts of larger arrays as a product's tiles read them, and where its sums go.

What a tile reads next then lies next to what it read, whatever the strides were, and rows that lie a power
of two apart do not fall on the same few places of a cache.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute._tile_kernels import LANES, add_rows, outer_add, put_rows, turn, zeros

ROWS = LANES // 2  # of a tile of LANES vectors, two in a row: half the registers of either kind of machine
WIDE = 2 * LANES  # columns of a tile


@numba.njit(inline="always")
def pack(a, at, steps, counts, panel, panel_at, one):
    """panel[first + k * width + i] = a[at + i * steps[0] + k * steps[1]] for i < width; zeros beyond.

    counts = (how many i there are, how many k), panel_at = (first, width of one vector or two).
    """
    number, terms = counts
    first, width = panel_at
    if steps[0] == 1:
        for k in range(terms):
            row = outer_add(zeros(a, 2), one, 0, 0, a, at + k * steps[1], min(number, width))
            put_rows(row, panel, first + k * width, 0, width, 1)
        return
    for i in range(0, width, LANES):
        for k in range(0, terms, LANES):
            left = (number - i, terms - k)
            turn(a, at + i * steps[0] + k, steps[0], left, panel, first + i + k * width, width)


@numba.njit(inline="always")
def aligned(count, like):
    """An array that begins where a vector does: no load of its vectors crosses two lines of the cache."""
    room = np.empty(count + LANES, like.dtype)
    past = (room.ctypes.data // room.itemsize) % LANES
    return room[(LANES - past) % LANES :][:count]


@numba.njit(inline="always")
def give(tile, out, offset, stride, left, rows, add):
    if left >= WIDE and rows >= ROWS:  # constants: no masks are made
        if add:
            add_rows(tile, out, offset, stride, WIDE, ROWS)
        else:
            put_rows(tile, out, offset, stride, WIDE, ROWS)
    elif add:
        add_rows(tile, out, offset, stride, left, rows)
    else:
        put_rows(tile, out, offset, stride, left, rows)
