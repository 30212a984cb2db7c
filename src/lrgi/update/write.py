"""The changed graph as a directory: what did not change is the same file, the rest is written in parts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.arrays import ArrayEntry, ArrayWriter, FileEntry, open_array, write_parts
from lrgi.graph.change import write_changed_edges, write_changed_nodes
from lrgi.graph.encoding import Encoding
from lrgi.graph.features import DenseTable, SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.store import array_entries, attributes_entry, write_manifest
from lrgi.interop.attributes import write_changed_attributes
from lrgi.interop.tables.delta import NodeRows
from lrgi.structural import structural_features
from lrgi.update.merge import Merged

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

_ROWS = 1 << 16


def write_changed_graph(
    path: Path, graph: Graph, change: Merged, rows: NodeRows | None, directory: Path, *, directed: bool
) -> Ints:
    """Write the graph at `path` with a change into `directory`; returns the nodes with other features, and
    the new ones, ascending."""
    entries = array_entries(path)
    kept = {key: entry for key, entry in entries.items() if key not in ("indptr", "indices")}
    written = write_changed_edges(graph, change.change, directory)
    other = np.arange(graph.num_nodes, graph.num_nodes + len(change.ids))
    attributes = attributes_entry(path)
    new_attributes = attributes
    made = graph.encoding is not None and graph.encoding.made is not None
    if rows is not None or change.ids or made:
        given = {} if rows is None else rows.arrays
        written |= write_changed_nodes(graph, change.ids, directory, change.places, given)
        written["features"], other = _features(graph, change, rows, written, directory)
        if attributes is not None and (rows is not None or change.ids):
            new_attributes = _attributes(path, attributes, change, rows, directory)
    for key in kept.keys() - written.keys():
        _same_file(path / kept[key].file, directory / kept[key].file)
        written[key] = kept[key]
    if new_attributes is not None and new_attributes is attributes:
        _same_file(path / attributes.file, directory / attributes.file)
    columns = graph.num_features if isinstance(graph.features, SparseTable) else None
    write_manifest(
        directory, graph.name, written,
        columns=columns, encoding=graph.encoding, attributes=new_attributes, directed=directed,
    )  # fmt: skip
    return other


def _features(
    graph: Graph, change: Merged, rows: NodeRows | None, written: dict[str, ArrayEntry], directory: Path
) -> tuple[ArrayEntry, Ints]:
    """features.npy, and the nodes whose features are others than they were."""
    old, encoding = graph.features, graph.encoding or Encoding()
    if not isinstance(old, DenseTable):
        raise InputError(
            "a graph with sparse features must keep its nodes as they are, got rows of nodes; "
            "import it again with them"
        )
    made = _made(graph, change, written, directory)
    width = old.shape[1] - (0 if made is None else made.shape[1])
    behind = np.empty((len(change.ids), width), dtype=np.float32)
    if change.nodes.only_in_edges:
        behind[:] = encoding.gaps()
    if rows is not None:
        new = change.places >= graph.num_nodes
        behind[change.places[new] - graph.num_nodes] = rows.features[new]
    different: list[Ints] = []

    def parts() -> Iterator[Floats]:
        for start in range(0, graph.num_nodes, _ROWS):
            was = old.array[start : start + _ROWS]
            part = np.array(was)
            if rows is not None:
                inside = np.flatnonzero((change.places >= start) & (change.places < start + len(part)))
                part[change.places[inside] - start, :width] = rows.features[inside]
            if made is not None:
                part[:, width:] = made[start : start + len(part)]
            different.append(np.flatnonzero((part != was).any(1)) + start)
            yield part
        rest = [behind] if made is None else [behind, made[graph.num_nodes :]]
        yield np.concatenate(rest, axis=1)

    entry = write_parts(ArrayWriter(directory / "features.npy", np.float32, (old.shape[1],)), parts())
    return entry, np.concatenate([*different, np.arange(graph.num_nodes, change.change.nodes)])


def _made(graph: Graph, change: Merged, written: dict[str, ArrayEntry], directory: Path) -> Floats | None:
    """The features made of the changed structure, of all nodes."""
    if graph.encoding is None or graph.encoding.made is None:
        return None
    bare = Graph.trusted(
        open_array(directory, written["indptr"]),
        open_array(directory, written["indices"]),
        DenseTable(np.empty((change.change.nodes, 0), dtype=np.float32)),
    )
    return structural_features(bare, graph.encoding.made)


def _attributes(
    path: Path, old: FileEntry, change: Merged, rows: NodeRows | None, directory: Path
) -> FileEntry:
    given = None if rows is None else rows.attributes
    return write_changed_attributes(old.find(path), directory / old.file, change.ids, given, change.places)


def _same_file(old: Path, new: Path) -> None:
    """Files of a graph are never written to again: one may have two names."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)
        with new.open("rb") as file:
            os.fsync(file.fileno())
