"""Products against float64 arithmetic and torch's own, with gradients; the same bits on any threads."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from lrgi.compute import products
from lrgi.compute.products import linear, matmul

SHAPES = [(1, 1, 1), (7, 5, 3), (64, 33, 17), (300, 100, 128)]


def operands(m, d, n, dtype=torch.float32, seed=0):
    random = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=random, dtype=dtype)  # noqa: E731
    return draw(m, d), draw(n, d), draw(n)


def exact(x, weight, bias, relu):
    y = x.double().numpy() @ weight.double().numpy().T
    y = y if bias is None else y + bias.double().numpy()
    return np.maximum(y, 0) if relu else y


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_linear_is_the_float64_product(shape, with_bias, relu):
    x, weight, bias = operands(*shape)
    bias = bias if with_bias else None
    y = linear(x, weight, bias, relu=relu)
    assert y.dtype == torch.float32
    scale = (x.abs() @ weight.abs().t()).max() + 1
    assert np.abs(y.numpy() - exact(x, weight, bias, relu)).max() <= 1e-6 * scale


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_gradients_are_those_of_torch(shape, with_bias, relu):
    ours = [t.requires_grad_() for t in operands(*shape)][: 2 + with_bias]
    theirs = [t.detach().clone().requires_grad_() for t in ours]
    direction = torch.randn(shape[0], shape[2], generator=torch.Generator().manual_seed(9))
    y = linear(*ours, relu=relu)
    expected = functional.linear(*theirs)
    expected = expected.relu() if relu else expected
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    y.backward(direction)
    expected.backward(direction)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("relu", [False, True])
def test_gradcheck_in_float64(relu):
    x, weight, bias = (t.requires_grad_() for t in operands(5, 4, 3, torch.float64))
    assert torch.autograd.gradcheck(lambda *a: linear(*a, relu=relu), (x, weight, bias))
    assert torch.autograd.gradcheck(lambda *a: linear(*a, relu=relu), (x, weight))


def test_only_what_needs_a_gradient_gets_one():
    x, weight, bias = operands(6, 4, 3)
    weight.requires_grad_()
    linear(x, weight, bias).sum().backward()
    assert x.grad is None and bias.grad is None
    torch.testing.assert_close(weight.grad, x.sum(0).expand(3, 4))


def test_operands_that_are_views_of_other_layouts():
    x, weight, _ = operands(20, 12, 8)
    expected = x[:, :6].double() @ weight[:, :6].double().t()
    torch.testing.assert_close(linear(x[:, :6], weight[:, :6]).double(), expected, rtol=1e-5, atol=1e-5)
    turned = linear(x.t(), torch.ones(2, 20))
    torch.testing.assert_close(turned, x.sum(0)[:, None].expand(12, 2), rtol=1e-5, atol=1e-5)


def test_no_rows_give_no_rows():
    x, weight, bias = operands(0, 4, 3)
    weight.requires_grad_()
    y = linear(x, weight, bias, relu=True)
    assert y.shape == (0, 3)
    y.sum().backward()
    assert torch.equal(weight.grad, torch.zeros(3, 4))


@pytest.mark.parametrize("relu", [False, True])
def test_bf16_under_autocast(relu):
    """Operands lose 8 bits (2^-9 each), as does a stored result; sums and results' type are float32."""
    x, weight, bias = (t.requires_grad_() for t in operands(50, 40, 30))
    with torch.autocast("cpu", torch.bfloat16):
        y = linear(x, weight, bias, relu=relu)
    assert y.dtype == torch.float32
    scale = x.abs() @ weight.abs().t() + bias.abs()
    error = np.abs(y.detach().numpy() - exact(x.detach(), weight.detach(), bias.detach(), relu))
    assert (error <= 3 * 2.0**-8 * scale.detach().numpy()).all()
    assert error.max() > 1e-4, "must really have been bf16"
    y.backward(torch.ones_like(y))
    grads = [t.grad for t in (x, weight, bias)]
    assert all(g.dtype == torch.float32 for g in grads)
    mask = (y > 0).float() if relu else torch.ones_like(y)
    torch.testing.assert_close(grads[0], mask @ weight, rtol=0.02, atol=0.15)
    torch.testing.assert_close(grads[1], mask.t() @ x, rtol=0.02, atol=0.15)
    torch.testing.assert_close(grads[2], mask.sum(0), rtol=1e-6, atol=0)


@pytest.mark.parametrize("onednn", [True, False])
def test_matmul_stays_full_precision_under_autocast(onednn, monkeypatch):
    if not onednn:
        monkeypatch.setattr(products, "_onednn", lambda a, b: False)
    a, weight, _ = operands(30, 20, 10)
    with torch.autocast("cpu", torch.bfloat16):
        product = matmul(a, weight.t())
    torch.testing.assert_close(product.double(), a.double() @ weight.double().t(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(2000, 100, 128), (513, 129, 37), (512, 128, 1024)])
@pytest.mark.parametrize("bf16", [False, True])
def test_threads_do_not_change_a_bit(shape, bf16, restore_threads):
    def run(threads):
        torch.set_num_threads(threads)
        x, weight, bias = (t.requires_grad_() for t in operands(*shape))
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y = linear(x, weight, bias, relu=True)
        y.backward(torch.cos(torch.arange(y.numel(), dtype=torch.float32)).view_as(y))
        return y, x.grad, weight.grad, bias.grad

    for one, two in zip(run(1), run(2), strict=True):
        assert torch.equal(one, two)
