"""Oversmoothing: the mean average distance between neighbours (Chen et al. 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import Table, row_chunks, row_positions
from lrgi.graph.graph import Graph
from lrgi.seed import stream

_CHUNK_BYTES = 32 << 20


def mad(table: Table, graph: Graph, *, max_edges: int = 500_000, seed: int = 0) -> float:
    """Mean average distance of a table on a graph: 0 when neighbours are alike, 1 when unrelated.

    The cosine distance (0 to 2) of every node to each of its in-neighbours, averaged per node over
    the neighbours, then over the nodes whose average is not zero; 0.0 if there is none. Two zero
    rows are at distance 0, a zero row and another at 1. Exact up to `max_edges` edges; above,
    over a random sample of nodes, fixed by the seed, with about that many edges.
    """
    if table.shape[0] != graph.num_nodes:
        raise InputError(
            f"the table must have one row per node ({graph.num_nodes}), got {table.shape[0]} rows; "
            "embed this graph"
        )
    if max_edges < 1:
        raise InputError(f"max_edges must be at least 1, got {max_edges}; raise it")
    nodes = _sample(graph, max_edges, seed)
    indptr, positions = row_positions(graph.indptr, nodes)
    most = max(1, _CHUNK_BYTES // (4 * max(1, table.shape[1])))
    means = [
        _averages(
            table,
            nodes[start:stop],
            np.diff(indptr[start : stop + 1]),
            graph.indices[positions[indptr[start] : indptr[stop]]],
        )
        for start, stop in row_chunks(indptr, most)
    ]
    average = np.concatenate(means)
    filled = average[average > 0]
    return float(filled.mean()) if len(filled) else 0.0


def _sample(graph: Graph, max_edges: int, seed: int) -> npt.NDArray[np.int64]:
    """Nodes with neighbours, in order: all, or in random order until their edges are enough."""
    degrees = graph.degrees()
    nodes = np.flatnonzero(degrees)
    if graph.num_edges <= max_edges:
        return nodes
    order = stream(seed, "probe", "mad").permutation(nodes)
    enough = int(np.searchsorted(np.cumsum(degrees[order]), max_edges)) + 1
    return np.sort(order[:enough])


def _averages(
    table: Table, nodes: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], sources: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Each node's mean distance to its neighbours; every node has some."""
    own = np.repeat(_directions(table, nodes), counts, axis=0)
    other = _directions(table, sources)
    empty = ~own.any(1) ^ ~other.any(1)
    # For unit rows 1 - cos = |a - b|^2 / 2, which does not cancel when neighbours are nearly alike.
    own -= other
    distance = 0.5 * np.einsum("ed,ed->e", own, own).astype(np.float64)
    distance[empty] = 1.0
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    averages: npt.NDArray[np.float64] = np.add.reduceat(distance, starts) / counts
    return averages


def _directions(table: Table, ids: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    rows = table.rows(ids)
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    rows /= np.where(length > 0, length, 1.0).astype(np.float32)[:, None]
    return rows
