"""What tables of new edges and nodes change in a graph: who is new, which edges are, what was known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.change import EdgeChange, edge_change
from lrgi.graph.features import SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.ids import places_of
from lrgi.interop.tables.delta import Delta

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EdgeRows:
    """read = empty_end + unknown + self_loops + repeated + known + added; or of edges that go, + removed."""

    read: int = 0
    empty_end: int = 0  # no sender or no receiver: dropped
    unknown: int = 0  # an end that is no node: dropped, where that was asked for
    self_loops: int = 0  # dropped
    repeated: int = 0  # said before in the same table; undirected, either way round
    known: int = 0  # in the graph already: nothing changes. Of edges that go: not in the graph
    added: int = 0  # of edges that go: removed


@dataclass(frozen=True)
class NodeRowCounts:
    """read = empty_id + repeated_id + new rows + changed + same."""

    read: int = 0
    empty_id: int = 0  # no id: dropped
    repeated_id: int = 0  # an id that was there before in the same table: the first row counts
    new: int = 0  # nodes that were not in the graph, with a row
    known: int = 0  # nodes of the graph: the row takes the place of the one there was
    only_in_edges: int = 0  # new nodes without a row: their columns are gaps
    total: int = 0  # nodes of the graph afterwards


@dataclass(frozen=True)
class Merged:
    """A change of a graph.

    ids     of the new nodes, which stand behind the others
    change  of the edges
    places  which node each row of the node table is of
    """

    ids: tuple[str, ...]
    change: EdgeChange
    places: Ints
    nodes: NodeRowCounts
    edges: EdgeRows
    removed: EdgeRows | None

    def counts(self) -> dict[str, Any]:
        """As a JSON object."""
        gone = None
        if self.removed is not None:
            gone = asdict(self.removed)
            gone["absent"], gone["removed"] = gone.pop("known"), gone.pop("added")
        return {"nodes": asdict(self.nodes), "edges": asdict(self.edges), "removed_edges": gone}


def merged(graph: Graph, delta: Delta, less: Delta | None, *, add_unknown: bool, directed: bool) -> Merged:
    """What `delta` adds to a graph and `less` takes from it. InputError for nodes that cannot be added."""
    places = places_of(graph, delta.ids)
    new = np.flatnonzero(places < 0)
    if not add_unknown:
        new = new[new < delta.listed]
    alone = int(np.count_nonzero(new >= delta.listed))
    if alone and (graph.encoding is None or isinstance(graph.features, SparseTable)):
        raise InputError(
            f"new nodes must have features, got none for {str(delta.ids[new[-1]])!r}, which only the edges "
            "name; give it a row in --nodes, or pass --unknown drop"
        )
    places[new] = graph.num_nodes + np.arange(len(new))
    nodes = graph.num_nodes + len(new)
    added, rows = _sorted_out(places, delta.edges, nodes, directed)
    removed, rows_gone = None, None
    if less is not None:
        removed, rows_gone = _sorted_out(places_of(graph, less.ids), less.edges, nodes, directed)
    change = edge_change(graph, nodes, added, removed, directed=directed)
    of_rows = places[: delta.listed]
    counts = delta.nodes
    return Merged(
        tuple(delta.ids[new].tolist()),
        change,
        of_rows if delta.rows is not None else np.empty(0, np.int64),
        NodeRowCounts(
            counts.read, counts.empty_id, counts.repeated_id,
            len(new) - alone, int(np.count_nonzero(of_rows < graph.num_nodes)), alone, nodes,
        ),
        _settled(rows, change.known),
        None if rows_gone is None else _settled(rows_gone, change.absent),
    )  # fmt: skip


def _sorted_out(places: Ints, given: Ints, nodes: int, directed: bool) -> tuple[Ints, EdgeRows]:
    """The edges between two different nodes, each once, and what became of the others."""
    ends, empty = np.append(places, -1)[given], (given < 0).any(0)
    unknown = ~empty & (ends < 0).any(0)
    loops = ~empty & ~unknown & (ends[0] == ends[1])
    good = ends[:, ~(empty | unknown | loops)]
    either = good if directed else np.sort(good, axis=0)
    once = np.stack(np.divmod(np.unique(either[0] * nodes + either[1]), nodes))
    dropped = [int(np.count_nonzero(rows)) for rows in (empty, unknown, loops)]
    repeated = good.shape[1] - once.shape[1]
    return once, EdgeRows(ends.shape[1], dropped[0], dropped[1], dropped[2], repeated, 0, once.shape[1])


def _settled(rows: EdgeRows, known: int) -> EdgeRows:
    """With what the graph says of them."""
    return replace(rows, known=known, added=rows.added - known)
