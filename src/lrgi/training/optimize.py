"""One descent step, and the learning rate as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lrgi.distributed.collectives import ALONE, World
from lrgi.errors import DivergedError
from lrgi.objective.terms import LossTerms, detached, with_values
from lrgi.training.journal import Place
from lrgi.training.plan import FitPlan


def adamw(parameters: Iterable[nn.Parameter], plan: FitPlan) -> torch.optim.AdamW:
    """AdamW in torch's fused form: one pass over weights, gradients and moments."""
    return torch.optim.AdamW(parameters, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True)


def learning_rate(plan: FitPlan, step: int, steps: int) -> float:
    """For step 1..steps: a linear rise over the warm-up, then constant or half a cosine down to 0."""
    rise = round(plan.warmup * steps)
    if step <= rise:
        return plan.learning_rate * step / rise
    if plan.schedule == "constant":
        return plan.learning_rate
    return plan.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - 1 - rise) / (steps - rise)))


def descend(
    optimizer: torch.optim.Optimizer,
    terms: LossTerms,
    plan: FitPlan,
    rate: float,
    place: Place,
    world: World = ALONE,
) -> LossTerms:
    """One step down the gradient of the terms' total; returns the terms, cut off from their graph.

    In a world of several processes each hands over its shares, which are added up as the gradients are.
    A loss that is not finite is refused before it does harm.
    """
    loss, known = terms.total(plan.weights), detached(terms)
    if world.alone:
        _check(loss, place)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    if not world.alone:
        shares = torch.stack(list(known._asdict().values()))
        world.add_gradients(_gradients(optimizer), shares, narrow=plan.reduction == "bf16")
        known = with_values(known, shares)
        _check(known.total(plan.weights), place)
    optimizer.step()
    return known


def _check(loss: Tensor, place: Place) -> None:
    if not math.isfinite(float(loss.detach())):
        raise DivergedError(
            f"the loss must be finite, got {float(loss.detach())} at {place}; "
            "lower the learning rate, or scale the features to about 1"
        )


def _gradients(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return [p.grad for p in parameters if p.grad is not None]
