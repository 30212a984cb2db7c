"""CCA-SSG: Zhang, Wu, Yan, Wipf and Yu, "From canonical correlation analysis to self-supervised graph
neural networks" (NeurIPS 2021).

With Z the embeddings of a view, columns standardised over the batch and divided by sqrt(B):
L = |Z_a - Z_b|^2 + lambda (|Z_a' Z_a - I|^2 + |Z_b' Z_b - I|^2), Frobenius norms.

Published (their repository): width 512, Adam at 1e-3, no weight decay, whole graphs, two GCN layers, few
epochs: cora 50 (lambda 1e-3, columns 0.1, edges 0.4), citeseer 20 with one layer (5e-4, 0, 0.4), pubmed 100
(1e-3, 0.3, 0.5), Computers 50 (5e-4, 0.1, 0.3), Photo 50 (1e-3, 0.2, 0.3), Physics 100 (1e-3, 0.5, 0.5).
Their code's first part is half of the paper's, up to a constant, so that their lambda counts twice here.
Departures: the second part has D^2 entries and the first D, so lambda is given in units of 1 / D, which keeps
the balance at any width (G-BT's lambda is 1 / D outright): their 1e-3 at D 512 is the default 1 here. Layers,
batches, optimizer and number of steps are the plan's; deviations divide by B, not B - 1.

Measured (tests/baselines/test_methods.py: 2000 nodes, two SAGE layers, D 32, 60 whole-graph updates): with
the layers' linear skip it does not beat its untrained encoder (-4 points), without it does (+10); why, see
`gbt.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lrgi import seed as randomness
from lrgi.baselines.augment import Shares, augmented
from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.objective.correlation import correlation, standardised
from lrgi.objective.infomax import Weights
from lrgi.sampling.block import Block
from lrgi.training.journal import Journal, Place
from lrgi.training.objective import FittedModule, Objective
from lrgi.training.plan import FitPlan, setting


@dataclass(frozen=True)
class CCASettings:
    """Shares that each of the two views loses, and the weight of the decorrelation (lambda D)."""

    edges: float = setting(0.3, "share of the edges that each view loses")
    columns: float = setting(0.2, "share of the feature columns that each view loses")
    decorrelation: float = setting(1.0, "weight of the decorrelation, times the width (lambda D)")

    def __post_init__(self) -> None:
        if not 0 <= self.decorrelation < float("inf"):
            raise InputError(f"decorrelation must be 0 or more, got {self.decorrelation}; try 1")

    @property
    def shares(self) -> Shares:
        """Both; InputError for what is no share."""
        return Shares(self.edges, self.columns)


class CCATerms(NamedTuple):
    """The distance between the views, and of their correlations from the identity, times lambda."""

    invariance: Tensor
    decorrelation: Tensor

    def total(self, weights: Weights) -> Tensor:
        """Their sum; the plan's weights are not used."""
        return self.invariance + self.decorrelation


class CanonicalCorrelation(Objective):
    """Adds no parameters."""

    def __init__(self, plan: FitPlan, settings: CCASettings) -> None:
        super().__init__()
        self.seed, self.shares, self.weight = plan.seed, settings.shares, settings.decorrelation

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> CCATerms:
        """Both parts for two views of one block."""
        embedded = []
        for which in (1, 2):
            random = randomness.stream(self.seed, "cca-ssg", "view", which, place.step)
            rows, hops = augmented(table, block, encoder, self.shares, random)
            embedded.append(encoder(rows, *hops))
        return cca_terms(embedded[0], embedded[1], self.weight / encoder.out_dim)


def cca_terms(a: Tensor, b: Tensor, weight: float) -> CCATerms:
    """From the embeddings [B, D] of two views; `weight` is lambda."""
    a, b = standardised(a), standardised(b)
    identity = torch.eye(a.shape[1], dtype=a.dtype, device=a.device)
    of_a, of_b = ((correlation(z, z) - identity).square().sum() for z in (a, b))
    return CCATerms((a - b).square().sum() / len(a), weight * (of_a + of_b))


def fit_cca_ssg(
    graph: Graph, plan: FitPlan, journal: Journal | None = None, settings: CCASettings | None = None
) -> Encoder:
    """Fit all layers of the plan at once by CCA-SSG."""
    objective = CanonicalCorrelation(plan.for_layer(1), settings or CCASettings())
    return fit_end_to_end(graph, plan, lambda stack: objective, journal)
