"""Graphs from plain arrays by name, in one .npz file or in memory; docs/graph-format.md lists the names."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import DenseTable, SparseTable, Table
from lrgi.graph.graph import Graph
from lrgi.graph.npy import read_header
from lrgi.graph.split import split_from_masks
from lrgi.interop.featured import Source, featured, no_features

_SPARSE = ("x_indptr", "x_indices", "x_data", "x_shape")
_KNOWN = {*_SPARSE, "edge_index", "x", "y", "train_mask", "val_mask", "test_mask", "graph_id"}


def read_npz(path: str | os.PathLike[str], *, directed: bool = False, features_from: Source = None) -> Graph:
    """The graph in a .npz file: edge_index, x (or x_indptr, x_indices, x_data, x_shape), and perhaps
    y, train_mask, val_mask, test_mask and graph_id.

    Unless `directed`, every edge goes both ways, listed so or not. Nodes of one graph_id are brought
    together, and `ids` are then the positions in the file. With `features_from` (`featured`) there may be no
    x. Nothing is unpickled; raises FormatError.
    """
    with _naming(path):
        given = read_arrays(Path(path))
        return from_arrays(given, directed=directed, name=Path(path).stem, features_from=features_from)


def bare_npz(path: str | os.PathLike[str], *, directed: bool = False) -> Graph:
    """The same without making features; there may be none."""
    with _naming(path):
        return bare_from_arrays(read_arrays(Path(path)), directed, Path(path).stem)


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise FormatError(f"{path}: {error}") from error


def from_arrays(
    arrays: Mapping[str, Any], *, directed: bool = False, name: str = "graph", features_from: Source = None
) -> Graph:
    """A graph from arrays by the names that `read_npz` reads."""
    if not features_from and not any(key in arrays for key in ("x", *_SPARSE)):
        _need(arrays, "x")
    given = {key: np.asarray(value) for key, value in arrays.items()}
    return featured(bare_from_arrays(given, directed, name), features_from)


def bare_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], directed: bool, name: str) -> Graph:
    """The same without making features; there may be none."""
    edges, labels = _need(arrays, "edge_index"), arrays.get("y")
    table = _table(arrays)
    nodes = table.shape[0]
    split = split_from_masks(nodes, *(arrays.get(f"{part}_mask") for part in ("train", "val", "test")))
    groups, ids, offsets = arrays.get("graph_id"), None, None
    if groups is not None:
        ids, offsets = _by_group(groups, nodes)
    if ids is not None:
        table.check()
        edges, table = _renumber(edges, ids), table.take(ids)
        labels = labels[ids] if labels is not None and len(labels) == nodes else labels
        split = None if split is None else split[ids]
    return Graph.from_edges(
        edges, table, directed=directed, labels=labels, split=split, ids=ids, offsets=offsets, name=name
    )


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a .npz file by name; FormatError for anything else, and for Python objects."""
    if not path.is_file():
        raise FormatError("the file to import must exist, got no such file; check the path")
    try:
        opened = zipfile.ZipFile(path)
        members = {entry.filename.removesuffix(".npy"): entry for entry in opened.infolist()}
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, struct.error):
        raise FormatError(
            "the file to import must be a .npz file of arrays, got something else; write it with numpy.savez"
        ) from None
    with opened:
        arrays = {key: _read_array(opened, key, entry) for key, entry in members.items()}
    return {key: array for key, array in arrays.items() if array is not None}


def _read_array(opened: zipfile.ZipFile, key: str, entry: zipfile.ZipInfo) -> npt.NDArray[Any] | None:
    """None for an array that is not ours: it is only looked at, lest a damaged name hide one of ours.

    Memory is taken for what the archive has, not for what a header says.
    """
    try:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("a compression that numpy does not write")
        with opened.open(entry) as file:
            header = read_header(file)  # type: ignore[arg-type]
        if header.ends != entry.file_size:
            raise ValueError("a header that claims another size")
        if key not in _KNOWN:
            return None
        with opened.open(entry) as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    except (
        ValueError, EOFError, OSError, RuntimeError, struct.error, zipfile.BadZipFile, zlib.error
    ):  # fmt: skip
        raise FormatError(
            f"arrays in the file must be plain numbers or text, got {key!r}, which is damaged or holds "
            "Python objects; write it again with a plain dtype"
        ) from None


def _need(arrays: Mapping[str, Any], key: str) -> Any:
    if key not in arrays:
        raise FormatError(f"the file must hold {key!r}, got only {sorted(arrays)}; add that array")
    return arrays[key]


def _table(arrays: Mapping[str, npt.NDArray[Any]]) -> Table:
    if "x" not in arrays and not any(key in arrays for key in _SPARSE):
        return no_features(_count(arrays))
    if not any(key in arrays for key in _SPARSE):
        return DenseTable(arrays["x"])
    indptr, indices, data, shape = (_need(arrays, key) for key in _SPARSE)
    if shape.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise FormatError(
            f"x_indptr and x_shape must be whole numbers, got {indptr.dtype} and {shape.dtype}; write the "
            "sparse features again"
        )
    if shape.shape != (2,) or indptr.ndim != 1 or len(indptr) != int(shape[0]) + 1:
        raise FormatError(
            "x_indptr must have one entry more than x_shape has rows, "
            f"got {len(indptr)} for {shape.tolist()}; write the sparse features again"
        )
    return SparseTable(indptr, indices, data, int(shape[1]))


def _count(arrays: Mapping[str, npt.NDArray[Any]]) -> int:
    """The number of nodes where no features tell it: of what else has a row per node, else of the edges."""
    for key in ("y", "graph_id", "train_mask", "val_mask", "test_mask"):
        if key in arrays and arrays[key].ndim:
            return len(arrays[key])
    edges = arrays["edge_index"]
    return int(edges.max()) + 1 if edges.size and edges.dtype.kind in "iu" else 0


def _by_group(
    groups: npt.NDArray[Any], nodes: int
) -> tuple[npt.NDArray[np.int64] | None, npt.NDArray[np.int64]]:
    """The order that brings every graph together (None when they are), and where each graph begins."""
    if groups.shape != (nodes,):
        raise FormatError(f"graph_id must have shape ({nodes},), got {groups.shape}; give one id per node")
    _, first, counts = np.unique(groups, return_index=True, return_counts=True)
    changes = np.flatnonzero(groups[1:] != groups[:-1]) + 1
    if len(changes) == len(first) - 1:
        return None, np.concatenate([[0], changes, [nodes]])
    return np.argsort(groups, kind="stable"), np.concatenate([[0], np.cumsum(counts)])


def _renumber(edges: npt.NDArray[Any], order: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Edges in the new numbering; ids that are out of range stay so, for the graph's own check to name."""
    if edges.dtype.kind not in "iu":
        return edges
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    inside = (edges >= 0) & (edges < len(order))
    return np.where(inside, place[np.where(inside, edges, 0)], edges)
