"""Parts of a graph as a graph, and many graphs as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.edges import index_dtype
from lrgi.graph.features import DenseTable, SparseTable, Table, row_chunks, row_positions
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part
from lrgi.graph.split import TRAIN, VALIDATION

_PARTS = {"train": (TRAIN,), "train+validation": (TRAIN, VALIDATION)}


def training_subgraph(graph: Graph, fit_on: str = "train") -> tuple[Graph, npt.NDArray[np.int64]]:
    """The graph an encoder may see: induced by the nodes of `fit_on`, and their ids in the whole graph.

    `fit_on` is "train", "train+validation" or "all"; "all" gives the graph itself. A part holds nothing else.
    """
    if fit_on == "all" or (isinstance(graph, Part) and graph.fit_on == fit_on):
        return graph, np.arange(graph.num_nodes, dtype=np.int64)
    if fit_on not in _PARTS:
        raise InputError(f"fit_on must be 'train', 'train+validation' or 'all', got {fit_on!r}; choose one")
    if graph.split is None:
        raise InputError(
            f"a graph to fit on {fit_on!r} must have a split, got none; give a split or fit on 'all'"
        )
    nodes = np.flatnonzero(np.isin(graph.split, _PARTS[fit_on]))
    if not np.any(graph.split == TRAIN):
        raise InputError(
            f"a graph to fit on {fit_on!r} must have training nodes, got none; "
            "mark some with 1 in the split or fit on 'all'"
        )
    return induced_subgraph(graph, nodes)


def induced_subgraph(graph: Graph, nodes: npt.ArrayLike) -> tuple[Graph, npt.NDArray[np.int64]]:
    """The given nodes (ids, or a mask [N]), every edge between two of them, and their ids, ascending.

    Labels, split and the user's ids go along; a graph of a many-graph data set that keeps no node is
    left out. Raises InputError when no edge remains.
    """
    kept = _as_ids(nodes, graph.num_nodes)
    indptr, indices = _induced_rows(graph, kept)
    bounds = np.searchsorted(kept, graph.offsets)
    part = Graph.trusted(
        indptr,
        indices,
        graph.features.take(kept),
        labels=None if graph.labels is None else graph.labels[kept],
        split=None if graph.split is None else graph.split[kept],
        ids=None if graph.ids is None else graph.ids[kept],
        offsets=np.unique(bounds),
        name=graph.name,
        encoding=graph.encoding,
        directed=graph.directed,
    )
    return part, kept


def disjoint_union(graphs: Sequence[Graph], *, name: str | None = None) -> Graph:
    """Many graphs as one, in order: nodes are numbered on, and `offsets` says where each graph begins.

    Feature widths must agree; labels, split and ids must be given for all of the graphs or for none.
    """
    if not graphs:
        raise InputError("a union must have at least one graph, got none; give some graphs")
    starts = np.cumsum([0] + [graph.num_nodes for graph in graphs])
    edges = np.cumsum([0] + [graph.num_edges for graph in graphs])
    indptr = np.zeros(starts[-1] + 1, dtype=np.int64)
    indices = np.empty(edges[-1], dtype=index_dtype(int(starts[-1])))
    for at, graph in enumerate(graphs):
        indptr[starts[at] + 1 : starts[at + 1] + 1] = graph.indptr[1:] + edges[at]
        np.add(graph.indices, starts[at], out=indices[edges[at] : edges[at + 1]], casting="unsafe")
    offsets = [graph.offsets[:-1] + start for graph, start in zip(graphs, starts[:-1], strict=True)]
    return Graph.trusted(
        indptr,
        indices,
        join_tables([graph.features for graph in graphs]),
        labels=_join("labels", graphs, lambda graph: graph.labels),
        split=_join("split", graphs, lambda graph: graph.split),
        ids=_join("ids", graphs, lambda graph: graph.ids),
        offsets=np.concatenate([*offsets, starts[-1:]]),
        name=graphs[0].name if name is None else name,
        directed=graphs[0].directed if len({graph.directed for graph in graphs}) == 1 else None,
    )


def join_tables(tables: Sequence[Table]) -> Table:
    """Tables of one width, all dense or all sparse, one below the other."""
    widths = sorted({table.shape[1] for table in tables})
    if len(widths) > 1:
        raise InputError(
            f"graphs of a union must have features of one width, got widths {widths}; "
            "give every graph the same columns"
        )
    dense = [table for table in tables if isinstance(table, DenseTable)]
    sparse = [table for table in tables if isinstance(table, SparseTable)]
    if dense and sparse:
        raise InputError(
            "graphs of a union must have features all dense or all sparse, got both; convert some"
        )
    if dense:
        return DenseTable(np.concatenate([table.array for table in dense]))
    ends = np.cumsum([0] + [len(table.data) for table in sparse])
    bounds = [table.indptr[1:] + end for table, end in zip(sparse, ends[:-1], strict=True)]
    return SparseTable(
        np.concatenate([np.zeros(1, dtype=np.int64), *bounds]),
        np.concatenate([table.indices for table in sparse]),
        np.concatenate([table.data for table in sparse]),
        widths[0],
    )


def _induced_rows(
    graph: Graph, kept: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.integer[Any]]]:
    """CSR of the edges between kept nodes, renumbered; ascending order keeps each row sorted."""
    local = np.full(graph.num_nodes, -1, dtype=index_dtype(graph.num_nodes))
    local[kept] = np.arange(len(kept))
    degrees = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(graph.indptr[kept + 1] - graph.indptr[kept], out=degrees[1:])
    counts = np.zeros(len(kept) + 1, dtype=np.int64)
    parts = [np.empty(0, dtype=index_dtype(len(kept)))]
    for start, stop in row_chunks(degrees):
        bounds, positions = row_positions(graph.indptr, kept[start:stop])
        found = local[graph.indices[positions]]
        inside = found >= 0
        before = np.concatenate([[0], np.cumsum(inside)])
        counts[start + 1 : stop + 1] = np.diff(before[bounds])
        parts.append(found[inside].astype(parts[0].dtype, copy=False))
    return np.cumsum(counts), np.concatenate(parts)


def _as_ids(nodes: npt.ArrayLike, num_nodes: int) -> npt.NDArray[np.int64]:
    given = np.asarray(nodes)
    if given.dtype == np.bool_ and given.shape == (num_nodes,):
        return np.flatnonzero(given)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InputError(
            f"nodes must be integer ids or a mask of shape ({num_nodes},), "
            f"got {given.dtype} of shape {given.shape}; give ids in one dimension"
        )
    kept = np.unique(given).astype(np.int64)
    if len(kept) and (kept[0] < 0 or kept[-1] >= num_nodes):
        wrong = kept[0] if kept[0] < 0 else kept[-1]
        raise InputError(f"nodes must lie in 0 to {num_nodes - 1}, got {wrong}; correct the ids")
    return kept


def _join(what: str, graphs: Sequence[Graph], part: Callable[[Graph], Any]) -> npt.NDArray[Any] | None:
    given = [part(graph) for graph in graphs]
    found = [array for array in given if array is not None]
    if not found:
        return None
    if len(found) < len(given):
        raise InputError(
            f"graphs of a union must all have {what} or none, got {len(found)} of {len(given)} with them; "
            "add or remove them"
        )
    if len({array.shape[1:] for array in found}) > 1 or len({array.dtype.kind for array in found}) > 1:
        raise InputError(
            f"graphs of a union must have {what} of one kind, got {sorted({str(a.dtype) for a in found})} "
            f"of widths {sorted({a.shape[1:] for a in found})}; give every graph the same kind"
        )
    return np.concatenate(found)
