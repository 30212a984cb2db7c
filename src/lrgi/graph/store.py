"""The graph directory: mapped .npy arrays beside a versioned manifest (docs/graph-format.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lrgi.directory import check_seal, new_directory, write_sealed
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import (
    ArrayEntry,
    FileEntry,
    create_array,
    describe_array,
    open_array,
    require_dtype,
    verify_array,
    write_array,
)
from lrgi.graph.encoding import Encoding
from lrgi.graph.features import DenseTable, SparseTable, Table
from lrgi.graph.graph import Graph

FORMAT = "lrgi-graph"
VERSION = 1
MANIFEST = "manifest.json"
ATTRIBUTES = ("attributes",)  # what `check_bytes` calls the table of the user's own columns

_DTYPES = {
    "indptr": ("<i8",),
    "indices": ("<i4", "<i8"),
    "features": ("<f4",),
    "features_indptr": ("<i8",),
    "features_indices": ("<i4",),
    "features_data": ("<f4",),
    "labels": ("<i8", "|u1"),
    "split": ("|u1",),
    "ids": ("<i8", "<U"),
    "offsets": ("<i8",),
}


def save_graph(graph: Graph, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a graph directory; it appears under its name only when it is complete and on the disk.

    A graph directory already there is replaced with `overwrite`; anything else there is refused.
    """
    final = Path(path).resolve()
    check_place(final, overwrite)
    with new_directory(final) as fresh:
        _write(graph, fresh)


class GraphFiles:
    """A graph directory in the making: arrays by the names of docs/graph-format.md, filled in place."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def create(self, key: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A new mapped array to fill before the directory is closed."""
        return create_array(self.directory / f"{key}.npy", shape, dtype)


@contextmanager
def new_graph_directory(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A directory to fill with arrays and `write_manifest`; it appears at `path` when the block ends well."""
    final = Path(path).resolve()
    check_place(final, overwrite)
    with new_directory(final) as fresh:
        yield fresh


@contextmanager
def new_graph(path: str | os.PathLike[str], name: str, *, overwrite: bool = False) -> Iterator[GraphFiles]:
    """Write a graph directory array by array, for graphs that should not be in memory; dense features.

    What is written is trusted: `verify_graph` reads it all. Like `save_graph` it appears when it is whole.
    """
    with new_graph_directory(path, overwrite=overwrite) as fresh:
        yield GraphFiles(fresh)
        entries = {file.stem: describe_array(file) for file in sorted(fresh.glob("*.npy"))}
        write_manifest(fresh, name, entries)


def write_manifest(
    directory: Path,
    name: str,
    entries: Mapping[str, ArrayEntry],
    *,
    columns: int | None = None,
    encoding: Encoding | None = None,
    directed: bool | None = None,
    attributes: FileEntry | None = None,
) -> None:
    """The manifest of a graph whose arrays are written; sparse features must say how many `columns`."""
    kind, width = ("sparse", columns) if columns is not None else ("dense", entries["features"].shape[1])
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "nodes": entries["indptr"].shape[0] - 1,
        "edges": entries["indices"].shape[0],
        "graphs": entries["offsets"].shape[0] - 1 if "offsets" in entries else 1,
        "features": {"kind": kind, "columns": width},
    }
    if directed is not None:
        manifest["directed"] = directed
    if encoding is not None:
        manifest["encoding"] = encoding.to_json()
    if attributes is not None:
        manifest["attributes"] = attributes.to_json()
    manifest["arrays"] = {key: entry.to_json() for key, entry in entries.items()}
    write_sealed(directory / MANIFEST, manifest)


def array_entries(path: str | os.PathLike[str]) -> dict[str, ArrayEntry]:
    """What the manifest of a graph directory says of its arrays, by name."""
    return _entries(_read_manifest(Path(path)))


def attributes_entry(path: str | os.PathLike[str]) -> FileEntry | None:
    """What the manifest says of the file with the user's own columns; None without one."""
    given = _read_manifest(Path(path)).get("attributes")
    return None if given is None else FileEntry.from_json(given, "attributes")


def attributes_of(path: str | os.PathLike[str]) -> Path | None:
    """The Parquet file of a graph directory with the user's own columns, a row per node; None without one."""
    entry = attributes_entry(path)
    return None if entry is None else entry.find(Path(path))


def open_graph(path: str | os.PathLike[str]) -> Graph:
    """Open a graph directory in milliseconds: arrays are memory-mapped, no value is read or checked.

    Raises FormatError for a directory that is something else, a newer version, or a truncated array.
    """
    directory = Path(path)
    manifest = _read_manifest(directory)
    arrays = {key: open_array(directory, entry) for key, entry in _entries(manifest).items()}
    try:
        graph = Graph.trusted(
            arrays["indptr"],
            arrays["indices"],
            _table(manifest, arrays),
            **{key: arrays.get(key) for key in ("labels", "split", "ids", "offsets")},
            name=str(manifest["name"]),
            encoding=None if manifest.get("encoding") is None else Encoding.from_json(manifest["encoding"]),
            directed=_directed(manifest),
        )
    except KeyError as missing:
        raise _broken(directory, f"no {missing}") from None
    except InputError as error:
        raise _broken(directory, f"this: {error}") from error
    counted = {"nodes": graph.num_nodes, "edges": graph.num_edges, "graphs": graph.num_graphs}
    for key, found in counted.items():
        if manifest.get(key) != found:
            raise _broken(directory, f"{manifest.get(key)} {key} in the manifest and {found} in the arrays")
    check_seal(directory / MANIFEST)
    return graph


def check_bytes(path: str | os.PathLike[str], keys: Collection[str] = ()) -> None:
    """Read the files of a graph directory, or the arrays with these keys, and compare their checksums.

    What was whole when it was written then still is. About a second per gigabyte; FormatError names the file.
    """
    directory = Path(path)
    manifest = _read_manifest(directory)
    check_seal(directory / MANIFEST)
    for key, entry in _entries(manifest).items():
        if not keys or key in keys:
            open_array(directory, entry)
            verify_array(directory, entry)
    if (not keys or keys == ATTRIBUTES) and manifest.get("attributes") is not None:
        FileEntry.from_json(manifest["attributes"], "attributes").verify(directory)


def verify_graph(path: str | os.PathLike[str]) -> None:
    """Read a whole graph directory: every checksum, and every rule a Graph keeps; FormatError if not so."""
    directory = Path(path)
    _read_manifest(directory)
    check_seal(directory / MANIFEST, required=True)
    check_bytes(directory)  # first: it names the file, where a rule would name what is wrong in it
    graph = open_graph(path)
    try:
        graph.check()
    except InputError as error:
        raise _broken(directory, f"this: {error}") from error


def is_graph_directory(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory whose manifest says that it is a graph, of whatever version."""
    try:
        manifest = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def _write(graph: Graph, directory: Path) -> None:
    entries = {key: write_array(directory / f"{key}.npy", array) for key, array in _arrays(graph).items()}
    columns = None if isinstance(graph.features, DenseTable) else graph.num_features
    encoding, directed = graph.encoding, graph.directed
    write_manifest(directory, graph.name, entries, columns=columns, encoding=encoding, directed=directed)


def _arrays(graph: Graph) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any] | None] = {"indptr": graph.indptr, "indices": graph.indices}
    table = graph.features
    if isinstance(table, DenseTable):
        arrays["features"] = table.array
    else:
        arrays["features_indptr"] = table.indptr
        arrays["features_indices"] = table.indices
        arrays["features_data"] = table.data
    arrays.update(labels=graph.labels, split=graph.split, ids=graph.ids, offsets=graph.offsets)
    return {key: array for key, array in arrays.items() if array is not None}


def check_place(final: Path, overwrite: bool) -> None:
    """Raise InputError unless a graph directory may be written at `final`."""
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return
    if not is_graph_directory(final):
        raise InputError(
            f"the place for a graph directory must be free, got {final}, which holds something else; "
            "choose another path"
        )
    if not overwrite:
        raise InputError(
            f"the place for a graph directory must be free, got {final}, which holds a graph; "
            "choose another path or ask to overwrite it"
        )


def _read_manifest(directory: Path) -> dict[str, Any]:
    if not directory.exists():
        raise FormatError(f"a graph directory must exist, got {directory}, which does not; check the path")
    if not is_graph_directory(directory):
        raise FormatError(
            f"a graph directory must hold a {MANIFEST} of format {FORMAT!r}, got {directory}, "
            "which is something else; make one with `lrgi import` or save_graph"
        )
    manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    version = manifest.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(
            f"a graph's version must be a whole number from 1, got {version!r} in {directory / MANIFEST}; "
            "write it again"
        )
    if version > VERSION:
        raise FormatError(
            f"a graph's version must be at most {VERSION}, got {version} in {directory / MANIFEST}; "
            "upgrade lrgi to open what a newer lrgi wrote"
        )
    return manifest


def _entries(manifest: dict[str, Any]) -> dict[str, ArrayEntry]:
    arrays = manifest.get("arrays")
    if not isinstance(arrays, dict):
        raise FormatError(f"a graph's manifest must list its arrays, got {arrays!r}; write the graph again")
    entries = {
        key: ArrayEntry.from_json(given, f"array {key}") for key, given in arrays.items() if key in _DTYPES
    }
    for key, allowed in _DTYPES.items():
        require_dtype(entries, key, allowed)
    return entries


def _table(manifest: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Table:
    described = manifest.get("features")
    kind, columns = (
        (described.get(key) for key in ("kind", "columns")) if isinstance(described, dict) else ("", 0)
    )
    if kind == "dense":
        return DenseTable(arrays["features"])
    if kind != "sparse" or type(columns) is not int:
        raise InputError(f"features must be described as dense or sparse, got {described!r}")
    return SparseTable(
        arrays["features_indptr"], arrays["features_indices"], arrays["features_data"], columns
    )


def _directed(manifest: dict[str, Any]) -> bool | None:
    given = manifest.get("directed")
    if given is not None and not isinstance(given, bool):
        raise InputError(f"directed must be true or false, got {given!r}")
    return given


def _broken(directory: Path, found: str) -> FormatError:
    return FormatError(f"graph directory {directory} must be whole, got {found}; write the graph again")
