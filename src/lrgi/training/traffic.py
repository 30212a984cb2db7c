"""What the processes of a fit will send each other: bytes and messages per step."""

from __future__ import annotations

from typing import NamedTuple

from lrgi.training.fit import new_layer
from lrgi.training.objective import new_predictors
from lrgi.training.plan import FitPlan

_FLOAT, _TERMS = 4, 3


class Traffic(NamedTuple):
    """Bytes that each process sends in a step, by what they are for."""

    layer: int  # gradients of the layer that is fitted
    predictors: int  # gradients of its predictors
    covariances: int  # of the batch, on the way forward
    regressions: int  # gradients of closed predictors, on the way back
    messages: int  # sums that have to be waited for

    @property
    def total(self) -> int:
        """All bytes."""
        return self.layer + self.predictors + self.covariances + self.regressions


def step_traffic(plan: FitPlan, in_dim: int, number: int, processes: int) -> Traffic:
    """Of a step of layer `number`, fitted on `in_dim` columns; a ring sends 2 (P - 1) / P of a sum."""
    if processes == 1:
        return Traffic(0, 0, 0, 0, 0)
    own, closed = plan.for_layer(number), plan.for_layer(number).predictors == "closed"
    layer = sum(p.numel() for p in new_layer(plan.with_settings(device="cpu"), number, in_dim).parameters())
    predictors = sum(p.numel() for p in new_predictors(own, number, own.width).parameters())
    square, narrow = own.width**2, own.reduction == "bf16"
    gradient = 2 if narrow else _FLOAT
    joined = (3 if closed else 2) * square + processes * (2 * own.width + 1)

    def ring(size: int) -> int:
        return 2 * (processes - 1) * size // processes

    return Traffic(
        layer=ring(gradient * layer + _FLOAT * _TERMS),
        predictors=ring(gradient * predictors),
        covariances=ring(_FLOAT * joined),
        regressions=ring(_FLOAT * 2 * square) if closed else 0,
        messages=2 + closed + narrow,
    )
