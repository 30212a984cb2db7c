"""Tables of what is new in a graph: edges, and nodes with the columns of the graph's own. Held in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.encoding import Column, Encoding
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.interop.tables.edges import NodeCounts, check_ids, number_nodes, pair_nodes
from lrgi.interop.tables.engine import Engine, engine
from lrgi.interop.tables.fields import Field, find_again, role_field
from lrgi.interop.tables.nodes import (
    Rows,
    attributes_in_memory,
    encoded_batches,
    kept_rows,
    labels_of,
    split_of,
)
from lrgi.interop.tables.opened import Tables, open_tables
from lrgi.interop.tables.plan import TablePlan
from lrgi.interop.tables.sources import Source

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NodeRows:
    """The rows of a node table with an id that was not there before, in their order."""

    features: npt.NDArray[np.float32]  # of columns; those made of the structure are not among them
    labels: npt.NDArray[Any] | None
    split: npt.NDArray[np.uint8] | None
    attributes: Any  # an Arrow table of the user's own columns

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any] | None]:
        """What a graph keeps of nodes beside their features."""
        return {"labels": self.labels, "split": self.split}


@dataclass(frozen=True)
class Delta:
    """What tables say.

    ids      of the nodes of the node table in its order, then of those that only edges name, ascending
    edges    int64[2, E]: senders and receivers as places in `ids`; -1 where there was no id
    rows     of the first nodes, or None without a node table
    nodes    what became of the rows of the node table; `total` is len(ids)
    """

    ids: npt.NDArray[np.str_]
    edges: Ints
    rows: NodeRows | None
    nodes: NodeCounts
    columns: dict[str, str]

    @property
    def listed(self) -> int:
        """How many of the ids have a row."""
        return self.nodes.total - self.nodes.only_in_edges


def read_delta(
    graph: Graph,
    edges: str | None,
    nodes: str | None,
    plan: TablePlan,
    beside: Path,
    *,
    memory: str = "2GB",
    threads: int = 2,
    tell: Callable[[str], None] = lambda text: None,
    flag: str = "--edges",
) -> Delta:
    """Read tables of edges, of nodes, or of both; nodes get the features that the graph's encoding makes.

    The engine's scratch lies next to `beside`. InputError or FormatError for what cannot be understood.
    """
    if edges is None and nodes is None:
        return Delta(np.empty(0, np.str_), np.empty((2, 0), np.int64), None, NodeCounts(), {})
    with engine(beside, memory, threads) as db:
        tables = open_tables(db, edges, nodes, plan, tell, as_text=True, flag=flag)
        counts = number_nodes(db, has_nodes=nodes is not None, add_unknown=True, whole=False)
        check_ids(db)
        pair_nodes(db, all_known=True)
        ids = np.array([name for (name,) in db.rows("SELECT id FROM ids ORDER BY n")], dtype=np.str_)
        pairs = "SELECT coalesce(s, -1) AS s, coalesce(r, -1) AS r FROM pairs"
        parts = [
            np.stack([batch.column(0).to_numpy(), batch.column(1).to_numpy()]) for batch in db.batches(pairs)
        ]
        ends = np.concatenate([np.empty((2, 0), np.int64), *parts], axis=1)
        rows = None
        if tables.nodes is not None:
            db.keep_order(True)
            rows = _rows(db, graph, tables, tables.nodes, kept_rows(db, counts.read, counts.total))
    return Delta(ids, ends, rows, counts, tables.columns)


def _rows(db: Engine, graph: Graph, tables: Tables, source: Source, all_rows: Rows) -> NodeRows:
    rows = Rows(all_rows.kept, 0)  # nodes that only edges name have none
    known = {column.name for column in graph.encoding.columns} if graph.encoding is not None else set()
    used = {
        role: name
        for role, name in tables.columns.items()
        if role in ("id", "label", "split")
        and not (role in tables.guessed and role != "id" and name in known)
    }
    encoding = graph.encoding or _bare_encoding(graph, source, set(used.values()))
    fields = find_again(db, source, encoding, set(used.values()))
    roles = {role: role_field(source, name) for role, name in used.items() if role != "id"}
    labels = split = None
    if "label" in roles and graph.labels is not None:
        labels = _labels(db, graph, roles["label"], rows)
    if "split" in roles and graph.split is not None:
        split = split_of(db, roles["split"], rows)
    attributes = attributes_in_memory(db, [*roles.values(), *fields], rows)
    return NodeRows(_features(db, fields, encoding, rows), labels, split, attributes)


def _bare_encoding(graph: Graph, source: Source, used: set[str]) -> Encoding:
    """Of a graph of arrays: its features are one column, of lists."""
    columns = [name for name in source.columns if name not in used]
    lists = [name for name in columns if source.family(name) == "list"]
    if len(columns) != 1 or not lists or not isinstance(graph.features, DenseTable):
        raise InputError(
            f"nodes of a graph of arrays must have one column of lists of {graph.num_features:,} numbers, "
            f"got {', '.join(columns) or 'none'}; give that column, or import the graph from tables"
        )
    return Encoding((Column(columns[0], "list", width=graph.num_features),))


def _labels(db: Engine, graph: Graph, field: Field, rows: Rows) -> npt.NDArray[Any]:
    """By the classes of the graph: a value that is none of them is unknown."""
    assert graph.labels is not None
    classes = graph.encoding.classes if graph.encoding is not None else ()
    if graph.labels.ndim == 1 and not classes:
        classes = tuple(map(str, range(int(graph.labels.max(initial=-1)) + 1)))
    labels, _ = labels_of(db, field, rows, classes)
    if labels.shape[1:] != graph.labels.shape[1:]:
        raise InputError(
            f"labels must be as in the graph, of shape {graph.labels.shape[1:]} for each node, got "
            f"{labels.shape[1:]} in column {field.name!r}; correct it, or pass --label -"
        )
    return labels


def _features(db: Engine, fields: list[Field], encoding: Encoding, rows: Rows) -> npt.NDArray[np.float32]:
    columns = {column.name: column for column in encoding.columns}
    encoded = [(field, columns[field.name]) for field in fields if field.name in columns]
    made = np.empty((rows.total, len(encoding.features)), dtype=np.float32)
    if not encoded:
        return made
    done = 0
    for start, part in encoded_batches(db, encoded):
        keep = rows.kept[start : start + len(part)]
        made[done : done + int(keep.sum())] = part[keep]
        done += int(keep.sum())
    return made
