"""Several layers as one: what an end-to-end method fits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lrgi.layers.layer import GraphLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class Stack(nn.Module):
    """Applies its layers in turn; needs one hop per layer, the outermost first."""

    def __init__(self, layers: Sequence[GraphLayer]) -> None:
        super().__init__()
        self.in_dim, self.out_dim = layers[0].in_dim, layers[-1].out_dim
        self.layers = nn.ModuleList(layers)
        self.hops = len(layers)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def reset(self, random: torch.Generator) -> None:
        """Every layer's weights, in order."""
        for layer in self.layers:
            layer.reset(random)  # type: ignore[operator]

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the innermost hop's rows."""
        for layer, hop in zip(self.layers, hops, strict=True):
            x = layer(x, hop)
        assert isinstance(x, Tensor)
        return x
