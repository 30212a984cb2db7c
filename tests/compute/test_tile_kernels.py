"""Register tiles against numpy, at sizes around and far from those of a tile; nothing beyond is touched."""

import numpy as np
import pytest
import torch

from lrgi.compute._product_kernels import ROUNDED, TILED, tiled_product
from lrgi.compute._tile_kernels import LANES
from lrgi.compute.products import bf16_instructions, product_into

SIZES = [
    (1, 1, 1),
    (5, 0, 7),
    (0, 5, 7),
    (9, 700, 40),
    (8, 4, 32),
    (9, 5, 33),
    (7, 130, 31),
    (40, 3, 2 * LANES + 1),
    (64, 128, 96),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_gives_or_adds_the_product(size, dtype, transposed):
    m, k, n = size
    random = torch.Generator().manual_seed(0)
    a, b, before = (torch.randn(s, dtype=dtype, generator=random) for s in ((m, k), (k, n), (m, n)))
    for add in (False, True):
        out = before.clone()
        product_into(out, a.t().contiguous() if transposed else a, b, transposed=transposed, add=add)
        expected = a.double() @ b.double() + (before.double() if add else 0)
        torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


def test_stays_within_its_part_of_larger_arrays():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(20, 30)).astype("f4"), random.normal(size=(25, 50)).astype("f4")
    out = np.zeros((20, 60), "f4")
    a[4:], a[:, 10:], b[6:], b[:, 45:] = np.nan, np.nan, np.nan, np.nan
    tiled_product(a, (3, 30, 1), b, (50 + 4, 50, 1), (4, 5, 41), out, (2 * 60 + 7, 60), (False, 0))
    expected = np.zeros_like(out)
    expected[2:6, 7:48] = a[:4, 3:8].astype("f8") @ b[1:6, 4:45].astype("f8")
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_nothing_beyond_the_last_element_is_read():
    a = np.ones(3, "f4")
    whole = np.full(64, np.nan, "f4")
    whole[:3] = 1
    out = np.zeros(1, "f4")
    tiled_product(a, (0, 3, 1), whole, (0, 1, 1), (1, 3, 1), out, (0, 1), (False, 0))
    assert out[0] == 3


def test_nan_and_infinity_come_through():
    a, b = torch.tensor([[np.inf, 1.0]]), torch.tensor([[1.0, 0.0], [2.0, np.nan]])
    out = torch.zeros(1, 2)
    product_into(out, a, b)
    assert out[0, 0] == np.inf and torch.isnan(out[0, 1])


@pytest.mark.parametrize("size", [*SIZES, (70, 600, 100), (600, 65, 33)])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("precision", [ROUNDED, TILED])
def test_bf16_is_the_product_of_rounded_operands(size, transposed, precision):
    """numpy in float64 on operands that torch rounded; ties, infinity and NaN are rounded alike."""
    if precision == TILED and not bf16_instructions():
        pytest.skip("this processor, or its system, has no instructions for bf16")
    m, k, n = size
    random = torch.Generator().manual_seed(0)
    a, b, before = (torch.randn(s, generator=random) for s in ((m, k), (k, n), (m, n)))
    a.view(-1)[:1] = 1 + 2.0**-8  # half way between two numbers of bf16
    for add in (False, True):
        out = before.clone()
        a_, b_ = (a.t().contiguous(), b.t().contiguous()) if transposed else (a, b)
        a_at, b_at = ((0, 1, m), (0, 1, k)) if transposed else ((0, k, 1), (0, n, 1))
        tiled_product(a_.numpy(), a_at, b_.numpy(), b_at, size, out.numpy(), (0, n), (add, precision))
        expected = a.bfloat16().double() @ b.bfloat16().double() + (before.double() if add else 0)
        torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("precision", [ROUNDED, TILED])
def test_bf16_keeps_nan_and_what_lies_beyond(precision):
    if precision == TILED and not bf16_instructions():
        pytest.skip("this processor, or its system, has no instructions for bf16")
    a, b = np.ones((5, 40), "f4"), np.ones((40, 3), "f4")
    a[1, 2], a[2, 0], out = np.nan, np.inf, np.full((9, 7), 5.0, "f4")
    tiled_product(a, (0, 40, 1), b, (0, 3, 1), (5, 40, 3), out, (2 * 7 + 1, 7), (False, precision))
    expected = np.full((9, 7), 5.0, "f4")
    expected[2:7, 1:4] = a @ b
    np.testing.assert_array_equal(out, expected)
