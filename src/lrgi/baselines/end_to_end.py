"""What the end-to-end methods share: the plan's layers as one stack, fitted by the very loop of LRGI."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from lrgi.baselines.untrained import untrained_encoder
from lrgi.encoder import Encoder
from lrgi.graph.graph import Graph
from lrgi.layers.layer import GraphLayer
from lrgi.layers.stack import Stack
from lrgi.training.fit import fit_layer
from lrgi.training.journal import Journal
from lrgi.training.objective import Objective
from lrgi.training.plan import FitPlan


def fit_end_to_end(
    graph: Graph, plan: FitPlan, make_objective: Callable[[Stack], Objective], journal: Journal | None
) -> Encoder:
    """Fit all layers at once on an objective; they start from the weights of `untrained_encoder`.

    Of `plan.per_layer` the widths, kinds and heads of the layers count, and the first layer's settings
    for the fit itself. A journal hears of one fit, of layer 1, and is handed the stack.
    """
    stack = Stack(untrained_encoder(plan, graph.num_features).layers)
    fit_layer(stack, graph, graph.features, plan, 1, objective=make_objective(stack), journal=journal)
    return Encoder([cast(GraphLayer, layer) for layer in stack.layers])
