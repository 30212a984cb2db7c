"""A part of a graph: what one of several processes holds when none holds all.

It owns some nodes and holds what fitting them reads: their neighbours, and the neighbours of those. The
nodes are numbered anew, those it owns first, then each ring; rows keep the order of the whole graph, and
`names` says which node of it each one is, so that samples are the same as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import row_chunks, row_positions
from lrgi.graph.graph import Graph

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Part(Graph):
    """A graph of the nodes held; the rows of those in the second ring, which nobody reads, are empty.

    names      int32 or int64 [n], the whole graph's id of every node held
    owned      nodes 0..owned are this part's; each node of the whole graph is owned by one part
    complete   nodes 0..complete have their whole row: those owned, and the first ring
    owners     int32 [n - owned]: the part that owns each of the others
    in_whole   int64 [n + 1], a running sum of the nodes' degrees in the whole graph
    fit_on     which nodes of the graph that was cut are in the parts at all; those are the whole graph here
    of         what a record says of the graph that was cut (`fingerprint.described`)
    """

    names: npt.NDArray[np.integer[Any]] = field(default_factory=lambda: _NONE)
    owned: int = 0
    complete: int = 0
    owners: npt.NDArray[np.int32] = field(default_factory=lambda: _NONE.astype(np.int32))
    in_whole: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)
    whole_offsets: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)
    whole_edges: int = 0
    number: int = 0  # from 0
    parts: int = 1
    fit_on: str = "all"
    of: Mapping[str, Any] = field(default_factory=dict)

    @property
    def degree_indptr(self) -> npt.NDArray[np.int64]:
        """Of the whole graph's degrees."""
        return self.in_whole

    @property
    def whole_nodes(self) -> int:
        """Of the graph that this is a part of."""
        return int(self.whole_offsets[-1])


class Cost(NamedTuple):
    """What a part holds, in numbers of nodes and directed edges."""

    owned: int
    first_ring: int
    second_ring: int
    edges: int


def cut_part(
    graph: Graph,
    owners: npt.NDArray[np.int32],
    number: int,
    *,
    fit_on: str = "all",
    of: Mapping[str, Any] | None = None,
) -> Part:
    """Part `number` of a graph whose node i belongs to part owners[i]; for `fit_on` and `of` see Part."""
    own, first, second = _rings(graph, owners, number)
    held = np.concatenate([own, first, second])
    complete = len(own) + len(first)
    degrees = graph.indptr[held + 1] - graph.indptr[held]
    indptr = _running(np.where(np.arange(len(held)) < complete, degrees, 0))
    place = np.empty(graph.num_nodes, graph.indices.dtype)
    place[held] = np.arange(len(held))
    indices = np.empty(int(indptr[-1]), graph.indices.dtype)
    for start, stop in row_chunks(indptr[: complete + 1]):
        _, positions = row_positions(graph.indptr, held[start:stop])
        indices[indptr[start] : indptr[stop]] = place[graph.indices[positions]]
    return Part.trusted(
        indptr,
        indices,
        graph.features.take(held),
        name=graph.name,
        names=held.astype(graph.indices.dtype),
        owned=len(own),
        complete=complete,
        owners=owners[held[len(own) :]].astype(np.int32),
        in_whole=_running(degrees),
        whole_offsets=graph.offsets,
        whole_edges=graph.num_edges,
        number=number,
        parts=int(owners.max()) + 1,
        encoding=graph.encoding,
        fit_on=fit_on,
        of=dict(of or {}),
    )


def cost_of_part(graph: Graph, owners: npt.NDArray[np.int32], number: int) -> Cost:
    """What a part would hold, without cutting it."""
    own, first, second = _rings(graph, owners, number)
    complete = np.concatenate([own, first])
    edges = int((graph.indptr[complete + 1] - graph.indptr[complete]).sum())
    return Cost(len(own), len(first), len(second), edges)


def _rings(
    graph: Graph, owners: npt.NDArray[np.int32], number: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The nodes that a part owns, their neighbours, and those of the neighbours; each ascending."""
    met = owners == number
    own = np.flatnonzero(met)
    if len(own) == 0:
        raise InputError(
            f"every part must own a node, got none for part {number} of {int(owners.max()) + 1}; "
            "cut the graph into fewer parts"
        )
    first = _ring(graph, own, met)
    return own, first, _ring(graph, first, met)


def cost_of(part: Part) -> Cost:
    """What it holds."""
    first = part.complete - part.owned
    return Cost(part.owned, first, part.num_nodes - part.complete, part.num_edges)


def owners_by_range(graph: Graph, parts: int) -> npt.NDArray[np.int32]:
    """Consecutive nodes to each part, so that each has about as many nodes and edges (a node counts one)."""
    weights = graph.indptr[1:] + np.arange(1, graph.num_nodes + 1)
    owners: npt.NDArray[np.int32] = np.minimum((weights - 1) * parts // weights[-1], parts - 1).astype(
        np.int32
    )
    return owners


def cut_edges(graph: Graph, owners: npt.NDArray[np.int32]) -> int:
    """Directed edges between two parts."""
    found = 0
    for start, stop in row_chunks(graph.indptr):
        rows = np.repeat(owners[start:stop], np.diff(graph.indptr[start : stop + 1]))
        found += int((rows != owners[graph.indices[graph.indptr[start] : graph.indptr[stop]]]).sum())
    return found


def _ring(graph: Graph, rows: npt.NDArray[np.int64], met: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Neighbours of the rows that were not met before, ascending; now they are."""
    found = np.zeros(graph.num_nodes, bool)
    bounds = _running(graph.indptr[rows + 1] - graph.indptr[rows])
    for start, stop in row_chunks(bounds):
        _, positions = row_positions(graph.indptr, rows[start:stop])
        found[graph.indices[positions]] = True
    new = np.flatnonzero(found & ~met)
    met[new] = True
    return new


def _running(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds
