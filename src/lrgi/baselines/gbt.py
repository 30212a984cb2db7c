"""G-BT: Bielak, Kajdanowicz and Chawla, "Graph Barlow Twins" (Knowledge-Based Systems 2022, arXiv 2021).

Two views of a graph lose some edges and feature columns each; the correlations C between the columns of
their embeddings are drawn to the identity: L = sum_i (1 - C_ii)^2 + lambda sum_(i != j) C_ij^2, lambda = 1/D.

Published (their repository): AdamW, weight decay 1e-5, a linear warm-up over a tenth of the epochs, then
cosine; two GCN layers with batch norm and PReLU, whole graphs, 1000 epochs: Amazon Computers D 128 at 5e-4,
Photo 256 at 1e-4, Coauthor CS 256 and Physics 128 at 1e-5, WikiCS 256 at 5e-4; PPI three GAT layers with
skips and ELU, D 512, 500 epochs at 5e-3; ogbn-products three GAT layers, D 128, batches of 512, 100 epochs
at 1e-3. Shares to drop are searched for each graph.
Departures: layers, batches and number of steps are the plan's, without batch norm. In a block an edge that
is dropped is dropped for all layers, where their batched version draws for each. The shares are settings;
the defaults are ours, not tuned. GCN layers keep the degrees of the whole graph.

Measured (tests/baselines/test_methods.py: 2000 nodes, two SAGE layers, D 32, 60 whole-graph updates): with
the layers' linear skip it does not beat its untrained encoder (-1 point), without it does (+10). The skip
hands a node's own features to both views unharmed; that is what they have in common, and noise there. So,
less, does the node's own term in plain-gcn (-3 to +5). On cora, whose features are words, it learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from lrgi import seed as randomness
from lrgi.baselines.augment import Shares, augmented
from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.encoder import Encoder
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.objective.correlation import correlation, off_diagonal, standardised
from lrgi.objective.infomax import Weights
from lrgi.sampling.block import Block
from lrgi.training.journal import Journal, Place
from lrgi.training.objective import FittedModule, Objective
from lrgi.training.plan import FitPlan, setting


@dataclass(frozen=True)
class GBTSettings:
    """Shares that each of the two views loses."""

    edges: float = setting(0.3, "share of the edges that each view loses")
    columns: float = setting(0.2, "share of the feature columns that each view loses")

    @property
    def shares(self) -> Shares:
        """Both; InputError for what is no share."""
        return Shares(self.edges, self.columns)


class GBTTerms(NamedTuple):
    """The distance of the diagonal from 1, and of the rest from 0, times lambda."""

    invariance: Tensor
    redundancy: Tensor

    def total(self, weights: Weights) -> Tensor:
        """Their sum; the plan's weights are not used."""
        return self.invariance + self.redundancy


class BarlowTwins(Objective):
    """Adds no parameters."""

    def __init__(self, plan: FitPlan, settings: GBTSettings) -> None:
        super().__init__()
        self.seed, self.shares = plan.seed, settings.shares

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> GBTTerms:
        """Both parts for two views of one block."""
        embedded = []
        for which in (1, 2):
            random = randomness.stream(self.seed, "gbt", "view", which, place.step)
            rows, hops = augmented(table, block, encoder, self.shares, random)
            embedded.append(encoder(rows, *hops))
        return gbt_terms(embedded[0], embedded[1])


def gbt_terms(a: Tensor, b: Tensor) -> GBTTerms:
    """From the embeddings [B, D] of two views."""
    c = correlation(standardised(a), standardised(b))
    return GBTTerms((1 - c.diagonal()).square().sum(), off_diagonal(c) / len(c))


def fit_gbt(
    graph: Graph, plan: FitPlan, journal: Journal | None = None, settings: GBTSettings | None = None
) -> Encoder:
    """Fit all layers of the plan at once by G-BT."""
    objective = BarlowTwins(plan.for_layer(1), settings or GBTSettings())
    return fit_end_to_end(graph, plan, lambda stack: objective, journal)
