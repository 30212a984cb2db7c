"""Compiled attention for an embedding: forward only, nothing kept per edge; arrays in, arrays out.

It waits for memory: sources lie all over a table larger than any cache. So the next edges' sources are
asked for ahead of time, whole, and the sums stay in registers. Twin: `lrgi.layers.twin`.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute._tile_kernels import LANES, outer_add, put_rows, zeros
from lrgi.compute.prefetch import prefetch_row

_AHEAD = 32  # edges behind the row at hand whose sources are asked for
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@numba.njit(inline="always")
def _softmax(weights, count, heads):
    """Logits to weights, per head, over the first `count` rows."""
    for h in range(heads):
        top = weights[0, h]
        for i in range(1, count):
            top = max(top, weights[i, h])
        total = weights.dtype.type(0)
        for i in range(count):
            a = np.exp(weights[i, h] - top)
            total += a
            weights[i, h] = a
        inverse = weights.dtype.type(1) / total
        for i in range(count):
            weights[i, h] *= inverse


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend_frozen(p, scores, hop, slope, span, out):
    """out[r] = per head, sum_j a_rj p_j over r itself and its neighbours; p and out are [., H * C].

    scores = (s_source [S, H], s_row [R, H]); the logit of edge j -> r is leaky_relu(s_source[j] + s_row[r]).
    """
    indptr, indices, first = hop
    s_source, s_row = scores
    heads, columns = s_row.shape[1], p.shape[1]
    width, end, asked = columns // heads, indptr[span[1]], indptr[span[0]]
    most = 1
    for r in range(span[0], span[1]):
        most = max(most, indptr[r + 1] - indptr[r] + 1)
    weights, offsets = np.empty((most, heads), p.dtype), np.empty(most, np.int64)
    for r in range(span[0], span[1]):
        begin, count = indptr[r], indptr[r + 1] - indptr[r] + 1
        upto = min(end, indptr[r + 1] + _AHEAD)
        while asked < upto:
            prefetch_row(p, indices[asked])
            prefetch_row(s_source, indices[asked])
            asked += 1
        for i in range(count):
            j = np.int64(first + r if i == 0 else indices[begin + i - 1])
            offsets[i] = j * columns
            for h in range(heads):
                raw = s_source[j, h] + s_row[r, h]
                weights[i, h] = raw if raw > 0 else raw * slope
        _softmax(weights, count, heads)
        for h in range(heads):
            for k in range(0, width, 2 * LANES):
                tile, at = zeros(p, 2), h * width + k
                for i in range(count):
                    tile = outer_add(tile, weights, i * heads + h, 1, p, offsets[i] + at, width - k)
                put_rows(tile, out, r * columns + at, columns, width - k, 1)
