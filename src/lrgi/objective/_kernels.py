"""Predictor networks, forward and backward, for one block of hidden units: arrays in, arrays out.

A block's hidden units, and the weights into and out of them, are its own: it writes its weights' gradients
whole, and only its share of what leaves the network is summed over blocks. Slow twin: autograd, in
tests/objective/test_predictors.py.
"""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute._product_kernels import tiled_product

_ROWS = 512  # at a time: a block's hidden values and their gradients stay in a core's own cache


@numba.njit(inline="always")
def _rectify(hidden, bias):
    for i in range(len(hidden)):
        for j in range(len(bias)):
            value = hidden[i, j] + bias[j]
            hidden[i, j] = value if not value <= 0 else 0  # NaN stays


@numba.njit(inline="always")
def _rectify_backward(d_hidden, hidden, d_bias):
    for i in range(len(hidden)):
        for j in range(len(d_bias)):
            d = d_hidden[i, j] if not hidden[i, j] <= 0 else 0
            d_hidden[i, j] = d
            d_bias[j] += d


@numba.njit(nogil=True, cache=True)
def network_forward(x, weights, units, hidden, part, precision):
    """hidden [M, h] = relu(x W_in^T + b_in) for `units` = (start, stop), part [M, D] = hidden times W_out^T.

    weights = (W_in [H, D], b_in [H], W_out [D, H]).
    """
    w_in, b_in, w_out = weights
    start, count = units[0], units[1] - units[0]
    width = x.shape[1]
    out_width, all_units = w_out.shape
    for r in range(0, len(x), _ROWS):
        rows = min(_ROWS, len(x) - r)
        shape = (rows, width, count)
        to = (r * count, count)
        tiled_product(
            x, (r * width, width, 1), w_in, (start * width, 1, width), shape, hidden, to, (False, precision)
        )
        _rectify(hidden[r : r + rows], b_in[start : start + count])
        from_, shape = (r * count, count, 1), (rows, count, out_width)
        to = (r * out_width, out_width)
        tiled_product(hidden, from_, w_out, (start, 1, all_units), shape, part, to, (False, precision))


@numba.njit(nogil=True, cache=True)
def network_backward(inputs, d_out, weights, units, d_weights, d_part, precision):
    """What `units` contribute to d_part [M, D], and the gradients of their weights, written or (b_in) added.

    inputs = (x [M, D], hidden [M, h]); weights = (W_in, W_out), d_weights = (d_W_in, d_b_in, d_W_out).
    """
    x, hidden = inputs
    w_in, w_out = weights
    d_w_in, d_b_in, d_w_out = d_weights
    start, count = units[0], units[1] - units[0]
    width = x.shape[1]
    out_width, all_units = w_out.shape
    d_hidden = np.empty((min(_ROWS, len(x)), count), x.dtype)
    d_b_in[start : start + count] = 0
    for r in range(0, max(len(x), 1), _ROWS):  # without rows too: sums of nothing are zero, and are written
        rows, how = min(_ROWS, len(x) - r), (r > 0, precision)
        d_at, shape, to = (r * out_width, out_width, 1), (rows, out_width, count), (0, count)
        tiled_product(d_out, d_at, w_out, (start, all_units, 1), shape, d_hidden, to, (False, precision))
        _rectify_backward(d_hidden[:rows], hidden[r : r + rows], d_b_in[start : start + count])
        at, shape, to = (0, 1, count), (count, rows, width), (start * width, width)
        tiled_product(d_hidden, at, x, (r * width, width, 1), shape, d_w_in, to, how)
        at, shape, to = (r * out_width, 1, out_width), (out_width, rows, count), (start, all_units)
        tiled_product(d_out, at, hidden, (r * count, count, 1), shape, d_w_out, to, how)
        at, shape, to = (start * width, width, 1), (rows, count, width), (r * width, width)
        tiled_product(d_hidden, (0, count, 1), w_in, at, shape, d_part, to, (False, precision))
