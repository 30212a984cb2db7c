"""What a fit descends on: from an encoder and a block to the terms of a loss. LRGI's is `Infomax`."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from torch import Tensor, nn

from lrgi import seed as randomness
from lrgi.distributed.collectives import present
from lrgi.graph.features import Table
from lrgi.layers.aggregate import neighbour_mean, targets_and_mean
from lrgi.layers.layer import GraphLayer
from lrgi.layers.rows import Rows
from lrgi.layers.stack import Stack
from lrgi.objective.joint import joint_terms
from lrgi.objective.predictors import ClosedPredictors, NetworkPredictors, Predictors
from lrgi.objective.shared import shared_terms
from lrgi.objective.terms import LossTerms
from lrgi.sampling.block import Block, Hop
from lrgi.training.journal import Place
from lrgi.training.plan import FitPlan

FittedModule = GraphLayer | Stack  # what a fit changes: one layer, or several as one


class Objective(nn.Module, ABC):
    """A loss on blocks. Its own parameters are fitted beside the encoder's, and gone after the fit."""

    hops = 0  # hops of neighbours that it reads beyond those of the encoder
    targets: np.ndarray | None = None  # the nodes the loss is computed on; None: all
    reads_constants = False  # whether it asks of the encoder nothing but its output on rows of the table
    shareable = False  # whether processes can have a part each of a batch, and terms that add up

    @abstractmethod
    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> LossTerms:
        """The loss of one block. What is drawn at random is a function of the seed and the place alone."""

    def after_step(self, encoder: FittedModule, place: Place) -> None:
        """Called when the weights have moved."""


class Infomax(Objective):
    """Eq. 1 on both views of the targets: RGI, for one layer (LRGI) or for a stack, end to end."""

    hops = 1  # K
    reads_constants = True
    shareable = True

    def __init__(self, plan: FitPlan, number: int, width: int) -> None:
        super().__init__()
        self.predictors, self.world = new_predictors(plan, number, width), present()

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> LossTerms:
        """Reconstruction, variance and covariance."""
        u, v = views(encoder, table, block)
        if not self.world.alone:
            return shared_terms(u, v, self.predictors, block.batch_targets, self.world)
        return joint_terms(u, v, self.predictors)


def new_predictors(plan: FitPlan, number: int, width: int) -> Predictors:
    """Of the plan's kind; a network's weights are drawn from layer `number`'s stream."""
    if plan.predictors == "closed":
        return ClosedPredictors(plan.ridge)
    random = randomness.torch_stream(plan.seed, "predictors", number)
    return NetworkPredictors(width, plan.expansion, random)


def views(encoder: FittedModule, table: Table, block: Block) -> tuple[Tensor, Tensor]:
    """(u, v) of a block's targets [B, D]: the encoder's output, and its propagation over the hops left."""
    hops = outermost_first(block)
    u = encoder(Rows.of(table, block, str(encoder.device)), *hops[: encoder.hops])
    *outer, innermost = hops[encoder.hops :]
    if not outer:
        return targets_and_mean(u, innermost)
    v = u
    for hop in (*outer, innermost):
        v = neighbour_mean(v, hop)
    return u[: block.num_targets], v


def outermost_first(block: Block) -> list[Hop]:
    """A block's hops in the order in which layers take them."""
    return [block.hop(t) for t in reversed(range(block.depth))]
