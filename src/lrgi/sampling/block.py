"""What a sampler hands to a step: the nodes it touches and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lrgi.sampling import _kernels


@dataclass(frozen=True)
class Hop:
    """One aggregation: row r reads the sources `indices[indptr[r]:indptr[r + 1]]`.

    Row r is itself the source `first + r`. The row itself is never among its neighbours.
    `indptr` need not begin at 0: a range of a whole graph's rows is a view of its arrays. Values kept
    per edge (attention, say) are numbered from `indptr[0]`, so they are as long as the hop.
    """

    indptr: np.ndarray  # int64 [R + 1]
    indices: np.ndarray  # int32 or int64 [E]
    num_sources: int
    first: int
    graph_indptr: np.ndarray  # of the graph that the sources are from
    nodes: np.ndarray | None  # the sources' ids in that graph; None: all its nodes, in order

    @property
    def num_rows(self) -> int:
        """How many rows are computed."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """How many neighbours are read, the rows themselves not counted."""
        return int(self.indptr[-1] - self.indptr[0])

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What is derived from the hop elsewhere, on another device say, and lives as long as it."""
        return {}

    @cached_property
    def degrees(self) -> np.ndarray:
        """Neighbours read per row, int64 [R]."""
        return np.diff(self.indptr)

    @cached_property
    def source_degrees(self) -> np.ndarray:
        """The sources' degrees in the whole graph, int64 [num_sources], however few were sampled."""
        if self.nodes is None:
            return np.diff(self.graph_indptr)
        nodes = self.nodes.astype(np.int64, copy=False)
        degrees: np.ndarray = self.graph_indptr[nodes + 1] - self.graph_indptr[nodes]
        return degrees

    @cached_property
    def transposed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same edges by source: (indptr [num_sources + 1], row of each edge, its place in `indices`).

        Gradients flow along it, so that each source sums its own in a fixed order.
        """
        by_source: tuple[np.ndarray, np.ndarray, np.ndarray]
        by_source = _kernels.transpose(self.indptr, self.indices, self.num_sources)
        return by_source


@dataclass(frozen=True)
class Block:
    """A batch: `nodes` are distinct graph ids, targets first, then each ring of newly met nodes."""

    nodes: np.ndarray  # [M]
    ring_ends: tuple[int, ...]  # nodes[:ring_ends[t]] lie within t hops of a target
    indptr: np.ndarray  # int64 [ring_ends[-2] + 1]
    indices: np.ndarray  # int32 [E], local: places in `nodes`
    graph_indptr: np.ndarray  # of the graph that `nodes` are from
    span: tuple[int, int] | None = None  # nodes are exactly range(*span), as in a whole graph
    batch: int = -1  # targets of the whole batch, of which this block may hold one process's share

    @property
    def num_targets(self) -> int:
        """How many nodes the loss is computed on."""
        return self.ring_ends[0]

    @property
    def batch_targets(self) -> int:
        """How many targets the batch has, in all processes together."""
        return self.num_targets if self.batch < 0 else self.batch

    @property
    def depth(self) -> int:
        """How many hops were sampled."""
        return len(self.ring_ends) - 1

    def hop(self, t: int) -> Hop:
        """Rows are the nodes within t hops, sources those within t + 1."""
        return self._hops[t]

    @cached_property
    def _hops(self) -> tuple[Hop, ...]:
        hops: dict[int, Hop] = {}
        for rows, sources in zip(self.ring_ends, self.ring_ends[1:], strict=False):
            if (
                rows not in hops
            ):  # in a whole graph all rings end alike: one hop, and one transpose, serves all
                indptr = self.indptr[: rows + 1]
                nodes = self.nodes[:sources]
                hops[rows] = Hop(indptr, self.indices[: indptr[-1]], sources, 0, self.graph_indptr, nodes)
        return tuple(hops[rows] for rows in self.ring_ends[:-1])


def graph_hop(indptr: np.ndarray, indices: np.ndarray, start: int, stop: int) -> Hop:
    """All neighbours of the nodes start..stop, read from the whole graph: a view of its arrays."""
    return Hop(indptr[start : stop + 1], indices, len(indptr) - 1, start, indptr, None)
