"""Layers whose aggregation has no parameters, on frozen inputs: what they read of neighbours is a constant.

SAGE's mean and GCN's normalised sum of a frozen table are themselves a table, A = aggregate(U_(l-1)), made
once. With it a layer reads nothing but its own row of both tables: it has no hops, and a step needs no
neighbours' inputs (docs/decisions/0014).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lrgi.graph.features import DenseTable, SparseTable, Table
from lrgi.layers.layer import GraphLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop


@dataclass(frozen=True, eq=False)
class AggregatedTable(DenseTable):
    """A table beside the aggregates of its rows' neighbours, [N, d] both."""

    aggregates: DenseTable

    def take(self, ids: npt.ArrayLike) -> AggregatedTable:
        """A new table of the rows `ids`, in that order."""
        return AggregatedTable(self.rows(ids), self.aggregates.take(ids))

    def slice(self, start: int, stop: int) -> AggregatedTable:
        """Rows start..stop as a view."""
        return AggregatedTable(self.array[start:stop], self.aggregates.slice(start, stop))


class OnConstants(GraphLayer):
    """A layer as it is fitted on an `AggregatedTable`: the same weights, and no hop."""

    hops = 0

    def __init__(self, layer: GraphLayer) -> None:
        super().__init__(layer.in_dim, layer.out_dim)
        self.layer, self.kind = layer, layer.kind

    def reset(self, random: torch.Generator) -> None:
        """The layer's."""
        self.layer.reset(random)

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of all rows of x."""
        assert isinstance(x, Rows) and isinstance(x.table, AggregatedTable) and not hops
        own = replace(x, table=DenseTable(x.table.array))
        return self.layer.from_constant(replace(x, table=x.table.aggregates), own)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """The layer's."""
        return self.layer.from_sources(sources, own, hop)


def has_constants(layer: torch.nn.Module, sparse: bool) -> TypeGuard[GraphLayer]:
    """Whether all that `layer` reads of neighbours is a constant.

    Means of sparse rows are hardly sparse: of a sparse table no aggregates are made.
    """
    return not sparse and isinstance(layer, GraphLayer) and layer.constant() is not None


def constant_bytes(layer: GraphLayer, table: Table) -> int:
    """Of the table of aggregates; 0 if none is made."""
    return 4 * int(np.prod(table.shape)) if has_constants(layer, isinstance(table, SparseTable)) else 0
