"""Eq. 1 of both views and what predicts them, as one call each way: `joint_terms`.

On a processor a step's small operations cost more than their arithmetic: autograd's two dozen of them, each
a stop for all threads, are here a few calls whose tasks are independent. The same numbers, written
plainly: `infomax_terms(u, v, *predictors(u, v))`, which is what happens on accelerators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lrgi.compute.products import bf16_products, precision_of
from lrgi.compute.threads import run_each, run_tasks
from lrgi.layers.rows import frozen
from lrgi.objective import _spread_kernels
from lrgi.objective.infomax import Terms, infomax_terms
from lrgi.objective.networks import Pass, Task
from lrgi.objective.predictors import NetworkPredictors, Predictors, by_network

_BLOCK = 256  # rows of a covariance matrix, or of a view, that one task writes


def joint_terms(u: Tensor, v: Tensor, predictors: Predictors) -> Terms:
    """The terms for views u, v [B, D] and what the predictors make of each."""
    if u.device.type != "cpu":
        return infomax_terms(u, v, *predictors(u, v))
    if isinstance(predictors, NetworkPredictors):
        how = precision_of(bf16_products("cpu"))
        return Terms(*_WithNetworks.apply(how, u, v, *predictors.weights()))  # type: ignore[no-untyped-call]
    return Terms(*_InClosedForm.apply(predictors.ridge, u, v))  # type: ignore[no-untyped-call]


class _WithNetworks(torch.autograd.Function):
    """Networks and covariances side by side: their tasks need nothing of each other."""

    @staticmethod
    def forward(ctx: Any, precision: int, u: Tensor, v: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        views, weights = _arrays(u, v), by_network(given)
        networks, spread = Pass(views[::-1], weights, precision), _Spread(views)
        run_each([*networks.forward(), *spread.products((0, 0), (1, 1))])
        spread.complete()
        apart = [np.empty_like(x) for x in views]
        squares = [
            _spread_kernels.residual(frozen(networks.parts[i]), weights[i][3], views[i], apart[i])
            for i in range(2)
        ]
        ctx.save_for_backward(u, v, *given)
        ctx.made = (networks, spread, [frozen(x) for x in apart])
        return _terms(u, sum(squares) / u.numel(), spread)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_terms: Tensor) -> tuple[Tensor | None, ...]:
        (networks, spread, apart), _ = ctx.made, ctx.saved_tensors  # which says so if one was changed
        d_fit, *d_spread = (float(d) for d in d_terms)
        d_out = [frozen(x * x.dtype.type(2 * d_fit / x.size)) for x in apart]
        views = [np.empty_like(x) for x in apart]
        run_each([*networks.backward(d_out), *spread.backward(spread.gradients(*d_spread), views)])
        for i, x in enumerate(views):  # a view is a network's input and the other's target
            parts = frozen(networks.parts[1 - i])
            _spread_kernels.add_gradient(parts, d_out[i], (0, len(x)), x)
        d_views = (torch.from_numpy(x) for x in views)
        return None, *d_views, *(torch.from_numpy(d) for own in networks.d_weights for d in own)


class _InClosedForm(torch.autograd.Function):
    """Ridge regressions by the covariances alone: no prediction is written down.

    With M = C_vv + r I and W = M^-1 C_vu, what is left of u is (B - 1) (tr C_uu - <W, C_vu> - r |W|^2); with
    Y = M^-1 W its gradients are 1 for C_uu, -2 (W + r Y) for C_vu, and the symmetric part of
    W (W + 2 r Y)^T for C_vv. So there are no products of [B, D] but those with covariances.
    """

    @staticmethod
    def forward(ctx: Any, ridge: float, u: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        spread = _Spread(_arrays(u, v))
        run_each(spread.products((0, 0), (1, 1), (1, 0)))
        spread.complete()
        solved: list[Any] = [None, None]

        def solve(i: int) -> None:
            solved[i] = _regression(spread, i, ridge)

        run_tasks(solve, 2)
        factor = spread.freedom / u.numel()
        ctx.save_for_backward(u, v)
        ctx.made = (spread, [made[1:] for made in solved], factor)
        return _terms(u, factor * sum(made[0] for made in solved), spread)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_terms: Tensor) -> tuple[Tensor | None, ...]:
        (spread, ((there, of_v), (back, of_u)), factor), _ = ctx.made, ctx.saved_tensors
        d_fit, *d_spread = (float(d) for d in d_terms)
        d_c = spread.gradients(*d_spread, factor * d_fit, (of_u, of_v))
        scale = there.dtype.type(spread.over_freedom * factor * d_fit)
        d_c[1, 0] = np.empty_like(there)
        _spread_kernels.cross_gradient(there, back, scale, d_c[1, 0])
        views = [np.empty_like(x) for x in spread.centred]
        run_each(spread.backward(d_c, views))
        return None, *(torch.from_numpy(x) for x in views)


class _Spread:
    """Centred views 0 (u) and 1 (v) and their covariances c[i, j] [D, D], divided by B - 1."""

    def __init__(self, views: list[np.ndarray]) -> None:
        centred = [np.empty_like(x) for x in views]
        for x, out in zip(views, centred, strict=True):
            _spread_kernels.centre(x, out)
        self.centred = [frozen(x) for x in centred]
        self.freedom = len(views[0]) - 1
        self.over_freedom = 1 / self.freedom if self.freedom else math.nan
        self.c: dict[tuple[int, int], np.ndarray] = {}

    def products(self, *pairs: tuple[int, int]) -> list[Task]:
        """What makes the covariances of these pairs; of a view with itself the upper half."""
        width, dtype = self.centred[0].shape[1], self.centred[0].dtype
        scale, tasks = dtype.type(self.over_freedom), []
        for i, j in pairs:
            self.c[i, j] = np.empty((width, width), dtype)
            given = (self.centred[i], self.centred[j])
            for span in _spans(width):
                tasks.append(_task(_spread_kernels.cross_products, *given, span, i == j, scale, self.c[i, j]))
        return tasks

    def complete(self) -> None:
        """The other halves."""
        for i, j in self.c:
            if i == j:
                _spread_kernels.mirror(self.c[i, j])
        self.c = {pair: frozen(c) for pair, c in self.c.items()}

    def gradients(
        self,
        d_variance: float,
        d_covariance: float,
        d_fit: float = 0,
        outers: tuple[np.ndarray, ...] | None = None,
    ) -> dict[tuple[int, int], np.ndarray]:
        """With respect to the views' own covariances, as `backward` takes them."""
        made = {}
        for i in range(2):
            out, weights = np.empty_like(self.c[i, i]), (d_variance, d_covariance, d_fit)
            outer = self.c[i, i][:0] if outers is None else outers[i]
            _spread_kernels.own_gradient(self.c[i, i], outer, weights, self.over_freedom, out)
            made[i, i] = out
        return made

    def backward(self, d_c: dict[tuple[int, int], np.ndarray], views: list[np.ndarray]) -> list[Task]:
        """What writes the gradients of the views."""
        g = {pair: frozen(d) for pair, d in d_c.items()}

        def rows(i: int, span: tuple[int, int]) -> None:
            _spread_kernels.times(self.centred[i], g[i, i], span, False, False, views[i])
            if (1, 0) in g:
                _spread_kernels.times(self.centred[1 - i], g[1, 0], span, i == 1, True, views[i])

        return [_task(rows, i, span) for i in range(2) for span in _spans(len(views[i]))]


def _regression(spread: _Spread, i: int, ridge: float) -> tuple[float, np.ndarray, np.ndarray]:
    """What is left of view i, predicted from the other; its gradients for their C, and for the other's."""
    other, cross = spread.c[1 - i, 1 - i], spread.c[1, 0]
    cross = cross if i == 0 else frozen(np.ascontiguousarray(cross.T))
    m, w, y, d_cross, outer = (np.empty_like(other) for _ in range(5))
    _spread_kernels.ridged(other, ridge, m)
    factor, _ = torch.linalg.cholesky_ex(torch.from_numpy(m))  # where there is none, the loss is no number
    inverse = frozen(torch.cholesky_inverse(factor))
    _spread_kernels.product(inverse, cross, False, w)
    _spread_kernels.product(inverse, frozen(w), False, y)
    left = _spread_kernels.regression_left(spread.c[i, i], cross, frozen(w), ridge)
    _spread_kernels.regression_gradients(w, y, ridge, d_cross, m)
    _spread_kernels.product(frozen(w), frozen(m), True, outer)
    return left, d_cross, outer


def _terms(like: Tensor, fit: float, spread: _Spread) -> tuple[Tensor, ...]:
    of_u, of_v = (_spread_kernels.spread_of(spread.c[i, i]) for i in range(2))
    return tuple(like.new_tensor(x) for x in (fit, of_u[0] + of_v[0], of_u[1] + of_v[1]))


def _arrays(*views: Tensor) -> list[np.ndarray]:
    return [frozen(x.contiguous()) for x in views]


def _task(kernel: Callable[..., object], *args: Any) -> Task:
    def task() -> None:
        kernel(*args)

    return task


def _spans(count: int) -> list[tuple[int, int]]:
    """Rows that one task writes."""
    return [(a, min(a + _BLOCK, count)) for a in range(0, count, _BLOCK)]
