"""A graph from tables, with its features made once more: as another graph's were."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.directory import reserve
from lrgi.errors import InputError
from lrgi.graph.encoding import Encoding
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.store import attributes_of, open_graph
from lrgi.interop.featured import with_features
from lrgi.interop.tables.engine import Engine, engine
from lrgi.interop.tables.fields import find_again, make_node_rows
from lrgi.interop.tables.nodes import encoded_batches
from lrgi.interop.tables.sources import open_source
from lrgi.structural import feature_names, structural_features

_IN_MEMORY = 1 << 30  # bytes; larger features go to an unnamed temporary file


def recoded(path: str | Path, wanted: Encoding) -> Graph:
    """The graph directory `path` with the features that `wanted` makes of its columns.

    Raises InputError for a missing or an extra column, FormatError for one that holds something else.
    """
    graph = open_graph(path)
    given = graph.encoding
    if given is None:
        raise InputError(
            f"a graph to embed must come from tables as the fitted one did, got {path}, which does not; "
            "import its tables with --like RUN"
        )
    if given.same_features(wanted):
        return graph
    if (found := wanted.difference(given)) is not None:
        raise InputError(
            f"a graph to embed must have the columns of the fit, got {found} in {path}; import it "
            "again as the fitted one was (tables: with --like RUN)"
        )
    made = 0 if wanted.made is None else len(feature_names(wanted.made))
    features = _empty((graph.num_nodes, len(wanted.features) + made))
    _copy_lists(graph, given, wanted, features)
    attributes = attributes_of(path)
    if attributes is not None and any(column.kind != "list" for column in wanted.columns):
        with tempfile.TemporaryDirectory() as scratch, engine(Path(scratch) / "recode") as db:
            _encode(db, attributes, wanted, features)
    if wanted.made is not None:
        features[:, len(wanted.features) :] = structural_features(graph, wanted.made)
    return with_features(graph, features, replace(wanted, classes=given.classes))


def _encode(db: Engine, attributes: Path, wanted: Encoding, features: npt.NDArray[np.float32]) -> None:
    """Everything but lists, which are taken as they are and are not kept among the attributes."""
    source = open_source(db, str(attributes), "attributes")
    make_node_rows(db, source, "id", whole=False)
    scalars = [column for column in wanted.columns if column.kind != "list"]
    known = {column.name for column in scalars}
    roles = {name for name in source.columns if name not in known}
    fields = find_again(db, source, Encoding(tuple(scalars)), roles)
    places = _places(wanted)
    for start, part in encoded_batches(db, list(zip(fields, scalars, strict=True))):
        at = 0
        for column in scalars:
            width = len(column.features)
            begin = places[column.name]
            features[start : start + len(part), begin : begin + width] = part[:, at : at + width]
            at += width


def _copy_lists(graph: Graph, given: Encoding, wanted: Encoding, features: npt.NDArray[np.float32]) -> None:
    old, new = _places(given), _places(wanted)
    had = {column.name: column for column in given.columns}
    for column in wanted.columns:
        if column.kind != "list":
            continue
        source = had.get(column.name)
        if source is None or source.kind != "list" or source.width != column.width:
            found = "none" if source is None else f"{source.kind}s of {source.width:,}"
            raise InputError(
                f"column {column.name!r} must hold lists of {column.width:,} numbers as at the fit, "
                f"got {found}; correct it"
            )
        for start in range(0, graph.num_nodes, 1 << 16):
            rows = graph.features.slice(start, min(start + (1 << 16), graph.num_nodes))
            assert isinstance(rows, DenseTable)
            target = features[start : start + rows.shape[0], new[column.name] :]
            target[:, : column.width] = rows.array[:, old[column.name] :][:, : column.width]
            if column.missing:
                gaps = rows.array[:, old[column.name] + column.width] if source.missing else 0
                target[:, column.width] = gaps


def _places(encoding: Encoding) -> dict[str, int]:
    """Where each column's features begin."""
    places, at = {}, 0
    for column in encoding.columns:
        places[column.name] = at
        at += len(column.features)
    return places


def _empty(shape: tuple[int, int]) -> npt.NDArray[Any]:
    if 4 * shape[0] * shape[1] <= _IN_MEMORY:
        return np.zeros(shape, dtype=np.float32)
    with tempfile.TemporaryFile() as file:  # the mapping keeps the file alive, nameless
        reserve(file, 4 * shape[0] * shape[1])
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)
