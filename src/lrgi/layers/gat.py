"""The paper's layer: multi-head graph attention (GAT) with a linear skip and ELU.

u_i = ELU( concat_h sum_j a_ijh W_h x_j  +  b  +  S x_i ),  j over i's neighbours and i itself,
a_ijh = softmax_j leaky_relu(src_h . W_h x_j + dst_h . W_h x_i).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.layers.aggregate import attend
from lrgi.layers.attention import AttentionWeights, attend_table
from lrgi.layers.frozen import attend_frozen
from lrgi.layers.layer import GraphLayer, glorot_, own_rows, product
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop

# A multiply-add of the attention kernel costs about as much as this many in a matrix product: it reads
# its operands from a table row by row. Measured by benchmarks/step.py; only the choice of path uses it.
_KERNEL_COST = 4


class GATLayer(GraphLayer):
    """Attention with `heads` heads of width out_dim / heads, concatenated, plus a linear skip."""

    kind = "gat"
    reads_degrees = False
    input_weights = ("weight", "skip")

    def __init__(self, in_dim: int, out_dim: int, heads: int = 4, slope: float = 0.2) -> None:
        super().__init__(in_dim, out_dim)
        if heads < 1 or out_dim % heads != 0:
            raise InputError(
                f"width must be divisible by the number of heads, got width {out_dim} and {heads} heads; "
                f"choose a width that is a multiple of {max(heads, 1)}, or other heads"
            )
        self.heads, self.slope = heads, slope
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim))
        self.skip = nn.Parameter(torch.empty(out_dim, in_dim))
        self.source = nn.Parameter(torch.empty(heads, out_dim // heads))
        self.target = nn.Parameter(torch.empty(heads, out_dim // heads))
        self.bias = nn.Parameter(torch.empty(out_dim))

    def reset(self, random: torch.Generator) -> None:
        """Glorot weights, zero bias."""
        for weight in (self.weight, self.skip, self.source, self.target):
            glorot_(weight, random)
        nn.init.zeros_(self.bias)

    def settings(self) -> dict[str, Any]:
        """Heads and slope."""
        return {"heads": self.heads, "slope": self.slope}

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the hop's rows, by whichever order of aggregation and projection is cheaper."""
        (hop,) = hops
        if isinstance(x, Rows) and self._aggregates_first(x, hop):
            weights = AttentionWeights(self.weight, self.skip, self.source, self.target, self.bias)
            return attend_table(x, hop, weights, self.slope)
        p, s_source, s_row = self._project(x)
        s_row = s_row[hop.first : hop.first + hop.num_rows]
        return self._finish(attend(p, s_source, s_row, hop, self.slope).flatten(1), own_rows(x, hop))

    def sources(self, x: Rows) -> tuple[Tensor, ...]:
        """Projected rows [count, H, C] and the two parts of their logits [count, H] each."""
        return self._project(x)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        p, s_source, s_row = sources
        s_row = s_row[hop.first : hop.first + hop.num_rows]
        return self._finish(attend_frozen(p, s_source, s_row, hop, self.slope).flatten(1), own)

    def _project(self, x: Rows | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        p = product(x, self.weight).view(-1, self.heads, self.out_dim // self.heads)
        return p, (p * self.source).sum(-1), (p * self.target).sum(-1)

    def _finish(self, attended: Tensor, own: Rows | Tensor) -> Tensor:
        return product(own, self.skip, self.bias, plus=attended, activation="elu")

    def _aggregates_first(self, x: Rows, hop: Hop) -> bool:
        """Multiply-adds of a forward and backward pass, either way."""
        if not isinstance(x.table, DenseTable) or x.device != "cpu" or x.kept is not None:
            return False
        projection, edges = self.in_dim * self.out_dim, hop.num_edges + hop.num_rows
        first = 3 * hop.num_rows * projection + _KERNEL_COST * 4 * edges * self.heads * self.in_dim
        then = 2 * hop.num_sources * projection + _KERNEL_COST * 3 * edges * self.out_dim
        return first < then
