"""The plain mean over neighbours, projected: u_i = W mean_j x_j + b. What a training-free method needs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrgi.layers.aggregate import neighbour_mean
from lrgi.layers.layer import GraphLayer, glorot_, product
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class MeanLayer(GraphLayer):
    """No skip, no activation; a node without neighbours gets b."""

    kind = "mean"
    reads_itself = reads_degrees = False

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
        return neighbour_mean(product(x, self.weight), hop) + self.bias

    def sources(self, x: Rows) -> tuple[Tensor, ...]:
        """Projected rows."""
        return (product(x, self.weight),)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        return neighbour_mean(sources[0], hop) + self.bias
