"""Graph: who sends to whom, what is known of every node, and nothing that changes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.edges import in_neighbours, index_dtype
from lrgi.graph.encoding import Encoding
from lrgi.graph.features import Table, as_table, read_only, row_chunks
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION

__all__ = ["NO_SPLIT", "TEST", "TRAIN", "VALIDATION", "Graph"]


def _one_graph() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)  # stands for [0, N], which the constructor puts in its place


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """An immutable graph of N nodes and E directed edges, as in-neighbours in CSR form.

    indptr    int64[N+1]; node i reads from indices[indptr[i]:indptr[i+1]]
    indices   int32[E] (int64 when N > 2^31); each row sorted, distinct, without the node itself
    features  a Table of N rows
    labels    None, int64[N] (one class, -1 unknown) or uint8[N, C] (many labels, 0 or 1)
    split     None or uint8[N]: NO_SPLIT, TRAIN, VALIDATION, TEST
    ids       None or the user's own id of every node, int64 or str
    offsets   int64[G+1]; graph g of a many-graph data set is nodes offsets[g]:offsets[g+1]
    name      what people call it
    encoding  None, or how the features were made of a table's columns
    directed  whether edges were kept as they were given, not made to go both ways; None: it is not known

    Construction checks everything once and raises InputError; arrays become read-only views.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.integer[Any]]
    features: Table
    labels: npt.NDArray[np.integer[Any]] | None = None
    split: npt.NDArray[np.uint8] | None = None
    ids: npt.NDArray[Any] | None = None
    offsets: npt.NDArray[np.int64] = field(default_factory=_one_graph)
    name: str = "graph"
    encoding: Encoding | None = None
    directed: bool | None = None

    def __post_init__(self) -> None:
        self._settle()
        self.check()

    @classmethod
    def trusted(
        cls,
        indptr: npt.NDArray[np.int64],
        indices: npt.NDArray[np.integer[Any]],
        features: Table,
        **rest: Any,
    ) -> Self:
        """A graph whose values are known to be right: shapes are checked, values are not looked at.

        For arrays that were checked before they were written; opening a mapped graph reads no edge.
        """
        graph = object.__new__(cls)
        given = {"indptr": indptr, "indices": indices, "features": features, **rest}
        defaults = {"labels": None, "split": None, "ids": None, "offsets": None, "name": "graph"}
        for entry in fields(cls):
            object.__setattr__(graph, entry.name, given.pop(entry.name, defaults.get(entry.name)))
        if given:
            raise TypeError(f"Graph has no fields {sorted(given)}")
        graph._settle()
        return graph

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        features: Any,
        *,
        num_nodes: int | None = None,
        directed: bool | None = False,
        labels: npt.ArrayLike | None = None,
        split: npt.ArrayLike | None = None,
        ids: npt.ArrayLike | None = None,
        offsets: npt.ArrayLike | None = None,
        name: str = "graph",
    ) -> Graph:
        """A graph from edges int[2, E], where row 0 sends to row 1.

        Unless `directed`, every edge is made to go both ways; with it, only the receiver reads the
        sender; None keeps edges too, and leaves open what they are. Duplicates merge and self loops
        are dropped (`graph.edges.in_neighbours` counts them); nodes without edges stay. Features are
        an array [N, d] of numbers, a scipy sparse matrix, or a Table; `num_nodes` is their number of
        rows unless said otherwise.
        """
        table = as_table(features)
        nodes = table.shape[0] if num_nodes is None else int(num_nodes)
        _check_counts(nodes, table.shape[0])
        built = in_neighbours(edges, nodes, directed=directed is not False)
        graph = cls.trusted(
            built.indptr,
            built.indices,
            table,
            labels=None if labels is None else np.asarray(labels),
            split=None if split is None else np.asarray(split),
            ids=None if ids is None else np.asarray(ids),
            offsets=None if offsets is None else np.asarray(offsets),
            name=name,
            directed=directed,
        )
        graph._check_nodes()
        return graph

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """E: directed edges, so an undirected edge counts twice."""
        return len(self.indices)

    @property
    def num_graphs(self) -> int:
        """G: graphs laid side by side in this one."""
        return len(self.offsets) - 1

    @property
    def num_features(self) -> int:
        """d: columns of the features."""
        return self.features.shape[1]

    @property
    def degree_indptr(self) -> npt.NDArray[np.int64]:
        """A running sum of all nodes' degrees: `indptr`, unless this is a part of a graph."""
        return self.indptr

    def degrees(self) -> npt.NDArray[np.int64]:
        """In-degree of every node, int64[N]."""
        return np.diff(self.indptr)

    def check(self) -> None:
        """Look at every value and raise InputError for the first that breaks a rule."""
        self._check_rows()
        self._check_nodes()

    def _settle(self) -> None:
        """Bring every field to its type and shape; costs nothing for arrays that already have them."""
        table = as_table(self.features)
        indptr = np.asarray(self.indptr)
        indices = np.asarray(self.indices)
        if indptr.ndim != 1 or len(indptr) == 0 or indptr.dtype.kind not in "iu":
            raise InputError(
                f"indptr must be integers of shape (N + 1,), got {indptr.dtype} of shape {indptr.shape}; "
                "build the graph with Graph.from_edges"
            )
        nodes = len(indptr) - 1
        _check_counts(nodes, table.shape[0])
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise InputError(
                f"indices must be integers of shape (E,), got {indices.dtype} of shape {indices.shape}; "
                "build the graph with Graph.from_edges"
            )
        if len(indices) == 0:
            raise InputError(
                "a graph must have at least one edge between two different nodes, got none; "
                "give edges, or use the features as they are"
            )
        if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices):
            raise InputError(
                f"indptr must run from 0 to the number of edges {len(indices)}, "
                f"got {indptr[0]} to {indptr[-1]}; build the graph with Graph.from_edges"
            )
        settled = {
            "indptr": read_only(np.ascontiguousarray(indptr, dtype=np.int64)),
            "indices": read_only(_as_indices(indices, nodes)),
            "features": table,
            "labels": _settle_labels(self.labels, nodes),
            "split": _settle_split(self.split, nodes),
            "ids": _settle_ids(self.ids, nodes),
            "offsets": _settle_offsets(self.offsets, nodes),
            "name": str(self.name),
        }
        for key, value in settled.items():
            object.__setattr__(self, key, value)

    def _check_rows(self) -> None:
        if (np.diff(self.indptr) < 0).any():
            row = int(np.argmax(np.diff(self.indptr) < 0))
            raise InputError(
                f"indptr must not fall, got a fall after node {row}; build the graph with Graph.from_edges"
            )
        for start, stop in row_chunks(self.indptr):
            first = int(self.indptr[start])
            part = self.indices[first : int(self.indptr[stop])]
            rows = np.repeat(np.arange(start, stop), np.diff(self.indptr[start : stop + 1]))
            outside = (part < 0) | (part >= self.num_nodes)
            wrong = outside | (part == rows)
            wrong[1:] |= (part[1:] <= part[:-1]) & (rows[1:] == rows[:-1])
            if wrong.any():
                at = int(np.argmax(wrong))
                rule = (
                    f"lie in 0 to {self.num_nodes - 1}"
                    if outside[at]
                    else "be sorted, distinct and without the node itself"
                )
                raise InputError(
                    f"in-neighbours must {rule}, got {part[at]} for node {rows[at]}; "
                    "build the graph with Graph.from_edges"
                )

    def _check_nodes(self) -> None:
        self.features.check()
        if self.labels is not None:
            low, high = (-1, 2**31) if self.labels.ndim == 1 else (0, 1)
            _check_range("labels", self.labels, low, high, "number classes from 0, with -1 for unknown")
        if self.split is not None:
            _check_range("split", self.split, NO_SPLIT, TEST, "use 0 none, 1 train, 2 validation, 3 test")
        if self.num_graphs > 1:
            self._check_apart()

    def _check_apart(self) -> None:
        """No edge joins two graphs; rows are sorted, so their first and last neighbour tell."""
        filled = np.flatnonzero(self.degrees())
        graph_of = np.searchsorted(self.offsets, filled, side="right") - 1
        low = self.indices[self.indptr[filled]] < self.offsets[graph_of]
        high = self.indices[self.indptr[filled + 1] - 1] >= self.offsets[graph_of + 1]
        if (low | high).any():
            node = int(filled[np.argmax(low | high)])
            raise InputError(
                f"edges must stay within one graph, got node {node} with a neighbour in another; "
                "correct the offsets or join the graphs"
            )


def _check_counts(nodes: int, rows: int) -> None:
    if rows != nodes:
        raise InputError(
            f"features must have one row per node ({nodes}), got {rows} rows; give one row per node"
        )
    if nodes == 0:
        raise InputError("a graph must have at least one node, got none; give at least one row of features")


def _as_indices(indices: npt.NDArray[Any], nodes: int) -> npt.NDArray[Any]:
    wanted = index_dtype(nodes)
    if indices.dtype != wanted and (int(indices.min()) < 0 or int(indices.max()) >= nodes):
        raise InputError(
            f"in-neighbours must lie in 0 to {nodes - 1}, got {indices.min()} to {indices.max()}; "
            "build the graph with Graph.from_edges"
        )
    return np.ascontiguousarray(indices, dtype=wanted)


def _settle_labels(given: Any, nodes: int) -> npt.NDArray[Any] | None:
    if given is None:
        return None
    labels = np.asarray(given)
    if labels.ndim not in (1, 2) or len(labels) != nodes:
        raise InputError(
            f"labels must have one entry or row per node ({nodes}), got shape {labels.shape}; "
            "use -1 where a class is unknown"
        )
    if labels.dtype.kind not in ("iub" if labels.ndim == 1 else "iubf"):
        raise InputError(f"labels must be integers, got dtype {labels.dtype}; number the classes from 0")
    if labels.ndim == 1:
        return read_only(np.ascontiguousarray(labels, dtype=np.int64))
    if labels.dtype != np.uint8:
        if not ((labels == 0) | (labels == 1)).all():
            raise InputError(
                "labels of many classes must be 0 or 1, got other values; give one column per class"
            )
        labels = labels.astype(np.uint8)
    return read_only(np.ascontiguousarray(labels))


def _settle_split(given: Any, nodes: int) -> npt.NDArray[Any] | None:
    if given is None:
        return None
    split = np.asarray(given)
    if split.shape != (nodes,) or split.dtype.kind not in "iu":
        raise InputError(
            f"split must be integers of shape ({nodes},), got {split.dtype} of shape {split.shape}; "
            "use 0 none, 1 train, 2 validation, 3 test"
        )
    if split.dtype != np.uint8:
        _check_range("split", split, NO_SPLIT, TEST, "use 0 none, 1 train, 2 validation, 3 test")
    return read_only(np.ascontiguousarray(split, dtype=np.uint8))


def _settle_ids(given: Any, nodes: int) -> npt.NDArray[Any] | None:
    if given is None:
        return None
    ids = np.asarray(given)
    if ids.shape != (nodes,) or ids.dtype.kind not in "iuU":
        raise InputError(
            f"ids must be integers or strings of shape ({nodes},), got {ids.dtype} of shape {ids.shape}; "
            "give one id per node"
        )
    return read_only(ids if ids.dtype.kind == "U" else np.ascontiguousarray(ids, dtype=np.int64))


def _settle_offsets(given: Any, nodes: int) -> npt.NDArray[Any]:
    if given is None or np.size(given) == 0:
        return read_only(np.array([0, nodes], dtype=np.int64))
    offsets = np.ascontiguousarray(given, dtype=np.int64)
    if offsets.ndim != 1 or offsets[0] != 0 or offsets[-1] != nodes or (np.diff(offsets) <= 0).any():
        raise InputError(
            f"offsets must rise from 0 to the number of nodes {nodes}, "
            f"got {np.array2string(offsets, threshold=6)}; give the first node of every graph, then {nodes}"
        )
    return read_only(offsets)


def _check_range(what: str, values: npt.NDArray[Any], low: int, high: int, remedy: str) -> None:
    bad = (values < low) | (values > high)
    if bad.any():
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise InputError(f"{what} must lie in {low} to {high}, got {values[at]} for node {at[0]}; {remedy}")
