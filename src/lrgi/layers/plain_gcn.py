"""Kipf and Welling's graph convolution as they wrote it, without a skip: u_i = ELU(sum_j s_i s_j W x_j + b).

What the published encoders of DGI, G-BT, BGRL and CCA-SSG are made of: a node's own features reach it only
as one of its neighbours' terms. See `gcn.py` for the sum.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrgi.compute.products import activate
from lrgi.layers.gcn import NormalisedSumLayer, normalised_sum
from lrgi.layers.layer import GraphLayer, glorot_, product
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class PlainGCNLayer(GraphLayer):
    """Symmetrically normalised sum, projected."""

    kind = "plain-gcn"
    input_weights = ("weight",)

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))

    def reset(self, random: torch.Generator) -> None:
        """Glorot weights, zero bias."""
        glorot_(self.weight, random)
        nn.init.zeros_(self.bias)

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the hop's rows."""
        (hop,) = hops
        return activate(normalised_sum(product(x, self.weight), hop) + self.bias, "elu")

    def sources(self, x: Rows) -> tuple[Tensor, ...]:
        """Projected rows."""
        return (product(x, self.weight),)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        return activate(normalised_sum(sources[0], hop) + self.bias, "elu")

    def constant(self) -> GraphLayer:
        """The normalised sum."""
        return NormalisedSumLayer(self.in_dim, self.in_dim)

    def from_constant(self, aggregates: Rows, own: Rows) -> Tensor:
        """u of the rows."""
        return activate(aggregates.product(self.weight) + self.bias, "elu")
