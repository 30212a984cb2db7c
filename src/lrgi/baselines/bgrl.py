"""BGRL: Thakoor, Tallec, Azar, Azabou, Dyer, Munos, Velickovic and Valko, "Large-scale representation
learning on graphs via bootstrapping" (ICLR 2022, arXiv 2021).

An online encoder and a predictor p foretell what a target encoder makes of another view of the graph:
L = 2 - mean cos(p(h_1), t_2) - mean cos(p(h_2), t_1). No gradient flows to the target, whose weights follow
the online ones: target <- tau target + (1 - tau) online, with tau = 1 - (1 - tau_0)(1 + cos(pi k / K)) / 2.

Published (nerdslab/bgrl, a reimplementation with the paper's settings): two GCN layers (256, 128) with batch
norm and PReLU, predictor of hidden width 512 with PReLU, AdamW, weight decay 1e-5, 10,000 whole-graph steps
with 1000 of warm-up, then cosine, tau_0 0.99; Amazon Computers at 5e-4, edges (0.5, 0.4), columns (0.2, 0.1);
Coauthor Physics at 1e-5, (0.4, 0.1), (0.1, 0.4); PPI at 5e-3, (0.3, 0.25), (0.25, 0).
Departures: layers, batches and number of steps are the plan's, without batch norm. The target begins with
weights of its own, as in that code. Default shares are those of Computers.

Measured (tests/baselines/test_methods.py: 2000 nodes, two SAGE layers, D 32, tau_0 0.9): with the layers'
linear skip it does not beat its untrained encoder (-5 points after 60 whole-graph updates), without it does
(+7 after 150 at 1e-2); why, see `gbt.py`.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, prelu

from lrgi import seed as randomness
from lrgi.baselines.augment import Shares, augmented, check_share
from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.compute.products import linear
from lrgi.encoder import Encoder
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.layers.layer import glorot_
from lrgi.layers.stack import Stack
from lrgi.objective.infomax import Weights
from lrgi.sampling.block import Block
from lrgi.training.journal import Journal, Place
from lrgi.training.objective import FittedModule, Objective
from lrgi.training.plan import FitPlan, setting


@dataclass(frozen=True)
class BGRLSettings:
    """Shares that the views lose, the target's inertia at the start (tau_0), the predictor's hidden width."""

    edges_1: float = setting(0.5, "share of the edges that the first view loses")
    columns_1: float = setting(0.2, "share of the feature columns that the first view loses")
    edges_2: float = setting(0.4, "share of the edges that the second view loses")
    columns_2: float = setting(0.1, "share of the feature columns that the second view loses")
    inertia: float = setting(0.99, "how much of the target's weights a step keeps, at the start")
    hidden: int = setting(512, "hidden width of the predictor")

    def __post_init__(self) -> None:
        check_share("inertia", self.inertia)

    @property
    def shares(self) -> tuple[Shares, Shares]:
        """Of the first view and of the second; InputError for what is no share."""
        return Shares(self.edges_1, self.columns_1), Shares(self.edges_2, self.columns_2)


class BGRLTerms(NamedTuple):
    """1 - cosine, when the second view is foretold from the first, and the other way round."""

    first: Tensor
    second: Tensor

    def total(self, weights: Weights) -> Tensor:
        """Their sum; the plan's weights are not used."""
        return self.first + self.second


class Bootstrap(Objective):
    """Adds the predictor; the target encoder is no parameter."""

    def __init__(self, plan: FitPlan, online: Stack, settings: BGRLSettings) -> None:
        super().__init__()
        self.seed, self.shares, self.inertia = plan.seed, settings.shares, settings.inertia
        self.target = copy.deepcopy(online).cpu().requires_grad_(False)  # weights are drawn on the CPU
        self.target.reset(randomness.torch_stream(plan.seed, "bgrl", "target"))
        self.weight_in = nn.Parameter(torch.empty(settings.hidden, online.out_dim))
        self.bias_in = nn.Parameter(torch.zeros(settings.hidden))
        self.slope = nn.Parameter(torch.full((1,), 0.25))
        self.weight_out = nn.Parameter(torch.empty(online.out_dim, settings.hidden))
        self.bias_out = nn.Parameter(torch.zeros(online.out_dim))
        random = randomness.torch_stream(plan.seed, "bgrl", "predictor")
        glorot_(self.weight_in, random)
        glorot_(self.weight_out, random)

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> BGRLTerms:
        """Both parts for two views of one block."""
        foretold, targets = [], []
        for which, shares in enumerate(self.shares):
            random = randomness.stream(self.seed, "bgrl", "view", which, place.step)
            rows, hops = augmented(table, block, encoder, shares, random)
            foretold.append(self._predict(encoder(rows, *hops)))
            with torch.no_grad():
                targets.append(self.target(rows, *hops))
        return bgrl_terms(foretold[0], foretold[1], targets[0], targets[1])

    def after_step(self, encoder: FittedModule, place: Place) -> None:
        """The target follows."""
        tau = inertia_at(self.inertia, place.step, place.steps)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), encoder.parameters(), strict=True):
                slow.lerp_(fast, 1 - tau)

    def _predict(self, h: Tensor) -> Tensor:
        hidden = prelu(linear(h, self.weight_in, self.bias_in), self.slope)
        return linear(hidden, self.weight_out, self.bias_out)


def bgrl_terms(p_1: Tensor, p_2: Tensor, t_1: Tensor, t_2: Tensor) -> BGRLTerms:
    """From what both views foretell [B, D] and what the target makes of them."""
    return BGRLTerms(1 - cosine_similarity(p_1, t_2).mean(), 1 - cosine_similarity(p_2, t_1).mean())


def inertia_at(start: float, step: int, steps: int) -> float:
    """tau after `step` of `steps`: from `start` up to 1 along half a cosine."""
    return 1 - (1 - start) * (1 + math.cos(math.pi * step / steps)) / 2


def fit_bgrl(
    graph: Graph, plan: FitPlan, journal: Journal | None = None, settings: BGRLSettings | None = None
) -> Encoder:
    """Fit all layers of the plan at once by BGRL; the online encoder is kept."""
    own, chosen = plan.for_layer(1), settings or BGRLSettings()
    return fit_end_to_end(graph, plan, lambda stack: Bootstrap(own, stack, chosen), journal)
