"""`joint_terms` against its plain form: Eq. 1 of views and predictions, by autograd."""

import pytest
import torch

from lrgi import seed as randomness
from lrgi.compute.threads import lanes
from lrgi.objective.infomax import Weights, infomax_terms
from lrgi.objective.joint import joint_terms
from lrgi.objective.predictors import ClosedPredictors, NetworkPredictors

WEIGHTS = Weights(25.0, 10.0, 3.0)


def views(rows, width, dtype=torch.float64):
    random = torch.Generator().manual_seed(rows)
    u, v = (torch.randn(rows, width, generator=random, dtype=dtype) for _ in range(2))
    return (u * torch.linspace(0.5, 1.5, width, dtype=dtype) + 1).requires_grad_(), (
        0.4 * v + 0.8 * u - 2
    ).requires_grad_()


def predictors(kind, width, dtype=torch.float64):
    if kind == "closed":
        return ClosedPredictors(0.05)
    return NetworkPredictors(width, 2, randomness.torch_stream(0, "predictors")).to(dtype)


def gradients(terms, u, v, by):
    inputs = [u, v, *by.parameters()]
    return torch.autograd.grad(terms.total(WEIGHTS), inputs)


@pytest.mark.parametrize("kind", ["network", "closed"])
@pytest.mark.parametrize("shape", [(2, 1), (9, 4), (40, 17), (600, 40), (300, 520)])
def test_terms_and_gradients_are_those_of_the_plain_form(kind, shape):
    (u, v), by = views(*shape), predictors(kind, shape[1])
    joint, plain = joint_terms(u, v, by), infomax_terms(u, v, *by(u, v))
    for a, b in zip(joint, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    for a, b in zip(gradients(joint, u, v, by), gradients(plain, u, v, by), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("kind", ["network", "closed"])
def test_gradients_by_finite_differences(kind):
    (u, v), by = views(7, 3), predictors(kind, 3)
    assert torch.autograd.gradcheck(lambda a, b: joint_terms(a, b, by).total(WEIGHTS), (u, v))


@pytest.mark.parametrize("kind", ["network", "closed"])
def test_float32_is_close_to_float64(kind):
    (u, v), by = views(400, 64), predictors(kind, 64)
    narrow = [x.detach().float().requires_grad_() for x in (u, v)]
    exact, ours = joint_terms(u, v, by), joint_terms(*narrow, predictors(kind, 64, torch.float32))
    for a, b in zip(ours, exact, strict=True):
        assert a.dtype == torch.float32
        assert float(a.detach()) == pytest.approx(float(b.detach()), rel=1e-4)
    expected = torch.autograd.grad(exact.total(WEIGHTS), (u, v))
    for a, b in zip(torch.autograd.grad(ours.total(WEIGHTS), narrow), expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))


@pytest.mark.parametrize("kind", ["network", "closed"])
def test_threads_do_not_change_a_bit(kind, restore_threads):
    def run(threads):
        torch.set_num_threads(threads)
        u, v = (x.detach().float().requires_grad_() for x in views(700, 300))
        by = predictors(kind, 300, torch.float32)
        with lanes():
            terms = joint_terms(u, v, by)
            return [*terms, *gradients(terms, u, v, by)]

    one = run(1)
    for threads in (2, 3):
        assert all(torch.equal(a, b) for a, b in zip(one, run(threads), strict=True))


@pytest.mark.parametrize("kind", ["network", "closed"])
def test_what_is_not_finite_shows_in_the_loss(kind):
    u, v = views(20, 5)
    with torch.no_grad():
        u[3, 2] = float("nan")
    assert not joint_terms(u, v, predictors(kind, 5)).total(WEIGHTS).isfinite()


def test_views_that_do_not_vary_leave_nothing_to_regress():
    u = torch.full((6, 3), 2.0)
    terms = joint_terms(u, 2 * u, ClosedPredictors(0.1))
    assert [float(t) for t in terms] == pytest.approx([0, 2, 0])
