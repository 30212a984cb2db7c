"""What every layer is: one hop of aggregation and projection, u = f(x, hop)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrgi.compute.products import Activation, linear
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


class GraphLayer(nn.Module, ABC):
    """Maps rows of width `in_dim` to rows of width `out_dim` over one hop.

    `x` holds the hop's sources: `Rows` of a frozen table while a layer is fitted or applied, or a
    tensor that gradients flow through when layers are stacked end to end.
    """

    kind: str  # the name in a plan and in a saved encoder
    reads_itself = True  # whether a node's own input decides its output
    reads_degrees = True  # whether its neighbours' degrees do; its own may always

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim

    input_weights: tuple[str, ...] = ()  # parameters [., in_dim] by which alone it reads x, if that is so
    hops = 1  # hops of neighbours that `forward` takes; a stack takes one for each of its layers

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @abstractmethod
    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u [hop.num_rows, out_dim]."""

    @abstractmethod
    def reset(self, random: torch.Generator) -> None:
        """Draw the weights anew from a stream."""

    def settings(self) -> dict[str, Any]:
        """What `kind`, `in_dim` and `out_dim` do not say, to build the layer again; JSON."""
        return {}

    def sources(self, x: Rows) -> tuple[Tensor, ...]:
        """What each node offers to its neighbours, [count, ...] each: what an embedding computes once."""
        return (x.dense(),)

    def constant(self) -> GraphLayer | None:
        """The layer without weights whose output is all that this one reads of neighbours, if there is one.

        Then `from_constant` gives u of that output and the rows' own inputs.
        """
        return None

    def from_constant(self, aggregates: Rows, own: Rows) -> Tensor:
        """u of the rows, from what `constant` gives for them and their own inputs."""
        raise TypeError(f"a {self.kind} layer aggregates with its weights: it reads no constants")

    @abstractmethod
    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows, from what all sources offer and the rows' own inputs."""


def dense(x: Rows | Tensor) -> Tensor:
    """The rows as one tensor."""
    return x.dense() if isinstance(x, Rows) else x


def product(
    x: Rows | Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    plus: Tensor | None = None,
    activation: Activation = "none",
) -> Tensor:
    """activation(x W^T + bias + plus), as `linear`; sparse rows stay sparse."""
    if isinstance(x, Rows):
        return x.product(weight, bias, plus=plus, activation=activation)
    return linear(x, weight, bias, plus=plus, activation=activation)


def own_rows(x: Rows | Tensor, hop: Hop) -> Rows | Tensor:
    """The inputs of the hop's rows themselves."""
    stop = hop.first + hop.num_rows
    return x.range(hop.first, stop) if isinstance(x, Rows) else x[hop.first : stop]


def glorot_(weight: Tensor, random: torch.Generator) -> None:
    """Uniform in +-sqrt(6 / (fan in + fan out)), as PyG's convolutions begin."""
    fan = weight.shape[-1] + weight.shape[-2]
    bound = float(np.sqrt(6.0 / fan))
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=random)
