"""The plain mean over neighbours as a layer of its own, u_i = mean_j x_j: nothing to fit."""

from __future__ import annotations

import torch
from torch import Tensor

from lrgi.errors import InputError
from lrgi.layers.aggregate import neighbour_mean
from lrgi.layers.layer import GraphLayer, dense
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class PropagateLayer(GraphLayer):
    """As many columns out as in; a node without neighbours gets zeros."""

    kind = "propagate"
    reads_itself = reads_degrees = False

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        if in_dim != out_dim:
            raise InputError(
                f"a propagate layer must keep the number of columns, got {in_dim} in and {out_dim} out; "
                "give it as many out as in"
            )

    @property
    def device(self) -> torch.device:
        """It has no weights, and works where its rows are read."""
        return torch.device("cpu")

    def reset(self, random: torch.Generator) -> None:
        """Nothing is drawn."""

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the hop's rows."""
        (hop,) = hops
        return neighbour_mean(dense(x), hop)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows."""
        return neighbour_mean(sources[0], hop)
