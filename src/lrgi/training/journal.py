"""Everything that is not the algorithm listens: bars, logs, checkpoints hang on a journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lrgi.graph.features import DenseTable
from lrgi.layers.layer import GraphLayer
from lrgi.objective.terms import LossTerms
from lrgi.sampling.block import Block
from lrgi.training.plan import FitPlan


class Place(NamedTuple):
    """Where a fit is: layer and epoch from 1, step within the layer from 1."""

    layer: int
    epoch: int
    step: int
    steps: int  # in this layer, all epochs

    def __str__(self) -> str:
        return f"layer {self.layer}, epoch {self.epoch}, step {self.step} of {self.steps}"


@dataclass(frozen=True)
class StepRecord:
    """What a step says of itself. Terms are detached tensors: who wants their numbers waits for them."""

    place: Place
    terms: LossTerms
    learning_rate: float
    block: Block


class Listener:
    """Hears what happens in a fit; override what is of interest."""

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Before the first step of a layer."""

    def step_taken(self, record: StepRecord) -> None:
        """After an update of the weights."""

    def layer_fitted(self, layer: int, module: GraphLayer) -> None:
        """After the last step of a layer, before anything is embedded with it."""

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """When U_(l) of the graph that is fitted on is there."""


class Journal(Listener):
    """Tells all its listeners, in order."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.layer_started(layer, plan, steps)

    def step_taken(self, record: StepRecord) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.step_taken(record)

    def layer_fitted(self, layer: int, module: GraphLayer) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.layer_fitted(layer, module)

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.layer_embedded(layer, table)
