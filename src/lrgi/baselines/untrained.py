"""An encoder as a fit would begin it: random weights, never fitted."""

from __future__ import annotations

from lrgi.encoder import Encoder
from lrgi.training.fit import new_layer
from lrgi.training.plan import FitPlan


def untrained_encoder(plan: FitPlan, num_features: int) -> Encoder:
    """The plan's layers with the very weights that its fit starts from."""
    widths = [num_features, *(plan.for_layer(number).width for number in range(1, plan.layers + 1))]
    return Encoder([new_layer(plan, number, widths[number - 1]) for number in range(1, plan.layers + 1)])
