"""Eq. 1 against loops over nodes and columns, its gradient against finite differences, its fixed points."""

import math

import pytest
import torch

from lrgi.compute.threads import lanes
from lrgi.objective.covariance import covariance
from lrgi.objective.infomax import Weights, infomax_terms
from reference.objective import covariance as covariance_loop
from reference.objective import terms_of_one_view

SHAPES = [(2, 1), (5, 3), (12, 7), (4, 9)]


def views(shape, dtype=torch.float64):
    random = torch.Generator().manual_seed(shape[0])
    scales = torch.linspace(0.3, 2, shape[1], dtype=dtype)
    return [torch.randn(*shape, generator=random, dtype=dtype) * scales + i for i in range(4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_terms_are_those_of_the_loops(shape):
    u, v, u_from_v, v_from_u = views(shape)
    loops = zip(terms_of_one_view(u, u_from_v), terms_of_one_view(v, v_from_u), strict=True)
    expected = [of_u + of_v for of_u, of_v in loops]
    terms = infomax_terms(u, v, u_from_v, v_from_u)
    assert [float(t) for t in terms] == pytest.approx(expected, rel=1e-12)
    weights = Weights(10.0, 5.0, 2.0)
    total = 10 * expected[0] + 5 * expected[1] + 2 * expected[2]
    assert float(terms.total(weights)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("shape", [(12, 7), (200, 40)])
def test_float32_terms_are_close_to_float64(shape):
    exact = infomax_terms(*views(shape))
    ours = infomax_terms(*[view.float() for view in views(shape)])
    for a, b in zip(ours, exact, strict=True):
        assert a.dtype == torch.float32
        assert float(a) == pytest.approx(float(b), rel=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_of_the_loss_by_finite_differences(shape):
    inputs = [view.requires_grad_() for view in views(shape)]
    loss = lambda *a: infomax_terms(*a).total(Weights(1.5, 0.7, 0.3))  # noqa: E731
    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("shape", SHAPES)
def test_covariance_divides_by_one_less_than_the_batch(shape):
    x = views(shape)[0]
    torch.testing.assert_close(covariance(x), torch.tensor(covariance_loop(x), dtype=torch.float64))
    expected = torch.cov(x.t(), correction=1).reshape(shape[1], shape[1])
    torch.testing.assert_close(covariance(x), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_of_covariance_by_finite_differences(shape):
    assert torch.autograd.gradcheck(covariance, views(shape)[0].requires_grad_())


def test_float32_gradient_is_that_of_the_plain_formula():
    inputs = [view.float().requires_grad_() for view in views((300, 40))]
    infomax_terms(*inputs).total(Weights(2.0, 3.0, 5.0)).backward()
    plain = [view.detach().double().requires_grad_() for view in inputs]
    loss = 2 * ((plain[0] - plain[2]).square().mean() + (plain[1] - plain[3]).square().mean())
    for y in plain[:2]:
        c = torch.cov(y.t())
        off = c - torch.diag(c.diagonal())
        loss = loss + 3 * (1 - c.diagonal()).square().sum() / 40 + 5 * off.square().sum() / 40
    loss.backward()
    for ours, theirs in zip(inputs, plain, strict=True):
        torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-4, atol=1e-6)


def test_terms_stay_full_precision_under_autocast():
    inputs = [view.float() for view in views((64, 16))]
    with torch.autocast("cpu", torch.bfloat16):
        narrow = infomax_terms(*inputs)
    for a, b in zip(narrow, infomax_terms(*inputs), strict=True):
        assert torch.equal(a, b)


def test_collapsed_views_pay_one_each_for_variance():
    u = torch.full((8, 5), 3.0, dtype=torch.float64)
    terms = infomax_terms(u, 2 * u, u, 2 * u)
    assert [float(t) for t in terms] == [0.0, 2.0, 0.0]


def test_orthonormal_views_predicted_exactly_cost_nothing():
    """Columns with mean 0, variance 1 (B - 1) and no correlation: from a Hadamard matrix."""
    h = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(3):
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    u = h[:, 1:6] * math.sqrt(7 / 8)
    terms = infomax_terms(u, u.flip(1), u, u.flip(1))
    assert [float(t) for t in terms] == pytest.approx([0, 0, 0], abs=1e-14)


def test_identical_columns_pay_for_covariance():
    """D equal columns of variance 1: every off-diagonal entry is 1, so the term is D - 1 per view."""
    column = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64) * math.sqrt(3 / 4)
    u = column[:, None].expand(4, 6)
    terms = infomax_terms(u, u, u, u)
    assert [float(t) for t in terms] == pytest.approx([0, 0, 2 * 5], abs=1e-12)


def test_reconstruction_is_a_mean_over_columns_too():
    u = torch.zeros(4, 6, dtype=torch.float64)
    terms = infomax_terms(u, u, u + 2, u + 3)
    assert float(terms.reconstruction) == 2**2 + 3**2


def test_shifting_the_views_changes_only_reconstruction():
    u, v, a, b = views((12, 7))
    one, two = infomax_terms(u, v, a, b), infomax_terms(u + 5, v - 4, a, b)
    torch.testing.assert_close(one.variance, two.variance)
    torch.testing.assert_close(one.covariance, two.covariance)
    assert abs(float(one.reconstruction - two.reconstruction)) > 1


def test_threads_do_not_change_a_bit_of_the_gradient(restore_threads):
    def run(threads):
        torch.set_num_threads(threads)
        inputs = [view.float().requires_grad_() for view in views((900, 72))]
        infomax_terms(*inputs).total(Weights(10, 5, 2)).backward()
        return [t.grad for t in inputs]

    one = run(1)
    for threads in (2, 3):
        assert all(torch.equal(a, b) for a, b in zip(one, run(threads), strict=True))


def test_inside_lanes_threads_do_not_change_a_bit_of_the_terms(restore_threads):
    """Outside of them torch cuts a mean among its threads, so the terms themselves may differ by a bit."""

    def run(threads):
        torch.set_num_threads(threads)
        with lanes():
            return infomax_terms(*(view.float() for view in views((900, 72))))

    assert all(torch.equal(a, b) for a, b in zip(run(1), run(2), strict=True))
