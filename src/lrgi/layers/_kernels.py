"""Compiled aggregation, forward and backward: arrays in, arrays out.

Twins in plain torch: `lrgi.layers.twin`; slow loops: tests/reference. Every kernel works on a range of
rows, writes only to its own rows (or its own partial sum), and adds in the order of the edges.
An attention weight a > 0 is stored as -a where the leaky ReLU under it was on its flat side, so that
one array serves the backward pass.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute.prefetch import prefetch_row

# How many edges ahead of the present one rows are asked for; the edges of all rows are one stream.
_AHEAD = 16

# Sums may be reordered into vector lanes and fused; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@numba.njit(inline="always")
def _leaky(e, slope):
    return e if e > 0 else e * slope


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend(p, scores, hop, slope, span, out, alpha):
    """out[r] = per head, sum_j a_rj p_j over projected sources p [S, H, C].

    alpha [R + E, H]: row r's own first, then its neighbours', from indptr[r] - indptr[0] + r.

    scores = (s_source [S, H], s_row [R, H]).
    """
    indptr, indices, first = hop
    s_source, s_row = scores
    heads, width = p.shape[1], p.shape[2]
    end = indptr[span[1]]
    for r in range(span[0], span[1]):
        begin = indptr[r]
        count = indptr[r + 1] - begin + 1
        at = begin - indptr[0] + r
        me = first + r
        for h in range(heads):
            top = p.dtype.type(-np.inf)
            for i in range(count):
                j = me if i == 0 else indices[begin + i - 1]
                raw = s_source[j, h] + s_row[r, h]
                alpha[at + i, h] = raw
                top = max(top, _leaky(raw, slope))
            total = p.dtype.type(0)
            for i in range(count):
                raw = alpha[at + i, h]
                a = np.exp(_leaky(raw, slope) - top)
                total += a
                alpha[at + i, h] = a if raw > 0 else -a
            for i in range(count):
                alpha[at + i, h] /= total
        out[r] = 0
        for i in range(count):
            if begin + i + _AHEAD < end:
                prefetch_row(p, indices[begin + i + _AHEAD])
            j = me if i == 0 else indices[begin + i - 1]
            for h in range(heads):
                a = abs(alpha[at + i, h])
                for k in range(width):
                    out[r, h, k] += a * p[j, h, k]


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend_backward_rows(p, hop, slope, span, d_out, alpha, d_logit, d_row):
    """d_logit [R + E, H] per edge and d_row [R, H], from d_out [R, H, C]."""
    indptr, indices, first = hop
    heads, width = p.shape[1], p.shape[2]
    end = indptr[span[1]]
    for r in range(span[0], span[1]):
        begin = indptr[r]
        count = indptr[r + 1] - begin + 1
        at = begin - indptr[0] + r
        for i in range(count):
            if begin + i + _AHEAD < end:
                prefetch_row(p, indices[begin + i + _AHEAD])
            j = first + r if i == 0 else indices[begin + i - 1]
            for h in range(heads):
                s = p.dtype.type(0)
                for k in range(width):
                    s += d_out[r, h, k] * p[j, h, k]
                d_logit[at + i, h] = s
        for h in range(heads):
            mean = p.dtype.type(0)
            for i in range(count):
                mean += abs(alpha[at + i, h]) * d_logit[at + i, h]
            total = p.dtype.type(0)
            for i in range(count):
                a = alpha[at + i, h]
                g = abs(a) * (d_logit[at + i, h] - mean)
                g = g if a > 0 else g * slope
                d_logit[at + i, h] = g
                total += g
            d_row[r, h] = total


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend_backward_sources(transposed, hop, span, d_out, edge_values, d_p, d_source):
    """d_p [S, H, C] and d_source [S, H] of sources[start:stop], each summing over the rows that read it.

    edge_values = (alpha, d_logit); transposed as `Hop.transposed`.
    """
    starts, rows, places = transposed
    indptr, _, first = hop
    alpha, d_logit = edge_values
    heads, width = d_p.shape[1], d_p.shape[2]
    end = starts[span[1]]
    for j in range(span[0], span[1]):
        d_p[j] = 0
        d_source[j] = 0
        itself = j - first
        loops = 1 if 0 <= itself < len(indptr) - 1 else 0
        for i in range(starts[j] - loops, starts[j + 1]):
            if i + _AHEAD < end:
                prefetch_row(d_out, rows[i + _AHEAD])
            if i < starts[j]:
                r = itself
                at = indptr[r] - indptr[0] + r
            else:
                r = rows[i]
                at = places[i] + r + 1
            for h in range(heads):
                d_source[j, h] += d_logit[at, h]
                a = abs(alpha[at, h])
                for k in range(width):
                    d_p[j, h, k] += a * d_out[r, h, k]


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def scaled_sum(x, nodes, adjacency, scales, span, out):
    """out[r] = row_scale[r] * sum_j source_scale[j] x[nodes[j]] over adjacency = (indptr, indices).

    Empty arrays stand for: nodes in order; scales of one.
    """
    indptr, indices = adjacency
    row_scale, source_scale = scales
    width = x.shape[1]
    end = indptr[span[1]]
    for r in range(span[0], span[1]):
        out[r] = 0
        for e in range(indptr[r], indptr[r + 1]):
            if e + _AHEAD < end:
                ahead = indices[e + _AHEAD]
                prefetch_row(x, nodes[ahead] if len(nodes) > 0 else ahead)
            j = indices[e]
            row = x[nodes[j]] if len(nodes) > 0 else x[j]
            if len(source_scale) > 0:
                s = source_scale[j]
                for k in range(width):
                    out[r, k] += s * row[k]
            else:
                for k in range(width):
                    out[r, k] += row[k]
        if len(row_scale) > 0:
            s = row_scale[r]
            for k in range(width):
                out[r, k] *= s


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def sparse_product(rows, nodes, weight_t, span, out):
    """out[i] = sum over the entries (c, value) of row nodes[i] of value * weight_t[c]; rows is CSR."""
    indptr, columns, values = rows
    width = weight_t.shape[1]
    for i in range(span[0], span[1]):
        out[i] = 0
        node = nodes[i] if len(nodes) > 0 else i
        for e in range(indptr[node], indptr[node + 1]):
            value = values[e]
            weight = weight_t[columns[e]]
            for k in range(width):
                out[i, k] += value * weight[k]


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def sparse_product_backward(rows, nodes, d_out, span, d_weight_t):
    """Adds value * d_out[i] to d_weight_t[c], for the columns span = (start, stop) of the width."""
    indptr, columns, values = rows
    for i in range(len(d_out)):
        node = nodes[i] if len(nodes) > 0 else i
        for e in range(indptr[node], indptr[node + 1]):
            value = values[e]
            c = columns[e]
            for k in range(span[0], span[1]):
                d_weight_t[c, k] += value * d_out[i, k]
