"""DGI: Velickovic, Fedus, Hamilton, Lio, Bengio and Hjelm, "Deep Graph Infomax" (ICLR 2019).

A bilinear discriminator tells the embeddings z of nodes from those of a corrupted graph, given a summary
of all: s = sigmoid(mean z), D(z, s) = sigmoid(z W s), and
L = - mean log D(z, s) - mean log(1 - D(z~, s)), where z~ has the rows of the features shuffled.

Published: width 512, Adam at 1e-3 (1e-5 on Reddit), no weight decay; one GCN layer with PReLU on whole
small graphs until the loss has not fallen for 20 epochs; on Reddit three mean layers with skips, batches
of 256 that sample 10, 10 and 25 neighbours, 150 epochs; on PPI three layers with skips, 20 epochs.
Departures: layers, batches, optimizer and number of steps are the plan's, as for every method here, and
the last fit counts, not the one of least loss. In a batch the summary is that of its targets, and rows
are shuffled among all nodes of the block. On many graphs the corruption stays within the batch's graph,
where theirs takes the features of another one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from lrgi import seed as randomness
from lrgi.baselines.augment import shuffle_rows
from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.encoder import Encoder
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.layers.rows import Rows
from lrgi.objective.infomax import Weights
from lrgi.sampling.block import Block
from lrgi.training.journal import Journal, Place
from lrgi.training.objective import FittedModule, Objective, outermost_first
from lrgi.training.plan import FitPlan


class DGITerms(NamedTuple):
    """How surely the discriminator is wrong about real and about corrupted nodes."""

    real: Tensor
    corrupted: Tensor

    def total(self, weights: Weights) -> Tensor:
        """Their sum; the plan's weights are not used."""
        return self.real + self.corrupted


class DeepGraphInfomax(Objective):
    """The discriminator's weight is all it adds."""

    def __init__(self, plan: FitPlan, width: int) -> None:
        super().__init__()
        self.seed = plan.seed
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(width, width))
        with torch.no_grad():
            random = randomness.torch_stream(plan.seed, "dgi", "discriminator")
            self.weight.uniform_(-bound, bound, generator=random)

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> DGITerms:
        """Both parts for one block."""
        rows, hops = Rows.of(table, block, str(encoder.device)), outermost_first(block)
        shuffled = shuffle_rows(rows, randomness.stream(self.seed, "dgi", "rows", place.step))
        return dgi_terms(encoder(rows, *hops), encoder(shuffled, *hops), self.weight)


def dgi_terms(z: Tensor, corrupted: Tensor, weight: Tensor) -> DGITerms:
    """From embeddings [B, D] of the graph and of its corruption, and the discriminator's weight [D, D]."""
    summary = torch.sigmoid(z.mean(0))
    query = (weight * summary).sum(1)  # sums, not products of matrices: full precision under bf16 too
    real, fake = (z * query).sum(1), (corrupted * query).sum(1)
    return DGITerms(-logsigmoid(real).mean(), -logsigmoid(-fake).mean())


def fit_dgi(graph: Graph, plan: FitPlan, journal: Journal | None = None) -> Encoder:
    """Fit all layers of the plan at once by DGI."""
    own = plan.for_layer(1)
    return fit_end_to_end(graph, plan, lambda stack: DeepGraphInfomax(own, stack.out_dim), journal)
