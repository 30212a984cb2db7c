"""What a plan means on one graph: the nodes it is fitted on, and how many steps that takes."""

from __future__ import annotations

from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part
from lrgi.graph.split import TRAIN
from lrgi.sampling.sample import Batches
from lrgi.sampling.share import EVERYTHING, Owned
from lrgi.training.plan import FitPlan


def resolve_fit_on(plan: FitPlan, graph: Graph) -> str:
    """The plan's `fit_on` without "auto": whole graphs are held out where a split holds some out."""
    if isinstance(graph, Part):
        if plan.fit_on not in ("auto", graph.fit_on):
            raise InputError(
                f"fit_on of a graph in parts must be what it was cut for, {graph.fit_on!r}, "
                f"got {plan.fit_on!r}; drop it, or cut the graph again with `lrgi partition --fit-on`"
            )
        return graph.fit_on
    if plan.fit_on != "auto":
        return plan.fit_on
    held_out = graph.num_graphs > 1 and graph.split is not None and bool((graph.split == TRAIN).any())
    return "train" if held_out else "all"


def protocol_of(fit_on: str) -> str:
    """The name of an evaluation after a fit on these nodes (docs/decisions/0012)."""
    return "transductive" if fit_on == "all" else "inductive"


def planned_steps(plan: FitPlan, graph: Graph) -> tuple[int, ...]:
    """Steps of every layer on the graph that is fitted on, first layer first."""
    return tuple(_steps(plan.for_layer(number), graph, number) for number in range(1, plan.layers + 1))


def _steps(own: FitPlan, graph: Graph, number: int) -> int:
    share = Owned(graph) if isinstance(graph, Part) else EVERYTHING
    batches = len(Batches(graph, own.sampling, own.seed, number, share=share))
    return batches * own.epochs_of(batches)
