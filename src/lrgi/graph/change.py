"""Edges added to a graph and taken from it, and nodes behind the others: what is new, and the new rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.arrays import ArrayEntry, ArrayWriter, write_array, write_parts
from lrgi.graph.edges import index_dtype
from lrgi.graph.features import row_chunks, row_positions
from lrgi.graph.graph import Graph
from lrgi.graph.ids import dtype_with, ids_with
from lrgi.graph.split import NO_SPLIT

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EdgeChange:
    """What becomes of the in-neighbours of a graph that will have `nodes` nodes.

    Stored edges in the order of the rows: (receivers, senders) of those that are new, and where in the
    present `indices` those lie that go. `known` and `absent`: given edges that were there already, or are
    to go and were not there; an undirected edge counts once.
    """

    nodes: int
    receivers: Ints
    senders: Ints
    gone: Ints
    known: int = 0
    absent: int = 0

    def changed_rows(self, graph: Graph) -> Ints:
        """The nodes whose in-neighbours change, and the new ones, ascending."""
        owners = np.searchsorted(graph.indptr, self.gone, side="right") - 1
        new = np.arange(graph.num_nodes, self.nodes)
        return np.unique(np.concatenate([self.receivers, owners, new]))


def edge_change(
    graph: Graph, nodes: int, added: Ints, removed: Ints | None = None, *, directed: bool
) -> EdgeChange:
    """The change that edges int64[2, E] (row 0 sends to row 1) make, each once and none a self loop.

    InputError for an edge that is to be added and to be removed, and for new nodes among many graphs.
    """
    keys = _keys(added, nodes, directed)
    senders, receivers = keys % nodes, keys // nodes
    there = _positions(graph, senders, receivers)
    new = there < 0
    both = 1 if directed else 2
    gone, absent = np.empty(0, np.int64), 0
    if removed is not None:
        without = _keys(removed, nodes, directed)
        if in_both := len(np.intersect1d(without, keys, assume_unique=True)) // both:
            raise InputError(
                f"an edge must be either new or one to remove, got {in_both:,} that are both; "
                "take them out of one table"
            )
        found = _positions(graph, without % nodes, without // nodes)
        gone, absent = np.sort(found[found >= 0]), int(np.count_nonzero(found < 0)) // both
    known = int(np.count_nonzero(~new)) // both
    if nodes > graph.num_nodes and graph.num_graphs > 1:
        raise InputError(
            f"a graph of many graphs must keep its nodes, got {nodes - graph.num_nodes:,} new ones for "
            f"{graph.num_graphs:,} graphs; import it again"
        )
    return EdgeChange(nodes, receivers[new], senders[new], gone, known, absent)


def write_changed_edges(graph: Graph, change: EdgeChange, directory: Path) -> dict[str, ArrayEntry]:
    """indptr.npy and indices.npy of the changed graph, a part of the rows at a time."""
    old = graph.num_nodes
    counts = np.zeros(change.nodes + 1, dtype=np.int64)
    counts[1 : old + 1] = np.diff(graph.indptr)
    np.add.at(counts, change.receivers + 1, 1)
    np.subtract.at(counts, np.searchsorted(graph.indptr, change.gone, side="right"), 1)
    indptr = np.cumsum(counts)
    if indptr[-1] == 0:
        raise InputError(
            "a graph must have at least one edge between two different nodes, got none that stays; "
            "remove fewer"
        )
    writer = ArrayWriter(directory / "indices.npy", index_dtype(change.nodes))
    entries = {"indices": write_parts(writer, _changed_rows(graph, change))}
    entries["indptr"] = write_array(directory / "indptr.npy", indptr)
    return entries


def write_changed_nodes(
    graph: Graph,
    names: Sequence[str],
    directory: Path,
    places: Ints,
    given: Mapping[str, npt.NDArray[Any] | None],
) -> dict[str, ArrayEntry]:
    """ids, labels, split and offsets with nodes called `names` behind the others, as far as they change.

    `given` says "labels" and "split" of the nodes `places`; of other new ones they are not known.
    """
    written: dict[str, ArrayEntry] = {}
    for key, unknown in (("labels", -1), ("split", NO_SPLIT)):
        old, known = getattr(graph, key), given.get(key)
        if old is not None and (names or known is not None):
            more = (len(names), *old.shape[1:])
            whole = np.concatenate([old, np.full(more, unknown if old.ndim == 1 else 0, dtype=old.dtype)])
            if known is not None:
                whole[places] = known
            written[key] = write_array(directory / f"{key}.npy", whole)
    if not names:
        return written
    dtype = dtype_with(graph, names)
    if dtype is not None:
        writer = ArrayWriter(directory / "ids.npy", dtype)
        written["ids"] = write_parts(writer, ids_with(graph, names, dtype))
    offsets = np.array([0, graph.num_nodes + len(names)], dtype=np.int64)
    return written | {"offsets": write_array(directory / "offsets.npy", offsets)}


def is_symmetric(graph: Graph) -> bool:
    """Whether every edge goes both ways: of a graph that does not say whether it is directed."""
    if not np.array_equal(np.bincount(graph.indices, minlength=graph.num_nodes), graph.degrees()):
        return False
    for start, stop in row_chunks(graph.indptr):
        senders = graph.indices[graph.indptr[start] : graph.indptr[stop]].astype(np.int64)
        receivers = np.repeat(np.arange(start, stop), np.diff(graph.indptr[start : stop + 1]))
        if (_positions(graph, receivers, senders) < 0).any():
            return False
    return True


def readers_of(graph: Graph, nodes: Ints, *, directed: bool) -> Ints:
    """The nodes with one of `nodes` among their in-neighbours, ascending."""
    if not directed:
        return np.unique(graph.indices[row_positions(graph.indptr, nodes)[1]]).astype(np.int64)
    among = np.zeros(graph.num_nodes, dtype=bool)
    among[nodes] = True
    found = [np.empty(0, np.int64)]
    for start, stop in row_chunks(graph.indptr):
        first = int(graph.indptr[start])
        at = np.flatnonzero(among[graph.indices[first : int(graph.indptr[stop])]]) + first
        found.append(np.unique(np.searchsorted(graph.indptr, at, side="right") - 1))
    return np.concatenate(found)


def _keys(edges: Ints, nodes: int, directed: bool) -> Ints:
    """receiver * nodes + sender of every stored edge, once, ascending."""
    senders, receivers = edges
    keys = receivers * nodes + senders
    return np.unique(keys if directed else np.concatenate([keys, senders * nodes + receivers]))


def _positions(graph: Graph, senders: Ints, receivers: Ints) -> Ints:
    """Where in `indices` these edges lie; -1 where they do not."""
    at = _places(graph, senders, receivers)
    inside = receivers < graph.num_nodes
    inside[inside] = at[inside] < graph.indptr[receivers[inside] + 1]
    inside[inside] = graph.indices[at[inside]] == senders[inside]
    return np.where(inside, at, -1)


def _places(graph: Graph, senders: Ints, receivers: Ints) -> Ints:
    """Where in `indices` each edge lies or would have to be put: a search in all rows at once."""
    rows = np.minimum(receivers, graph.num_nodes - 1)
    low, high = graph.indptr[rows], graph.indptr[rows + 1]
    low = np.where(receivers < graph.num_nodes, low, graph.num_edges)
    high = np.where(receivers < graph.num_nodes, high, graph.num_edges)
    while (low < high).any():
        middle = (low + high) // 2
        value = graph.indices[np.minimum(middle, graph.num_edges - 1)]
        below = (low < high) & (value < senders)
        high = np.where((low < high) & ~below, middle, high)
        low = np.where(below, middle + 1, low)
    return low


def _changed_rows(graph: Graph, change: EdgeChange) -> Iterator[npt.NDArray[np.integer[Any]]]:
    """The in-neighbours of all nodes, one after the other."""
    done = 0  # of the added edges
    for start, stop in row_chunks(graph.indptr):
        upto = int(np.searchsorted(change.receivers, stop))
        yield _changed(graph, change, (start, stop), slice(done, upto))
        done = upto
    yield change.senders[done:]


def _changed(
    graph: Graph, change: EdgeChange, span: tuple[int, int], new: slice
) -> npt.NDArray[np.integer[Any]]:
    """The in-neighbours of a range of old rows, one after the other."""
    first, last = int(graph.indptr[span[0]]), int(graph.indptr[span[1]])
    part = graph.indices[first:last]
    gone = change.gone[np.searchsorted(change.gone, first) : np.searchsorted(change.gone, last)] - first
    if new.start == new.stop and len(gone) == 0:
        return part
    stays = np.ones(len(part), dtype=bool)
    stays[gone] = False
    places = _places(graph, change.senders[new], change.receivers[new]) - first
    made: npt.NDArray[np.integer[Any]] = np.insert(part, places, change.senders[new])
    made = made[np.insert(stays, places, True)]
    return made
