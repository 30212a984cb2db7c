"""Vectors in registers against numpy: exp where it matters, softmax's pieces, dots of four heads at once."""

import numba
import numpy as np
import pytest

from lrgi.compute import _vector_kernels as vectors
from lrgi.compute._tile_kernels import LANES
from lrgi.compute._vector_kernels import HEADS

DTYPES = [np.float32, np.float64]


@numba.njit
def apply_exponential(x, out):
    for i in range(0, len(x), LANES):
        vectors.store(vectors.exponential(vectors.load(x, i, len(x) - i)), out, i, len(x) - i)


@numba.njit
def apply_elu(x, out):
    for i in range(0, len(x), LANES):
        vectors.store(vectors.elu(vectors.load(x, i, len(x) - i)), out, i, len(x) - i)


@numba.njit
def fold(x, out):
    one = vectors.load(x, 0, LANES)
    vectors.store(vectors.fold_sum(one), out, 0, LANES)
    vectors.store(vectors.fold_larger(one), out, LANES, LANES)
    vectors.store(vectors.repeated(one), out, 2 * LANES, LANES)


@numba.njit
def dots(a, table, offsets, shape, out):
    vectors.cross_dots(a, (0, shape[1]), table, offsets, shape, out)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_is_exact_to_two_units_in_the_last_place(dtype):
    x = np.linspace(-80, 80, 4001).astype(dtype)
    out = np.empty_like(x)
    apply_exponential(x, out)
    exact = np.exp(x.astype(np.longdouble))
    assert np.abs(out / exact - 1).max() <= 2 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_and_elu_at_the_ends(dtype):
    x = np.array([-np.inf, -1e30, 0, np.nan], dtype)
    out = np.empty_like(x)
    apply_exponential(x, out)
    assert out[0] < 1e-37 and out[1] < 1e-37 and out[2] == 1 and np.isnan(out[3])
    apply_elu(np.array([-np.inf, 2.5, np.inf, np.nan], dtype), out)
    assert out[0] == -1 and out[1] == 2.5 and out[2] == np.inf and np.isnan(out[3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_head_folds_over_its_own_lanes(dtype):
    x = np.random.default_rng(0).standard_normal(LANES).astype(dtype)
    out = np.zeros(3 * LANES, dtype)
    fold(x, out)
    by_head = x.reshape(-1, HEADS)
    np.testing.assert_allclose(
        out[:LANES].reshape(-1, HEADS), np.tile(by_head.sum(0), (len(by_head), 1)), 1e-5
    )
    assert (out[LANES : 2 * LANES].reshape(-1, HEADS) == by_head.max(0)).all()
    assert (out[2 * LANES :].reshape(-1, HEADS) == x[:HEADS]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, LANES, 37])
@pytest.mark.parametrize("count", [1, 9])
def test_cross_dots(dtype, width, count):
    random = np.random.default_rng(0)
    a, table = random.standard_normal((HEADS, width)).astype(dtype), random.standard_normal((9, width))
    table = table.astype(dtype)
    rows = random.integers(0, 9, count + LANES)
    out = np.zeros((count + LANES) * HEADS, dtype)
    dots(a, table, rows * width, (count, width), out)
    expected = table[rows[:count]].astype("f8") @ a.T.astype("f8")
    np.testing.assert_allclose(out[: count * HEADS].reshape(count, HEADS), expected, rtol=1e-5, atol=1e-5)
