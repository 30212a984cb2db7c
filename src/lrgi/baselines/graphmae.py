"""GraphMAE: Hou, Liu, Cen, Dong, Yang, Wang and Tang, "GraphMAE: self-supervised masked graph autoencoders"
(KDD 2022).

The features of some nodes are replaced by a learned token (a few by another node's); the embeddings of those
nodes are set to zero before a decoder, one more graph layer, which has to restore the features from the
neighbourhood: L = mean over masked nodes of (1 - cos(x, x^))^gamma.

Published (their repository): GAT layers with PReLU, Adam at 1e-3 (PPI 1e-4), cosine schedule, a GAT decoder
with one head, dropout 0.2 on features and 0.1 on attention. cora: width 512, two layers, 1500 epochs, masked
0.5, replaced 0.05, gamma 3, weight decay 2e-4; pubmed: 1024, 0.75, 0, 3; ogbn-arxiv: 1024, three layers, half
of the edges dropped; PPI: 1024, three layers with skips and layer norm, 1000 epochs, 0.5, 0.1, 3;
Reddit: 512, four layers, 500 epochs, 0.75, 0.15, 3, half of the edges dropped.
Departures: layers, batches and number of steps are the plan's, without dropout and norms. The decoder's
layer is of the plan's kind and width, with its ELU and skip, so a linear map to the features follows it.
In a sampled block (the paper knows whole graphs only) the targets and the nodes around them are masked by
the same share, and the loss is over masked targets. Sparse features become dense, block by block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from lrgi import seed as randomness
from lrgi.baselines.augment import check_share
from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.compute.products import linear
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.layers.layer import glorot_
from lrgi.layers.rows import Rows
from lrgi.layers.stack import Stack
from lrgi.objective.infomax import Weights
from lrgi.sampling.block import Block
from lrgi.training.fit import new_layer
from lrgi.training.journal import Journal, Place
from lrgi.training.objective import FittedModule, Objective, outermost_first
from lrgi.training.plan import FitPlan, setting


@dataclass(frozen=True)
class GraphMAESettings:
    """Share of nodes that are masked, share of these that get another node's features, and gamma."""

    masked: float = setting(0.5, "share of the nodes that is masked")
    replaced: float = setting(0.05, "share of the masked nodes that gets another node's features")
    gamma: float = setting(3.0, "exponent of the scaled cosine error")

    def __post_init__(self) -> None:
        check_share("the share of nodes to mask", self.masked)
        check_share("the share of masked nodes to replace", self.replaced)
        if not 1 <= self.gamma < float("inf"):
            raise InputError(f"gamma must be at least 1, got {self.gamma}; try 3")


class GraphMAETerms(NamedTuple):
    """The scaled cosine error."""

    error: Tensor

    def total(self, weights: Weights) -> Tensor:
        """It; the plan's weights are not used."""
        return self.error


class Mask(NamedTuple):
    """Places in a block: nodes that get the token, nodes that get the features of `others`, and both."""

    token: np.ndarray
    replaced: np.ndarray
    others: np.ndarray

    @property
    def nodes(self) -> np.ndarray:
        """All that are masked."""
        return np.concatenate([self.token, self.replaced])


class MaskedAutoencoder(Objective):
    """Adds the token, the decoder and the maps before and after it."""

    hops = 1  # the decoder's

    def __init__(self, plan: FitPlan, stack: Stack, settings: GraphMAESettings) -> None:
        super().__init__()
        self.seed, self.settings = plan.seed, settings
        width, random = stack.out_dim, randomness.torch_stream(plan.seed, "graphmae", "decoder")
        self.token = nn.Parameter(torch.zeros(stack.in_dim))
        self.to_decoder = nn.Parameter(torch.empty(width, width))
        # A layer's weights are drawn from the stream of its number; the decoder's is the one after the last.
        self.decoder = new_layer(plan.with_settings(width=width), plan.layers + 1, width)
        for name, parameter in self.decoder.named_parameters():
            if name in ("skip", "target"):  # what reads the rows that are scored, which were set to zero
                parameter.requires_grad_(False)
        self.to_features = nn.Parameter(torch.empty(stack.in_dim, width))
        self.bias = nn.Parameter(torch.zeros(stack.in_dim))
        glorot_(self.to_decoder, random)
        glorot_(self.to_features, random)

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> GraphMAETerms:
        """The error on the masked targets of one block."""
        x, hops = Rows.of(table, block, str(encoder.device)).dense(), outermost_first(block)
        mask = draw_mask(block, self.settings, randomness.stream(self.seed, "graphmae", "mask", place.step))
        u = encoder(self._corrupted(x, mask), *hops[: encoder.hops])
        hidden = linear(u, self.to_decoder) * _unmasked(mask.nodes, u)
        restored = linear(self.decoder(hidden, hops[-1]), self.to_features, self.bias)
        scored = torch.from_numpy(mask.nodes[mask.nodes < block.num_targets])
        return GraphMAETerms(scaled_cosine_error(x[scored], restored[scored], self.settings.gamma))

    def _corrupted(self, x: Tensor, mask: Mask) -> Tensor:
        kept = _unmasked(mask.token, x)
        replaced, others = (torch.from_numpy(ids).to(x.device) for ids in (mask.replaced, mask.others))
        x = x.index_copy(0, replaced, x[others])
        return x * kept + (1 - kept) * self.token


def _unmasked(nodes: np.ndarray, x: Tensor) -> Tensor:
    """[len(x), 1]: 0 for the nodes, 1 for the rest."""
    kept = torch.ones(len(x), 1, dtype=x.dtype, device=x.device)
    kept[torch.from_numpy(nodes[nodes < len(x)])] = 0
    return kept


def draw_mask(block: Block, settings: GraphMAESettings, random: np.random.Generator) -> Mask:
    """The same share of the targets, at least one of them, and of the nodes around them."""
    targets, count = block.num_targets, len(block.nodes)
    inner = random.permutation(targets)[: max(1, round(settings.masked * targets))]
    outer = targets + random.permutation(count - targets)[: round(settings.masked * (count - targets))]
    nodes = random.permutation(np.concatenate([inner, outer]))
    replaced, token = np.split(nodes, [round(settings.replaced * len(nodes))])
    return Mask(np.sort(token), np.sort(replaced), random.integers(0, count, len(replaced)))


def scaled_cosine_error(x: Tensor, restored: Tensor, gamma: float) -> Tensor:
    """Mean over rows of (1 - cosine)^gamma."""
    return (1 - cosine_similarity(x, restored)).clamp(min=0).pow(gamma).mean()


def fit_graphmae(
    graph: Graph, plan: FitPlan, journal: Journal | None = None, settings: GraphMAESettings | None = None
) -> Encoder:
    """Fit all layers of the plan at once by GraphMAE; the decoder is thrown away."""
    own, chosen = plan.for_layer(1), settings or GraphMAESettings()
    return fit_end_to_end(graph, plan, lambda stack: MaskedAutoencoder(own, stack, chosen), journal)
