"""Everything that is not the algorithm listens: bars, logs, checkpoints hang on a journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from lrgi.graph.features import DenseTable, Table
from lrgi.objective.terms import LossTerms
from lrgi.sampling.block import Block
from lrgi.training.plan import FitPlan
from lrgi.training.tables import TableStore


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
    sent: int = 0  # bytes that this process has sent to others, since the beginning


class Listener:
    """Hears what happens in a fit; override what is of interest."""

    def fit_begins(self, module: nn.Module, table: Table) -> None:
        """What is fitted, and the frozen table that it reads: before `layer_started`."""

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Before the first step of a layer."""

    def step_taken(self, record: StepRecord) -> None:
        """After an update of the weights."""

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """After the last step of a layer (or a stack), before anything is embedded with it."""

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """When U_(l) of the graph that is fitted on is there."""


class Moving(NamedTuple):
    """All that a step changes: with these three and the place, a fit can go on in another process.

    `result` is the module that has the fit's weights in the end, and those it begins with: the layer itself,
    or another one that gives the same (`inputs.py`).
    """

    layer: nn.Module
    objective: nn.Module
    optimizer: torch.optim.Optimizer
    result: nn.Module


class Keeper(Listener):
    """Says where a fit begins and where its tables are made: this one at the beginning, and in memory.

    One that writes down what it hears can begin in the middle (`checkpoint.py`).
    """

    def __init__(self, tables: TableStore | None = None) -> None:
        self.tables = tables or TableStore()

    def resume(self, layer: int, moving: Moving, steps: int) -> int:
        """Put the state of a layer's fit back; returns how many steps are done: all, if it is fitted."""
        return 0


class Journal(Listener):
    """Tells all its listeners in order, the keeper last: what it writes down they have heard."""

    def __init__(self, *listeners: Listener, keeper: Keeper | None = None) -> None:
        self.keeper = keeper or Keeper()
        self.listeners = (*listeners, self.keeper)

    def fit_begins(self, module: nn.Module, table: Table) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.fit_begins(module, table)

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.layer_started(layer, plan, steps)

    def step_taken(self, record: StepRecord) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.step_taken(record)

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.layer_fitted(layer, module)

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """Tell all."""
        for listener in self.listeners:
            listener.layer_embedded(layer, table)
