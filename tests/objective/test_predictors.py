"""NetworkPredictors are Linear, ReLU, Linear, begun as torch begins them and drawn from a stream."""

import math

import pytest
import torch
from torch import nn

from lrgi import seed as randomness
from lrgi.objective.predictors import NetworkPredictors


def predictors(width=6, expansion=8, *path):
    return NetworkPredictors(width, expansion, randomness.torch_stream(0, "predictors", *path))


def torch_twin(network, width, hidden):
    twin = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
    with torch.no_grad():
        twin[0].weight.copy_(network.weight_in)
        twin[0].bias.copy_(network.bias_in)
        twin[2].weight.copy_(network.weight_out)
        twin[2].bias.copy_(network.bias_out)
    return twin


@pytest.mark.parametrize(("width", "expansion"), [(6, 8), (5, 1), (16, 2)])
def test_they_equal_torch_modules_with_the_same_weights(width, expansion):
    ours = predictors(width, expansion)
    u, v = (torch.randn(30, width, generator=torch.Generator().manual_seed(s)) for s in (1, 2))
    inputs = [t.clone().requires_grad_() for t in (u, v, u, v)]
    u_from_v, v_from_u = ours(inputs[0], inputs[1])
    twins = [torch_twin(network, width, expansion * width) for network in (ours.u_from_v, ours.v_from_u)]
    expected = twins[0](inputs[3]), twins[1](inputs[2])
    torch.testing.assert_close(u_from_v, expected[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(v_from_u, expected[1], rtol=1e-5, atol=1e-6)
    loss = lambda a, b: (a.sin() + 2 * b.cos()).sum()  # noqa: E731
    loss(u_from_v, v_from_u).backward()
    loss(*expected).backward()
    torch.testing.assert_close(inputs[0].grad, inputs[2].grad, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(inputs[1].grad, inputs[3].grad, rtol=1e-5, atol=1e-6)
    for network, twin in zip((ours.u_from_v, ours.v_from_u), twins, strict=True):
        for a, b in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-5)


def test_gradcheck_in_float64():
    ours = predictors(3, 2).double()
    random = torch.Generator().manual_seed(3)
    u, v = (torch.randn(5, 3, dtype=torch.float64, generator=random).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(ours, (u, v))


def test_without_rows_gradients_are_zero():
    """A process that has no rows of a batch adds nothing to its gradients."""
    ours = predictors(6, 8)
    spoilt = [torch.full_like(p, float("nan")) for p in ours.parameters()]
    del spoilt  # what is made next lies where these lay
    u, v = (torch.zeros(0, 6, requires_grad=True) for _ in range(2))
    u_from_v, v_from_u = ours(u, v)
    (u_from_v.sum() + v_from_u.sum()).backward()
    for parameter in ours.parameters():
        assert torch.equal(parameter.grad, torch.zeros_like(parameter))


def test_the_same_stream_gives_the_same_weights():
    one = predictors(6, 8, 3).state_dict()
    before = torch.random.get_rng_state()
    two, other = predictors(6, 8, 3).state_dict(), predictors(6, 8, 4).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before), "torch's own generator is not touched"
    for name in one:
        assert torch.equal(one[name], two[name])
        assert not torch.equal(one[name], other[name])
    assert not torch.equal(one["u_from_v.weight_in"], one["v_from_u.weight_in"])


def test_weights_begin_uniform_as_torch_does():
    """Uniform in +-1 / sqrt(fan in): the bound is reached but not passed, the spread is bound / sqrt(3)."""
    network = predictors(64, 8).u_from_v
    for parameter, fan_in in (
        (network.weight_in, 64), (network.bias_in, 64), (network.weight_out, 512), (network.bias_out, 512)
    ):  # fmt: skip
        bound = 1 / math.sqrt(fan_in)
        assert parameter.abs().max() <= bound
        assert parameter.abs().max() > 0.9 * bound
        assert float(parameter.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.15)
