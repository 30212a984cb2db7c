"""A checksum by which a graph is recognised, in a moment whatever its size."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part

_WHOLE = 64 << 20  # bytes of an array that is read whole
_PIECES, _PIECE = 1024, 16 << 10  # of a larger one: this many pieces of this many bytes, evenly spread


def fingerprint(graph: Graph) -> str:
    """blake2b over all arrays but the ids: whole up to 64 MiB, else 16 MiB of each."""
    digest = blake2b(digest_size=16)
    table = graph.features
    dense = isinstance(table, DenseTable)
    features = [table.array] if dense else [table.indptr, table.indices, table.data]  # type: ignore[union-attr]
    for array in (graph.indptr, graph.indices, *features, graph.labels, graph.split, graph.offsets):
        _add(digest, array)
    return digest.hexdigest()


def described(graph: Graph) -> dict[str, Any]:
    """What a record says of a graph: its sizes, and a checksum; of a part, of the graph that was cut."""
    if isinstance(graph, Part) and graph.of:
        return dict(graph.of)
    return {**sizes(graph), "checksum": fingerprint(graph)}


def sizes(graph: Graph) -> dict[str, Any]:
    """Its name and sizes; of a part, those of the whole graph."""
    return {
        "name": graph.name,
        "nodes": graph.whole_nodes if isinstance(graph, Part) else graph.num_nodes,
        "edges": graph.whole_edges if isinstance(graph, Part) else graph.num_edges,
        "graphs": len(graph.whole_offsets) - 1 if isinstance(graph, Part) else graph.num_graphs,
        "columns": graph.num_features,
    }


def _add(digest: Any, array: npt.NDArray[Any] | None) -> None:
    if array is None:
        digest.update(b"none ")
        return
    digest.update(f"{array.dtype.str} {array.shape} ".encode())
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if len(flat) <= _WHOLE:
        digest.update(flat.data if len(flat) else b"")
        return
    for start in np.linspace(0, len(flat) - _PIECE, _PIECES).astype(np.int64).tolist():
        digest.update(flat[start : start + _PIECE].tobytes())
