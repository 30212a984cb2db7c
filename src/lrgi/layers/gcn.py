"""The graph convolution of Kipf and Welling with a linear skip: u_i = ELU(sum_j s_i s_j W x_j + S x_i + b).

j runs over i's neighbours and i itself, s = (degree + 1)^-1/2 in the whole graph. Where only k of d_i
neighbours were sampled their sum counts d_i / k times, so that it estimates the whole one.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from lrgi.layers.aggregate import scaled_sum
from lrgi.layers.layer import GraphLayer, dense, glorot_, own_rows, product
from lrgi.layers.propagate import PropagateLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class GCNLayer(GraphLayer):
    """Symmetrically normalised sum, projected, plus a linear skip."""

    kind = "gcn"
    input_weights = ("weight", "skip")

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim))
        self.skip = nn.Parameter(torch.empty(out_dim, in_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))

    def reset(self, random: torch.Generator) -> None:
        """Glorot weights, zero bias."""
        glorot_(self.weight, random)
        glorot_(self.skip, random)
        nn.init.zeros_(self.bias)

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the hop's rows."""
        (hop,) = hops
        return self._finish(normalised_sum(product(x, self.weight), hop), own_rows(x, hop))

    def sources(self, x: Rows) -> tuple[Tensor, ...]:
        """Projected rows."""
        return (product(x, self.weight),)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        return self._finish(normalised_sum(sources[0], hop), own)

    def constant(self) -> GraphLayer:
        """The normalised sum."""
        return NormalisedSumLayer(self.in_dim, self.in_dim)

    def from_constant(self, aggregates: Rows, own: Rows) -> Tensor:
        """u of the rows."""
        return self._finish(aggregates.product(self.weight), own)

    def _finish(self, aggregate: Tensor, own: Rows | Tensor) -> Tensor:
        return product(own, self.skip, self.bias, plus=aggregate, activation="elu")


class NormalisedSumLayer(PropagateLayer):
    """u_i = sum_j s_i s_j x_j: nothing to fit."""

    kind = "normalised-sum"
    reads_itself = reads_degrees = True

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the hop's rows."""
        (hop,) = hops
        return normalised_sum(dense(x), hop)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        return normalised_sum(sources[0], hop)


def normalised_sum(p: Tensor, hop: Hop) -> Tensor:
    """sum_j s_i s_j p_j of the hop's rows, of projected sources p [S, D]: [R, D]."""
    rows = slice(hop.first, hop.first + hop.num_rows)
    scale = 1.0 / np.sqrt(hop.source_degrees + 1.0)
    whole_over_sample = hop.source_degrees[rows] / np.maximum(hop.degrees, 1)
    row_scale = torch.from_numpy(scale[rows] * whole_over_sample).to(p.device, p.dtype)
    source_scale = torch.from_numpy(scale).to(p.device, p.dtype)
    neighbours = scaled_sum(p, hop, row_scale, source_scale)
    return neighbours + p[rows] * (source_scale[rows] ** 2)[:, None]
