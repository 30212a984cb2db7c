"""Covariances of two views and what Eq. 1 makes of them, forward and backward: arrays in, arrays out.

Means and the sums of terms are added in float64, in order. Products are written by blocks of rows or
columns, each by one task, so nothing is summed over tasks. Slow twins: autograd through
`objective.infomax`, in tests/objective/test_joint.py.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute._product_kernels import FULL, tiled_product

_FAST = {"reassoc", "contract", "nsz", "arcp"}  # NaN and infinity keep their meaning


@numba.njit(nogil=True, cache=True)
def centre(x, out):
    """out = x [B, D] less the means of its columns."""
    rows, width = x.shape
    mean = np.zeros(width, np.float64)
    for r in range(rows):
        for k in range(width):
            mean[k] += x[r, k]
    shift = (mean / rows).astype(x.dtype)
    for r in range(rows):
        for k in range(width):
            out[r, k] = x[r, k] - shift[k]


@numba.njit(nogil=True, cache=True)
def cross_products(x, y, span, upper, scale, out):
    """out[a:b] [., D] = scale * x^T y, rows span = (a, b); with `upper` only the columns from a on."""
    (rows, width), first, last = x.shape, span[0], span[1]
    begin = first if upper else 0
    shape, to = (last - first, rows, width - begin), (first * width + begin, width)
    tiled_product(x, (first, 1, width), y, (begin, width, 1), shape, out, to, (False, FULL))
    for i in range(first, last):
        for j in range(begin, width):
            out[i, j] *= scale


@numba.njit(nogil=True, cache=True)
def mirror(c):
    """The lower triangle becomes that of the upper one."""
    width, side = len(c), 32
    for top in range(0, width, side):
        for left in range(0, top + 1, side):
            for i in range(top, min(top + side, width)):
                for j in range(left, min(left + side, i)):
                    c[i, j] = c[j, i]


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def spread_of(c):
    """(mean (1 - C_nn)^2, sum of the others' squares / D)."""
    total, diagonal, variance = 0.0, 0.0, 0.0
    for i in range(len(c)):
        for j in range(len(c)):
            total += np.float64(c[i, j] * c[i, j])
        diagonal += np.float64(c[i, i] * c[i, i])
        variance += (1 - np.float64(c[i, i])) ** 2
    return variance / len(c), (total - diagonal) / len(c)


@numba.njit(nogil=True, cache=True)
def own_gradient(c, outer, weights, factor, out):
    """out = factor times twice the gradient with respect to C, as x times it is the gradient of x.

    weights = (of the variance, of the others' squares, of `outer`), whose symmetric part and the identity
    are the gradient of what a regression leaves; no `outer`: an empty one.
    """
    width, kind, twice = len(c), c.dtype.type, 2 * factor
    on, off, fit = (
        kind(2 * twice * weights[0] / width),
        kind(2 * twice * weights[1] / width),
        kind(twice * weights[2]),
    )
    for i in range(width):
        for j in range(width):
            out[i, j] = off * c[i, j]
        out[i, i] = on * (c[i, i] - 1)
    if len(outer) > 0:
        half = fit / 2
        for i in range(width):
            for j in range(width):
                out[i, j] += half * (outer[i, j] + outer[j, i])
            out[i, i] += fit


@numba.njit(nogil=True, cache=True)
def cross_gradient(there, back, scale, out):
    """out = scale times the gradient with respect to C_vu of both regressions, there (u from v) and back."""
    for i in range(len(out)):
        for j in range(len(out)):
            out[i, j] = scale * (there[i, j] + back[j, i])


@numba.njit(nogil=True, cache=True)
def ridged(c, ridge, out):
    """out = C + r I."""
    for i in range(len(c)):
        for j in range(len(c)):
            out[i, j] = c[i, j]
        out[i, i] += ridge


@numba.njit(nogil=True, cache=True)
def product(a, b, turned, out):
    """out = a [D, D] times b [D, D], or times its transpose."""
    width = len(a)
    b_at = (0, 1, width) if turned else (0, width, 1)
    tiled_product(a, (0, width, 1), b, b_at, (width, width, width), out, (0, width), (False, FULL))


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def regression_left(own, cross, w, ridge):
    """tr C - <W, cross> - r |W|^2, cross as W lies."""
    trace, explained, size = 0.0, 0.0, 0.0
    for i in range(len(w)):
        trace += np.float64(own[i, i])
        for j in range(len(w)):
            explained += np.float64(w[i, j] * cross[i, j])
            size += np.float64(w[i, j] * w[i, j])
    return trace - explained - ridge * size


@numba.njit(nogil=True, cache=True)
def regression_gradients(w, y, ridge, d_cross, other):
    """d_cross = -2 (W + r Y), other = W + 2 r Y."""
    one, two = w.dtype.type(ridge), w.dtype.type(2)
    for i in range(len(w)):
        for j in range(len(w)):
            d_cross[i, j] = -two * (w[i, j] + one * y[i, j])
            other[i, j] = w[i, j] + two * one * y[i, j]


@numba.njit(nogil=True, cache=True)
def times(x, g, span, transposed, add, out):
    """out[a:b] = or += x[a:b] times g [D, D], or times its transpose; rows span = (a, b)."""
    width, first = x.shape[1], span[0]
    g_at = (0, 1, width) if transposed else (0, width, 1)
    shape, at = (span[1] - first, width, width), first * width
    tiled_product(x, (at, width, 1), g, g_at, shape, out, (at, width), (add, FULL))


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def residual(parts, bias, target, out):
    """out = the parts [blocks, B, D] added up, plus the bias, less the target; returns its sum of squares."""
    total = 0.0
    for r in range(len(target)):
        for k in range(len(bias)):
            out[r, k] = bias[k] - target[r, k]
        for block in range(len(parts)):
            for k in range(len(bias)):
                out[r, k] += parts[block, r, k]
        for k in range(len(bias)):
            total += np.float64(out[r, k] * out[r, k])
    return total


@numba.njit(nogil=True, cache=True)
def add_gradient(parts, d_out, span, d_x):
    """d_x[a:b] += the parts [blocks, B, D] in their order, less d_out: a view is an input and a target."""
    for r in range(span[0], span[1]):
        for k in range(d_x.shape[1]):
            d_x[r, k] -= d_out[r, k]
        for block in range(len(parts)):
            for k in range(d_x.shape[1]):
                d_x[r, k] += parts[block, r, k]
