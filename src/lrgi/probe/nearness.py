"""How well a table tells neighbours from strangers: a measure of a layer that needs no labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.seed import stream

_EDGES = 100_000  # compared, each with a stranger


def edge_auc(table: Table, graph: Graph, *, seed: int = 0) -> float:
    """The chance that a node is nearer to a neighbour than to a random node, 0.5 to 1 and rarely below.

    The area under the ROC curve of the cosine, of rows less their mean, over a random sample of edges and
    as many random pairs with the same first node, fixed by the seed.
    """
    if table.shape[0] != graph.num_nodes or graph.num_edges == 0:
        raise InputError(
            f"a table and a graph to compare must have the same nodes, and edges, got {table.shape[0]} rows, "
            f"{graph.num_nodes} nodes and {graph.num_edges} edges; embed this graph"
        )
    random = stream(seed, "probe", "edges")
    edges = np.sort(random.integers(0, graph.num_edges, min(_EDGES, 4 * graph.num_edges)))
    nodes = np.searchsorted(graph.indptr, edges, side="right") - 1
    strangers = random.integers(0, graph.num_nodes, len(edges))
    mean = table.rows(random.integers(0, graph.num_nodes, 10_000)).mean(0)
    near = _cosines(table, nodes, graph.indices[edges], mean)
    far = _cosines(table, nodes, strangers, mean)
    values, ranks = np.unique(np.concatenate([near, far]), return_inverse=True)
    counts = np.bincount(ranks, minlength=len(values))
    middle = np.cumsum(counts) - (counts - 1) / 2  # the rank of each value, ties sharing theirs
    total = float(middle[ranks[: len(near)]].sum())
    return (total - len(near) * (len(near) + 1) / 2) / (len(near) * len(far))


def _cosines(
    table: Table, one: npt.NDArray[Any], other: npt.NDArray[Any], mean: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    a, b = table.rows(one) - mean, table.rows(other) - mean
    length = np.sqrt(np.einsum("nd,nd->n", a, a) * np.einsum("nd,nd->n", b, b))
    cosines: npt.NDArray[np.float32] = np.einsum("nd,nd->n", a, b) / np.where(length > 0, length, 1)
    return cosines
