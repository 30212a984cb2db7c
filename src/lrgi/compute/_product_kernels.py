"""Products of matrices within larger arrays, by register tiles of packed panels.

Operands are copied into panels first (`_panel_kernels.py`). Sums run over k in order, _DEPTH terms at a
time, so the bits do not depend on where rows are cut.
Slow twins: tests/compute/test_tile_kernels.py.
"""

from __future__ import annotations

import numba
import numpy as np
from numba.core import types
from numba.extending import overload

from lrgi.compute._bf16_kernels import HAS_AMX, amx_product
from lrgi.compute._pair_kernels import HAS_PAIRS, pair_product
from lrgi.compute._panel_kernels import ROWS, WIDE, aligned, give, pack
from lrgi.compute._tile_kernels import LANES, outer_add, zeros
from lrgi.compute._vector_kernels import as_bf16, load, store

FULL, ROUNDED, TILED = 0, 1, 2  # operands as they are; rounded to bf16; rounded and multiplied by AMX

_DEPTH = 128  # terms at once: their panel of b then fits the nearest cache
_HEIGHT = 512  # rows of a that are packed at once: they stay in a core's own cache
_FEW = 2 * WIDE  # columns: with fewer, rows of a are read too seldom to be worth packing


@numba.njit(inline="always")
def _sweep(tile, a, a_at, panel, terms):
    for k in range(terms):
        tile = outer_add(tile, a, a_at[0] + k * a_at[2], a_at[1], panel, k * WIDE, WIDE)
    return tile


@numba.njit(inline="always")
def _round(values, count):
    for i in range(0, count, LANES):
        store(as_bf16(load(values, i, LANES)), values, i, LANES)


def _by_instructions(a, a_at, b, b_at, shape, out, out_at, add):
    """Whether instructions for bf16 did it: compiled for float32 on processors that have them."""


@overload(_by_instructions)
def _compile_by_instructions(a, a_at, b, b_at, shape, out, out_at, add):
    if HAS_AMX and a.dtype == types.float32:

        def by_amx(a, a_at, b, b_at, shape, out, out_at, add):
            amx_product(a, a_at, b, b_at, shape, out, out_at, add)
            return True

        return by_amx
    if HAS_PAIRS and a.dtype == types.float32:

        def by_pairs(a, a_at, b, b_at, shape, out, out_at, add):
            pair_product(a, a_at, b, b_at, shape, out, out_at, add)
            return True

        return by_pairs
    return lambda a, a_at, b, b_at, shape, out, out_at, add: False


@numba.njit(nogil=True, cache=True)
def tiled_product(a, a_at, b, b_at, shape, out, out_at, how):
    """out [m, n] = a [m, k] times b [k, n], shape = (m, k, n), all within larger arrays.

    a_at = (offset, stride of m, stride of k), b_at = (offset, stride of k, stride of n), of which one
    stride is 1; out_at = (offset, stride of m); how = (whether out += the product, FULL or ROUNDED or TILED).
    """
    m, terms, n = shape
    add, precision = how
    if precision == TILED and _by_instructions(a, a_at, b, b_at, shape, out, out_at, add):
        return
    rounds = precision != FULL
    most = (min(terms, _DEPTH) + LANES - 1) // LANES * LANES
    panel = aligned(most * WIDE, a)
    rows_ = aligned((min(m, _HEIGHT) + LANES) * most, a)
    one = np.ones(1, a.dtype)
    packs = n > _FEW or a_at[2] != 1 or rounds
    for k in range(0, max(terms, 1), _DEPTH):  # an empty sum is zero, and is written
        depth, more = min(_DEPTH, terms - k), add or k > 0
        for top in range(0, m, _HEIGHT):
            height = min(_HEIGHT, m - top)
            first = 0 if packs else height - height % ROWS  # of those that are packed
            a_here = a_at[0] + top * a_at[1] + k * a_at[2]
            for r in range(first, height, LANES):
                where = ((r - first) * most, LANES)
                pack(a, a_here + r * a_at[1], a_at[1:], (height - r, depth), rows_, where, one)
            if rounds:
                _round(rows_, (height + LANES - 1) // LANES * LANES * most)
            for c in range(0, n, WIDE):
                b_here = b_at[0] + k * b_at[1] + c * b_at[2]
                pack(b, b_here, (b_at[2], b_at[1]), (n - c, depth), panel, (0, WIDE), one)
                if rounds:
                    _round(panel, depth * WIDE)
                to = out_at[0] + top * out_at[1] + c
                for r in range(0, first, ROWS):
                    tile = _sweep(zeros(a, LANES), a, (a_here + r * a_at[1], a_at[1], 1), panel, depth)
                    give(tile, out, to + r * out_at[1], out_at[1], n - c, ROWS, more)
                for r in range(first, height, ROWS):
                    part = r - first
                    from_ = (part // LANES * LANES * most + part % LANES, 1, LANES)
                    tile = _sweep(zeros(a, LANES), rows_, from_, panel, depth)
                    give(tile, out, to + r * out_at[1], out_at[1], n - c, height - r, more)
