"""METIS (through pymetis): parts of a graph with few edges between them."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.edges import in_neighbours
from lrgi.graph.graph import Graph
from lrgi.graph.part import owners_by_range

QUICK_EDGES = 20_000_000  # that METIS cuts within the time that processes wait for each other


def owners_by_metis(graph: Graph, parts: int) -> npt.NDArray[np.int32]:
    """The part of every node, by METIS: parts of about as many nodes, and few edges between them.

    METIS reads edges both ways; where some go one way only, they are made to go both for it.
    """
    try:
        import pymetis
    except ImportError:
        raise InputError(
            "cutting by metis must have pymetis, got none installed; "
            "pip install 'lrgi[partition]', or cut with --by ranges"
        ) from None
    indptr, indices = graph.indptr, graph.indices
    if not _goes_both_ways(graph):
        rows = np.repeat(np.arange(graph.num_nodes), graph.degrees())
        both = in_neighbours(np.stack([indices, rows]), graph.num_nodes)
        indptr, indices = both.indptr, both.indices
    if parts == 1:
        return np.zeros(graph.num_nodes, np.int32)
    adjacency = pymetis.CSRAdjacency(np.asarray(indptr), np.asarray(indices))
    _, owners = pymetis.part_graph(parts, adjacency)
    return np.asarray(owners, np.int32)


def owners_for(graph: Graph, parts: int) -> npt.NDArray[np.int32]:
    """By METIS where it is installed and takes seconds, else consecutive nodes."""
    if graph.num_edges > QUICK_EDGES or find_spec("pymetis") is None:
        return owners_by_range(graph, parts)
    return owners_by_metis(graph, parts)


def _goes_both_ways(graph: Graph) -> bool:
    """By an order-free fingerprint: the sums of two functions of (sender, receiver) are the same reversed."""
    rows = np.repeat(np.arange(graph.num_nodes, dtype=np.uint64), graph.degrees())
    columns = graph.indices.astype(np.uint64)
    mixed = [_mix(a * np.uint64(0x9E3779B97F4A7C15) + b) for a, b in ((rows, columns), (columns, rows))]
    return bool(mixed[0].sum() == mixed[1].sum())


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
