"""Products against float64 arithmetic and torch's own, with gradients; the same bits on any threads."""

import pytest
import torch
from torch.nn import functional

from lrgi.compute import products
from lrgi.compute.products import by_rows, gram, linear, matmul
from lrgi.compute.threads import lanes

SHAPES = [(1, 1, 1), (7, 5, 3), (64, 33, 17), (300, 100, 128), (2600, 9, 20)]  # the last: several tasks
GIVEN = ["", "bias", "plus", "bias plus"]
ACTIVATIONS = {"none": lambda y: y, "relu": functional.relu, "elu": functional.elu}


def normal(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def operands(shape, given="bias plus", dtype=torch.float32):
    """x [M, d], weight [D, d], bias [D] or None, plus [M, D] or None."""
    m, d, n = shape
    bias = normal(2, n, dtype=dtype) if "bias" in given else None
    plus = normal(3, m, n, dtype=dtype) if "plus" in given else None
    return normal(0, m, d, dtype=dtype), normal(1, n, d, dtype=dtype), bias, plus


def plain(x, weight, bias, plus, activation):
    y = x @ weight.t()
    y = y if bias is None else y + bias
    return ACTIVATIONS[activation](y if plus is None else y + plus)


def double(tensors):
    return [None if t is None else t.detach().double().requires_grad_() for t in tensors]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_and_its_gradients_are_those_of_float64(shape, given, activation):
    ours = [None if t is None else t.requires_grad_() for t in operands(shape, given)]
    theirs = double(ours)
    x, weight, bias, plus = ours
    y = linear(x, weight, bias, plus=plus, activation=activation)
    expected = plain(*theirs, activation)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    direction = normal(9, shape[0], shape[2])
    y.backward(direction)
    expected.backward(direction.double())
    for a, b in zip(ours, theirs, strict=True):
        if a is not None:
            assert a.grad.dtype == torch.float32
            torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-5, atol=1e-4)


def test_without_rows_gradients_are_zero():
    x, weight, bias, _ = (None if t is None else t.requires_grad_() for t in operands((0, 9, 20)))
    linear(x, weight, bias, activation="relu").sum().backward()
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert torch.equal(bias.grad, torch.zeros_like(bias))
    assert torch.equal(gram(x), torch.zeros(9, 9))


def test_what_torch_rounds_upstream_is_taken():
    """Some of torch's operations give bf16 under autocast; products are float32 again, with gradients."""
    x, weight, bias, _ = (None if t is None else t.requires_grad_() for t in operands((7, 5, 3)))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = linear(x.bfloat16(), weight, bias)
        expected = linear(x.bfloat16().float(), weight, bias)
    rounded.sum().backward()
    assert rounded.dtype == x.grad.dtype == torch.float32
    assert torch.equal(rounded, expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_equals_torch_in_float32(activation):
    x, weight, bias, _ = operands((300, 100, 128))
    expected = ACTIVATIONS[activation](functional.linear(x, weight, bias))
    torch.testing.assert_close(linear(x, weight, bias, activation=activation), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradcheck_in_float64(given, activation):
    inputs = [t.requires_grad_() for t in operands((5, 4, 3), given, torch.float64) if t is not None]

    def call(x, weight, *rest):
        named = dict(zip(given.split(), rest, strict=True))
        return linear(x, weight, named.get("bias"), plus=named.get("plus"), activation=activation)

    assert torch.autograd.gradcheck(call, inputs)


def test_only_what_needs_a_gradient_gets_one():
    x, weight, bias, plus = operands((6, 4, 3))
    weight.requires_grad_()
    linear(x, weight, bias, plus=plus).sum().backward()
    assert x.grad is None and bias.grad is None and plus.grad is None
    torch.testing.assert_close(weight.grad, x.sum(0).expand(3, 4))


def test_operands_are_left_alone():
    inputs = operands((600, 12, 8))
    before = [t.clone() for t in inputs]
    x, weight, bias, plus = (t.requires_grad_() for t in inputs)
    y = linear(x, weight, bias, plus=plus, activation="elu")
    direction = normal(5, 600, 8)
    kept = direction.clone()
    y.backward(direction)
    assert torch.equal(direction, kept)
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))


def test_operands_that_are_views_of_other_layouts():
    x, weight, _, _ = operands((20, 12, 8))
    expected = x[:, :6].double() @ weight[:, :6].double().t()
    torch.testing.assert_close(linear(x[:, :6], weight[:, :6]).double(), expected, rtol=1e-5, atol=1e-5)
    turned = linear(x.t(), torch.ones(2, 20))
    torch.testing.assert_close(turned, x.sum(0)[:, None].expand(12, 2), rtol=1e-5, atol=1e-5)


def test_no_rows_give_no_rows():
    x, weight, bias, _ = operands((0, 4, 3))
    weight.requires_grad_()
    y = linear(x, weight, bias, activation="relu")
    assert y.shape == (0, 3)
    y.sum().backward()
    assert torch.equal(weight.grad, torch.zeros(3, 4))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bf16_under_autocast(activation):
    """Operands lose 8 bits, as may a stored result; sums and the types of results are float32."""
    ours = [t.requires_grad_() for t in operands((50, 40, 30))]
    theirs = double(ours)
    x, weight, bias, plus = ours
    with torch.autocast("cpu", torch.bfloat16):
        y = linear(x, weight, bias, plus=plus, activation=activation)
    assert y.dtype == torch.float32
    expected = plain(*theirs, activation)
    scale = (x.abs() @ weight.abs().t() + bias.abs() + plus.abs()).detach()
    error = (y.detach() - expected.detach()).abs()
    assert (error <= 3 * 2.0**-8 * scale).all()
    assert error.max() > 1e-4, "must really have been bf16"
    y.backward(torch.ones_like(y))
    slope = (
        torch.ones_like(y)
        if activation == "none"
        else torch.where(y > 0, 1.0, y + 1 if activation == "elu" else 0)
    )
    slope = slope.detach()
    for tensor, wanted in zip(ours, (slope @ weight, slope.t() @ x, slope.sum(0), slope), strict=True):
        assert tensor.grad.dtype == torch.float32
        torch.testing.assert_close(tensor.grad, wanted.detach(), rtol=0.02, atol=0.2)


@pytest.mark.parametrize("onednn", [True, False])
def test_plain_products_stay_full_precision_under_autocast(onednn, monkeypatch):
    if not onednn:
        monkeypatch.setattr(products, "_onednn", lambda a, b: False)
    a, b = normal(0, 700, 20), normal(1, 20, 10)
    with torch.autocast("cpu", torch.bfloat16):
        results = matmul(a, b), by_rows(a, b), gram(a)
    a, b = a.double(), b.double()
    for ours, exact in zip(results, (a @ b, a @ b, a.t() @ a), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "shape", [(2000, 100, 128), (513, 129, 37), (300, 128, 1024), (512, 128, 1024), (20_000, 16, 12)]
)
@pytest.mark.parametrize("bf16", [False, True])
def test_threads_do_not_change_a_bit(shape, bf16, restore_threads):
    """oneDNN does cut sums among threads when they are long (20,000 rows): tasks must not let it."""

    def run(threads):
        torch.set_num_threads(threads)
        inputs = [t.requires_grad_() for t in operands(shape)]
        x, weight, bias, plus = inputs
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y = linear(x, weight, bias, plus=plus, activation="elu")
        y.backward(torch.cos(torch.arange(y.numel(), dtype=torch.float32)).view_as(y))
        return (
            y.detach(),
            gram(x.detach()),
            by_rows(x.detach(), weight.detach().t()),
            *(t.grad for t in inputs),
        )

    one = run(1)
    for threads in (2, 3):
        others = [run(threads)]
        torch.set_num_threads(threads)
        with lanes():
            others.append(run(1))
        for other in others:
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
