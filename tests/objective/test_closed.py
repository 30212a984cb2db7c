"""ClosedPredictors are ridge regressions: a slow twin, the gradient, and what they must not beat."""

import numpy as np
import pytest
import torch

from lrgi.objective.predictors import ClosedPredictors


def views(rows=40, width=5, dtype=torch.float64, seed=0):
    random = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(rows, width, dtype=dtype, generator=random) for _ in range(2))
    return u + 3, 0.5 * v + u


def slow_twin(x, y, ridge):
    """Ridge regression of y on x, by the normal equations, one column at a time."""
    x, y = x.numpy(), y.numpy()
    centred = x - x.mean(0)
    out = np.empty_like(y)
    for column in range(y.shape[1]):
        target = y[:, column] - y[:, column].mean()
        gram = centred.T @ centred + ridge * (len(x) - 1) * np.eye(x.shape[1])
        out[:, column] = centred @ np.linalg.inv(gram) @ (centred.T @ target) + y[:, column].mean()
    return out


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_they_equal_a_ridge_regression_column_by_column(ridge):
    u, v = views()
    u_from_v, v_from_u = ClosedPredictors(ridge)(u, v)
    np.testing.assert_allclose(u_from_v.numpy(), slow_twin(v, u, ridge), atol=1e-10)
    np.testing.assert_allclose(v_from_u.numpy(), slow_twin(u, v, ridge), atol=1e-10)


def test_the_gradient_goes_through_the_solve():
    u, v = (x.requires_grad_() for x in views(rows=9, width=3))
    assert torch.autograd.gradcheck(ClosedPredictors(0.1), (u, v))


def test_no_linear_map_of_the_batch_predicts_better_as_the_ridge_vanishes():
    u, v = views(rows=200)
    u_from_v, _ = ClosedPredictors(1e-9)(u, v)
    best = torch.linalg.lstsq(torch.cat([v, torch.ones(len(v), 1, dtype=v.dtype)], 1), u).solution
    least = (torch.cat([v, torch.ones(len(v), 1, dtype=v.dtype)], 1) @ best - u).square().mean()
    torch.testing.assert_close((u_from_v - u).square().mean(), least, rtol=1e-6, atol=0)


def test_they_have_nothing_to_fit():
    assert list(ClosedPredictors(0.1).parameters()) == []
