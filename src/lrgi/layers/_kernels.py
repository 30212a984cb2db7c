"""Compiled aggregation, forward and backward: arrays in, arrays out.

Twins in plain torch: `lrgi.layers.twin`; slow loops: tests/reference. Every kernel works on a range of
rows, writes only to its own rows (or its own partial sum), and adds in the order of the edges.
An attention weight a > 0 is stored as -a where the leaky ReLU under it was on its flat side, so that
one array serves the backward pass.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute._tile_kernels import (
    LANES,
    add_rows,
    inner_add,
    outer_add,
    put_rows,
    put_sums,
    tiled_product,
    zeros,
)
from lrgi.compute.prefetch import prefetch_row

# How many edges ahead of the present one rows are asked for; the edges of all rows are one stream.
_AHEAD = 16

# Sums may be reordered into vector lanes and fused; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


@numba.njit(inline="always")
def _leaky(e, slope):
    return e if e > 0 else e * slope


@numba.njit(inline="always")
def _dots(a, a_at, b, b_offset, shape, out, out_offset):
    """out[out_offset + h] = a[offset + h * stride:][:width] . b[b_offset:][:width] for all heads.

    a_at = (offset, stride); shape = (heads, width).
    """
    heads, width = shape
    h = 0
    while h + 4 <= heads:
        four, at = zeros(b, 4), a_at[0] + h * a_at[1]
        for k in range(0, width, LANES):
            four = inner_add(four, a, at + k, a_at[1], b, b_offset + k, width - k)
        put_sums(four, out, out_offset + h)
        h += 4
    while h < heads:
        one, at = zeros(b, 1), a_at[0] + h * a_at[1]
        for k in range(0, width, LANES):
            one = inner_add(one, a, at + k, a_at[1], b, b_offset + k, width - k)
        put_sums(one, out, out_offset + h)
        h += 1


@numba.njit(inline="always")
def _weighted(tile, factors, at, heads, table, offsets, count, left):
    """The tile plus sum over i < count of factors[at + i * heads + h] * table[offsets[i]:]."""
    for i in range(count):
        tile = outer_add(tile, factors, at[0] + i * heads, 1, table, offsets[i] + at[1], left)
    return tile


@numba.njit(inline="always")
def _offsets_of(table, nodes, hop, r, end, offsets):
    """Where in `table` the row itself and its neighbours begin; asks for the rows that come next."""
    indptr, indices, first = hop
    begin, stop = indptr[r], indptr[r + 1]
    width = table.shape[1]
    prefetch_row(table, nodes[first + min(r + 1, len(indptr) - 2)])
    for e in range(begin + _AHEAD, min(stop + _AHEAD, end)):
        prefetch_row(table, nodes[indices[e]])
    offsets[0] = np.int64(nodes[first + r]) * width
    for e in range(begin, stop):
        offsets[e - begin + 1] = np.int64(nodes[indices[e]]) * width
    return stop - begin + 1


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend_table(table, nodes, hop, queries, slope, span, z, alpha):
    """z[h, r - start] = sum_j a_rjh x_j over r's neighbours and r itself, rows read straight from `table`.

    hop = (indptr, indices, first); queries = (q_source [H, d], q_row [H, d]); span = (start, stop).
    alpha [R + E, H]: row r's own weight first, then its neighbours', from indptr[r] - indptr[0] + r.
    """
    indptr = hop[0]
    q_source, q_row = queries
    heads, width = q_source.shape
    most = _most_sources(indptr, span)
    offsets = np.empty(most, np.int64)
    weights = np.empty((most, heads), table.dtype)
    own = np.empty(heads, table.dtype)
    head_stride = z.shape[1] * width
    for r in range(span[0], span[1]):
        at = indptr[r] - indptr[0] + r
        count = _offsets_of(table, nodes, hop, r, indptr[span[1]], offsets)
        _dots(q_row, (0, width), table, offsets[0], (heads, width), own, 0)
        for i in range(count):
            _dots(q_source, (0, width), table, offsets[i], (heads, width), weights, i * heads)
        for h in range(heads):
            top = table.dtype.type(-np.inf)
            for i in range(count):
                weights[i, h] += own[h]
                top = max(top, _leaky(weights[i, h], slope))
            total = table.dtype.type(0)
            for i in range(count):
                raw = weights[i, h]
                a = np.exp(_leaky(raw, slope) - top)
                total += a
                weights[i, h] = a
                alpha[at + i, h] = raw
            for i in range(count):
                a = weights[i, h] / total
                weights[i, h] = a
                alpha[at + i, h] = a if alpha[at + i, h] > 0 else -a
        for k in range(0, width, 2 * LANES):
            to = (r - span[0]) * width + k
            h = 0
            while h + 4 <= heads:
                four = _weighted(zeros(table, 8), weights, (h, k), heads, table, offsets, count, width - k)
                put_rows(four, z, to + h * head_stride, head_stride, width - k)
                h += 4
            while h < heads:
                one = _weighted(zeros(table, 2), weights, (h, k), heads, table, offsets, count, width - k)
                put_rows(one, z, to + h * head_stride, head_stride, width - k)
                h += 1


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend_table_backward(table, nodes, hop, slope, span, both_z, alpha, d_queries):
    """Adds to d_queries = (d_q_source [H, d], d_q_row [H, d]) what rows[start:stop] contribute.

    both_z = (z, d_z) [H, stop - start, d]: z is computed once more, which costs less than having kept it.
    """
    z, d_z = both_z
    indptr = hop[0]
    d_source, d_row = d_queries
    heads, width = d_source.shape
    most = _most_sources(indptr, span)
    offsets = np.empty(most, np.int64)
    weights = np.empty((most, heads), table.dtype)
    d_logits = np.empty((most, heads), table.dtype)
    totals = np.empty((1, heads), table.dtype)
    head_stride = z.shape[1] * width
    for r in range(span[0], span[1]):
        at = indptr[r] - indptr[0] + r
        count = _offsets_of(table, nodes, hop, r, indptr[span[1]], offsets)
        from_ = (r - span[0]) * width
        for i in range(count):
            _dots(d_z, (from_, head_stride), table, offsets[i], (heads, width), d_logits, i * heads)
        for h in range(heads):
            mean = table.dtype.type(0)
            for i in range(count):
                weights[i, h] = abs(alpha[at + i, h])
                mean += weights[i, h] * d_logits[i, h]
            totals[0, h] = 0
            for i in range(count):
                g = weights[i, h] * (d_logits[i, h] - mean)
                g = g if alpha[at + i, h] > 0 else g * slope
                d_logits[i, h] = g
                totals[0, h] += g
        for k in range(0, width, 2 * LANES):
            left, to, h = width - k, from_ + k, 0
            while h + 4 <= heads:
                four = _weighted(zeros(table, 8), weights, (h, k), heads, table, offsets, count, left)
                put_rows(four, z, to + h * head_stride, head_stride, left)
                four = _weighted(zeros(table, 8), d_logits, (h, k), heads, table, offsets, count, left)
                add_rows(four, d_source, h * width + k, width, left)
                four = _weighted(zeros(table, 8), totals, (h, k), heads, table, offsets, 1, left)
                add_rows(four, d_row, h * width + k, width, left)
                h += 4
            while h < heads:
                one = _weighted(zeros(table, 2), weights, (h, k), heads, table, offsets, count, left)
                put_rows(one, z, to + h * head_stride, head_stride, left)
                one = _weighted(zeros(table, 2), d_logits, (h, k), heads, table, offsets, count, left)
                add_rows(one, d_source, h * width + k, width, left)
                one = _weighted(zeros(table, 2), totals, (h, k), heads, table, offsets, 1, left)
                add_rows(one, d_row, h * width + k, width, left)
                h += 1


@numba.njit(inline="always")
def _most_sources(indptr, span):
    most = 1
    for r in range(span[0], span[1]):
        most = max(most, indptr[r + 1] - indptr[r] + 1)
    return most


@numba.njit(nogil=True, cache=True)
def project(z, weight_t, span, out):
    """out[start:stop, h * C:] = z[h] times weight_t[h] [d, C]."""
    heads, width, columns = weight_t.shape
    start, rows = span[0], span[1] - span[0]
    for h in range(heads):
        at, to = (h * z.shape[1] * width, width, 1), (start * out.shape[1] + h * columns, out.shape[1])
        from_ = (h * width * columns, columns, 1)
        tiled_product(z, at, weight_t, from_, (rows, width, columns), out, to, False)


@numba.njit(nogil=True, cache=True)
def project_backward_z(d_out, weight, span, d_z):
    """d_z[h] = d_out[start:stop, h * C:] times weight[h] [C, d]."""
    heads, columns, width = weight.shape
    start, rows = span[0], span[1] - span[0]
    for h in range(heads):
        at, to = (
            (start * heads * columns + h * columns, heads * columns, 1),
            (h * d_z.shape[1] * width, width),
        )
        tiled_product(
            d_out, at, weight, (h * width * columns, width, 1), (rows, columns, width), d_z, to, False
        )


@numba.njit(nogil=True, cache=True)
def project_backward_weight(d_out, z, span, d_weight):
    """Adds to d_weight[h] [C, d] the product of d_out[start:stop, h * C:] transposed and z[h]."""
    heads, columns, width = d_weight.shape
    start, rows = span[0], span[1] - span[0]
    for h in range(heads):
        at, from_ = (
            (start * heads * columns + h * columns, 1, heads * columns),
            (h * z.shape[1] * width, width, 1),
        )
        to = (h * columns * width, width)
        tiled_product(d_out, at, z, from_, (columns, rows, width), d_weight, to, True)


@numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")
def attend(p, scores, hop, slope, span, out, alpha):
    """out[r] = per head, sum_j a_rj p_j over projected sources p [S, H, C]; alpha as in attend_table.

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
