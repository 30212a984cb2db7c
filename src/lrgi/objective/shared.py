"""Eq. 1 on a batch that several processes share: the terms and gradients of one process that had it all.

Each process has its own rows of u and v. One message makes the covariances of the whole batch; with closed
predictors a second one, on the way back, adds up the gradient of the regressions, which all rows have a
part in. Nothing else is sent before the gradients of the weights.

Every process returns its share of each term, and shares add up to the term; the gradient that it takes is
that of the sum over all processes with respect to its own rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lrgi.compute.products import by_rows, gram
from lrgi.distributed.collectives import World
from lrgi.objective.covariance import covariance_term, variance_term
from lrgi.objective.infomax import Terms
from lrgi.objective.predictors import ClosedPredictors, Predictors


class Spread(NamedTuple):
    """Covariances of the whole batch, divided by B - 1, and the means, which are constants."""

    uu: Tensor
    vv: Tensor
    vu: Tensor  # [D, D]: columns of v against those of u; empty where nobody asked
    mean_u: Tensor
    mean_v: Tensor


def shared_terms(u: Tensor, v: Tensor, predictors: Predictors, batch: int, world: World) -> Terms:
    """This process's share of Eq. 1's terms, for its rows u, v [b, D] of a batch of `batch` rows."""
    closed = isinstance(predictors, ClosedPredictors)
    spread = Spread(*_Covariances.apply(u, v, closed, batch, world))  # type: ignore[no-untyped-call]
    if isinstance(predictors, ClosedPredictors):
        u_from_v, v_from_u = _regressions(u, v, spread, predictors.ridge, world)
    else:
        u_from_v, v_from_u = predictors(u, v)
    squares = functional.mse_loss(u, u_from_v, reduction="sum") + functional.mse_loss(
        v, v_from_u, reduction="sum"
    )
    return Terms(
        reconstruction=squares / (batch * u.shape[1]),
        variance=_an_equal_share(variance_term(spread.uu) + variance_term(spread.vv), world),
        covariance=_an_equal_share(covariance_term(spread.uu) + covariance_term(spread.vv), world),
    )


def _regressions(u: Tensor, v: Tensor, spread: Spread, ridge: float, world: World) -> tuple[Tensor, Tensor]:
    """Every process solves the same small systems, and predicts its own rows.

    The means need no gradient: residuals of a regression with an intercept add up to zero.
    """
    with torch.autocast(u.device.type, enabled=False):
        solutions = torch.stack(
            [_solve(spread.vv, spread.vu, ridge), _solve(spread.uu, spread.vu.t(), ridge)]
        )
        w_u, w_v = _UsedByAll.apply(solutions, world)  # type: ignore[no-untyped-call]
        u_from_v = torch.addmm(spread.mean_u, v - spread.mean_v, w_u)
        return u_from_v, torch.addmm(spread.mean_v, u - spread.mean_u, w_v)


def _solve(c: Tensor, cross: Tensor, ridge: float) -> Tensor:
    ridged = c + ridge * torch.eye(len(c), dtype=c.dtype, device=c.device)
    return torch.cholesky_solve(cross, torch.linalg.cholesky(ridged))


def _an_equal_share(term: Tensor, world: World) -> Tensor:
    share: Tensor = _EqualShare.apply(term, world.size)  # type: ignore[no-untyped-call]
    return share


class _Covariances(torch.autograd.Function):
    """Each process sends its rows' products about their own mean, and in a place of its own that mean.

    Chan, Golub and LeVeque's way to join them: one message, and nothing cancels.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, cross: bool, batch: int, world: World) -> tuple[Tensor, ...]:
        own = torch.stack([x.sum(0) / max(len(x), 1) for x in (u, v)])
        centred = [x.detach() - mean for x, mean in zip((u, v), own, strict=True)]
        means = u.new_zeros(world.size, 2, u.shape[1])
        counts = u.new_zeros(world.size)
        means[world.rank], counts[world.rank] = own, len(u)
        uu, vv = gram(centred[0]), gram(centred[1])
        vu = by_rows(centred[1].t(), centred[0]) if cross else u.new_empty(0, 0)
        world.add_up(uu, vv, vu, means, counts)
        mean = (counts[:, None, None] * means).sum(0) / batch
        apart = (means - mean) * counts.sqrt()[:, None, None]
        for c, a, b in ((uu, 0, 0), (vv, 1, 1), (vu, 1, 0)):
            if len(c):
                c += apart[:, a].t() @ apart[:, b]
                c /= batch - 1
        ctx.save_for_backward(centred[0] + (own[0] - mean[0]), centred[1] + (own[1] - mean[1]))
        ctx.batch = batch
        mean_u, mean_v = mean[0].clone(), mean[1].clone()
        ctx.mark_non_differentiable(mean_u, mean_v)
        return uu, vv, vu, mean_u, mean_v

    @staticmethod
    def backward(ctx: Any, d_uu: Tensor, d_vv: Tensor, d_vu: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        u, v = ctx.saved_tensors
        d_u, d_v = by_rows(u, d_uu + d_uu.t()), by_rows(v, d_vv + d_vv.t())
        if len(d_vu):
            d_u += by_rows(v, d_vu)
            d_v += by_rows(u, d_vu.t())
        return d_u / (ctx.batch - 1), d_v / (ctx.batch - 1), None, None, None


class _UsedByAll(torch.autograd.Function):
    """What is the same in all processes, and used by each for its own rows: their gradients add up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, world: World) -> Tensor:
        ctx.world = world
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.contiguous().clone()
        ctx.world.add_up(total)
        return total, None


class _EqualShare(torch.autograd.Function):
    """The P-th part of a term that all processes know, with the gradient of the whole of it."""

    @staticmethod
    def forward(ctx: Any, term: Tensor, size: int) -> Tensor:
        return term / size

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None
