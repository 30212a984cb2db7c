"""A whole attention layer over rows of a frozen table, forward and backward, a few rows at a time.

u = ELU(sum over heads of W_h z_h + S x + b), z_h the attention-weighted mean of table rows, read straight
from the table. The rows in hand, their z and the gradients of both stay in a core's own cache, and every
range of rows writes only to its own rows and partial sums. Heads are padded to whole vectors of HEADS.
An attention weight a > 0 is stored as -a where the leaky ReLU under it was on its flat side, so that
one array serves the backward pass. Twin in plain torch: `lrgi.layers.twin`; slow loops: tests/reference.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute._panel_kernels import aligned
from lrgi.compute._product_kernels import FULL, tiled_product
from lrgi.compute._tile_kernels import LANES, add_rows, inner_add, outer_add, put_rows, put_sums, zeros
from lrgi.compute._vector_kernels import (
    HEADS,
    absolute,
    add,
    cross_dots,
    cut,
    divide,
    elu,
    exponential,
    fold_larger,
    fold_sum,
    gated,
    larger,
    leaky,
    load,
    multiply,
    repeated,
    signed,
    store,
    subtract,
)
from lrgi.compute.prefetch import prefetch_row

# How many edges ahead of the present one rows are asked for; the edges of all rows are one stream.
_AHEAD = 16
_WIDE = 2 * LANES
_TILE = 2 * HEADS  # vectors: two for each head


@numba.njit(inline="always")
def _most_sources(indptr, span):
    """Room for a row's sources, up to a whole vector."""
    most = 1
    for r in range(span[0], span[1]):
        most = max(most, indptr[r + 1] - indptr[r] + 1)
    return most + LANES


@numba.njit(inline="always")
def _offsets_of(table, nodes, hop, r, end, offsets):
    """Where in `table` the row itself and its neighbours begin; asks for the rows that come next."""
    indptr, indices, first = hop
    begin, stop = indptr[r], indptr[r + 1]
    width = table.shape[1]
    prefetch_row(table, nodes[first + min(r + 1, len(indptr) - 2)])
    for e in range(begin + _AHEAD, min(stop + _AHEAD, end)):
        prefetch_row(table, nodes[indices[e]])
    itself = np.int64(nodes[first + r]) * width
    offsets[0] = itself
    count = stop - begin + 1
    for e in range(begin, stop):
        offsets[e - begin + 1] = np.int64(nodes[indices[e]]) * width
    for i in range(count, count + LANES // HEADS):  # what fills the last vector
        offsets[i] = itself
    return count


@numba.njit(inline="always")
def _softmax(raw, own, count, slope, weights, alpha, alpha_at):
    """weights = softmax over sources of leaky(raw + own), per head; alpha[alpha_at:] the same, signed."""
    total, end = zeros(raw, 1), count * HEADS
    own_ = repeated(load(own, 0, HEADS))
    top = cut(total, 0)
    for c in range(0, end, LANES):
        here = add(load(raw, c, LANES), own_)
        store(here, raw, c, LANES)
        top = larger(cut(leaky(here, slope), end - c), top)
    top = fold_larger(top)
    for c in range(0, end, LANES):
        e = exponential(subtract(cut(leaky(load(raw, c, LANES), slope), end - c), top))
        total = add(total, e)
        store(e, weights, c, LANES)
    total = fold_sum(total)
    for c in range(0, end, LANES):
        a = divide(load(weights, c, LANES), total)
        store(a, weights, c, LANES)
        store(signed(a, load(raw, c, LANES)), alpha, alpha_at + c, end - c)


@numba.njit(inline="always")
def _softmax_backward(d_logits, count, slope, weights, alpha, alpha_at, totals, totals_at):
    """d_logits from those of the weights to those under leaky; totals: their sum; weights = |alpha|."""
    mean, end = zeros(d_logits, 1), count * HEADS
    total = mean
    for c in range(0, end, LANES):
        a = absolute(load(alpha, alpha_at + c, end - c))
        store(a, weights, c, LANES)
        mean = add(mean, multiply(a, load(d_logits, c, LANES)))
    mean = fold_sum(mean)
    for c in range(0, end, LANES):
        g = multiply(load(weights, c, LANES), subtract(load(d_logits, c, LANES), mean))
        g = gated(g, load(alpha, alpha_at + c, end - c), slope)
        store(g, d_logits, c, LANES)
        total = add(total, g)
    store(fold_sum(total), totals, totals_at, HEADS)


@numba.njit(inline="always")
def _weighted(tile, factors, table, offsets, k, count, left):
    """The tile plus, per head h, sum over i < count of factors[i * HEADS + h] * table[offsets[i] + k:]."""
    if left >= _WIDE:  # a constant: no masks are made
        for i in range(count):
            tile = outer_add(tile, factors, i * HEADS, 1, table, offsets[i] + k, _WIDE)
        return tile
    for i in range(count):
        tile = outer_add(tile, factors, i * HEADS, 1, table, offsets[i] + k, left)
    return tile


@numba.njit(inline="always")
def _copy_row(table, offset, width, out, to):
    whole = width - width % LANES
    for k in range(0, whole, LANES):
        store(load(table, offset + k, LANES), out, to + k, LANES)
    store(load(table, offset + whole, width - whole), out, to + whole, width - whole)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def attend_rows(table, nodes, hop, queries, slope, span, both, alpha):
    """z[h, r - start] = sum_j a_rjh x_j over r's neighbours and r itself, and own[r - start] = x_r.

    hop = (indptr, indices, first); queries [2, H, d] of sources and rows; span = (start, stop); both = (z,
    own). alpha [H / HEADS, R + E, HEADS]: row r's own weight first, then its neighbours', from
    indptr[r] - indptr[0] + r.
    """
    indptr, (z, own) = hop[0], both
    q_source, q_row = queries[0], queries[1]
    heads, width = q_source.shape
    most = _most_sources(indptr, span)
    offsets, flat_alpha = np.empty(most, np.int64), alpha.ravel()
    raw, weights, shift = aligned(most * HEADS, table), aligned(most * HEADS, table), aligned(LANES, table)
    head_stride = z.shape[1] * width
    for r in range(span[0], span[1]):
        at, row = indptr[r] - indptr[0] + r, (r - span[0]) * width
        count = _offsets_of(table, nodes, hop, r, indptr[span[1]], offsets)
        _copy_row(table, offsets[0], width, own, row)
        for h in range(0, heads, HEADS):
            four = zeros(table, HEADS)
            for k in range(0, width, LANES):
                four = inner_add(four, q_row, h * width + k, width, table, offsets[0] + k, width - k)
            put_sums(four, shift, 0)
            cross_dots(q_source, (h * width, width), table, offsets, (count, width), raw)
            where = (h // HEADS * alpha.shape[1] + at) * HEADS
            _softmax(raw, shift, count, slope, weights, flat_alpha, where)
            for k in range(0, width, 2 * LANES):
                tile = _weighted(zeros(table, _TILE), weights, table, offsets, k, count, width - k)
                put_rows(tile, z, h * head_stride + row + k, head_stride, width - k, HEADS)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def attend_rows_backward(table, nodes, hop, slope, span, parts, alpha, d_source):
    """Adds to d_source [H, d] what rows[start:stop] contribute; writes own, z and totals once more.

    parts = (z, d_z, own, totals): z [H, rows, d] is computed once more, which costs less than having kept
    it; totals [rows, H]: the gradient of what q_row adds to all of a row's logits.
    """
    z, d_z, own, totals = parts
    indptr = hop[0]
    heads, width = d_source.shape
    most = _most_sources(indptr, span)
    offsets, flat_alpha = np.empty(most, np.int64), alpha.ravel()
    weights, d_logits = aligned(most * HEADS, table), aligned(most * HEADS, table)
    head_stride = z.shape[1] * width
    for r in range(span[0], span[1]):
        at, row = indptr[r] - indptr[0] + r, (r - span[0]) * width
        count = _offsets_of(table, nodes, hop, r, indptr[span[1]], offsets)
        _copy_row(table, offsets[0], width, own, row)
        for h in range(0, heads, HEADS):
            place = (h * head_stride + row, head_stride)
            cross_dots(d_z, place, table, offsets, (count, width), d_logits)
            where = (h // HEADS * alpha.shape[1] + at) * HEADS
            to = (r - span[0]) * heads + h
            _softmax_backward(d_logits, count, slope, weights, flat_alpha, where, totals, to)
            for k in range(0, width, 2 * LANES):
                left = width - k
                tile = _weighted(zeros(table, _TILE), weights, table, offsets, k, count, left)
                put_rows(tile, z, place[0] + k, head_stride, left, HEADS)
                tile = _weighted(zeros(table, _TILE), d_logits, table, offsets, k, count, left)
                add_rows(tile, d_source, h * width + k, width, left, HEADS)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def layer_forward(reading, queries, weights, how, span, few, out, alpha):
    """out [R, D] for rows span = (start, stop); weights = (W [H, C, d], S [D, d], b [D]).

    reading = (table, nodes, hop); how = (slope, precision); few: rows in hand at a time.
    """
    table, nodes, hop = reading
    (weight, skip, bias), (slope, precision) = weights, how
    (heads, columns, width), size = weight.shape, len(bias)
    z = aligned(queries.shape[1] * few * width, table).reshape(queries.shape[1], few, width)
    own = aligned(few * width, table)
    for a in range(span[0], span[1], few):
        b = min(a + few, span[1])
        attend_rows(table, nodes, hop, queries, slope, (a, b), (z, own), alpha)
        to, shape = (a * size, size), (b - a, width, size)
        tiled_product(own, (0, width, 1), skip, (0, 1, width), shape, out, to, (False, precision))
        for h in range(heads):
            from_, at = (h * columns * width, 1, width), (h * few * width, width, 1)
            to, shape = (a * size + h * columns, size), (b - a, width, columns)
            tiled_product(z, at, weight, from_, shape, out, to, (True, precision))
        for r in range(a, b):
            for k in range(0, size, LANES):
                place, left = r * size + k, size - k
                store(elu(add(load(out, place, left), load(bias, k, left))), out, place, left)


@numba.njit(nogil=True, cache=True, error_model="numpy")
def layer_backward(reading, weights, how, span, few, results, sums, alpha):
    """Adds what rows[start:stop] contribute to sums = (d_queries [2, H, d], d_W, d_S, d_b).

    weights = (W [H, C, d], S [D, d]), results = (u [R, D], its gradient).
    """
    table, nodes, hop = reading
    (weight, _), (slope, precision), (u, d_u) = weights, how, results
    d_queries, d_weight, d_skip, d_bias = sums
    (heads, columns, width), size, padded = weight.shape, len(d_bias), d_queries.shape[1]
    z = aligned(padded * few * width, table).reshape(padded, few, width)
    d_z = np.zeros_like(z)
    own, d_out = aligned(few * width, table), aligned(few * size, table).reshape(few, size)
    totals = aligned(few * padded, table)
    for a in range(span[0], span[1], few):
        rows = min(a + few, span[1]) - a
        for r in range(rows):
            for k in range(size):
                y = u[a + r, k]
                d = d_u[a + r, k] if y > 0 else d_u[a + r, k] * (y + 1)
                d_out[r, k] = d
                d_bias[k] += d
        for h in range(heads):
            at, from_ = (h * columns, size, 1), (h * columns * width, width, 1)
            shape, to = (rows, columns, width), (h * few * width, width)
            tiled_product(d_out, at, weight, from_, shape, d_z, to, (False, precision))
        parts = (z, d_z, own, totals)
        attend_rows_backward(table, nodes, hop, slope, (a, a + rows), parts, alpha, d_queries[0])
        shape, to = (padded, rows, width), (padded * width, width)
        tiled_product(totals, (0, 1, padded), own, (0, width, 1), shape, d_queries, to, (True, FULL))
        for h in range(heads):
            at, from_ = (h * columns, 1, size), (h * few * width, width, 1)
            shape, to = (columns, rows, width), (h * columns * width, width)
            tiled_product(d_out, at, z, from_, shape, d_weight, to, (True, precision))
        shape = (size, rows, width)
        tiled_product(d_out, (0, 1, size), own, (0, width, 1), shape, d_skip, (0, width), (True, precision))
