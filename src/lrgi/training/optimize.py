"""One descent step, and the learning rate as a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from lrgi.errors import DivergedError
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


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, rate: float, place: Place) -> None:
    """One step down the gradient of `loss`; a loss that is not finite is refused before it does harm."""
    if not math.isfinite(float(loss.detach())):
        raise DivergedError(
            f"the loss must be finite, got {float(loss.detach())} at {place}; "
            "lower the learning rate, or scale the features to about 1"
        )
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
