"""GraphSAGE's layer with a mean aggregate: u_i = ELU(W mean_j x_j + S x_i + b)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrgi.layers.aggregate import neighbour_mean
from lrgi.layers.layer import GraphLayer, glorot_, own_rows, product
from lrgi.layers.propagate import PropagateLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class SAGELayer(GraphLayer):
    """The mean of the neighbours and the node itself, each projected."""

    kind = "sage"
    reads_degrees = False
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
        return self._finish(neighbour_mean(product(x, self.weight), hop), own_rows(x, hop))

    def sources(self, x: Rows) -> tuple[Tensor, ...]:
        """Projected rows."""
        return (product(x, self.weight),)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        return self._finish(neighbour_mean(sources[0], hop), own)

    def constant(self) -> GraphLayer:
        """The plain mean."""
        return PropagateLayer(self.in_dim, self.in_dim)

    def from_constant(self, aggregates: Rows, own: Rows) -> Tensor:
        """u of the rows."""
        return self._finish(aggregates.product(self.weight), own)

    def _finish(self, aggregate: Tensor, own: Rows | Tensor) -> Tensor:
        return product(own, self.skip, self.bias, plus=aggregate, activation="elu")
