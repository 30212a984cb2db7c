"""Small random graphs, and the ways in which a layer meets one."""

import numpy as np

from lrgi import seed as randomness
from lrgi.graph.features import DenseTable, SparseTable
from lrgi.graph.graph import Graph
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop, graph_hop
from lrgi.sampling.sample import sample_block

HOPS = ("whole", "range", "sampled")


def random_graph(
    seed: int, *, nodes: int = 40, edges: int = 130, width: int = 6, sparse: bool = False
) -> Graph:
    """A directed graph with isolated nodes, in-degree 0 nodes, and one hub that reads many."""
    random = np.random.default_rng(seed)
    linked = random.permutation(nodes)[: max(2, nodes - nodes // 8)]
    pairs = random.integers(0, len(linked), (2, edges))
    pairs[1, : edges // 4] = 0  # the hub
    pairs = np.concatenate([pairs, [[0], [1]]], axis=1)
    values = random.normal(size=(nodes, width)).astype(np.float32)
    if sparse:
        values *= random.random((nodes, width)) < 0.4
    table = sparse_table(values) if sparse else DenseTable(values)
    return Graph.from_edges(linked[pairs], table, num_nodes=nodes, directed=True)


def sparse_table(values: np.ndarray) -> SparseTable:
    """CSR of a dense array, entry by entry."""
    indptr, columns, data = [0], [], []
    for row in values:
        for column, value in enumerate(row):
            if value != 0:
                columns.append(column)
                data.append(value)
        indptr.append(len(data))
    return SparseTable(
        np.array(indptr), np.array(columns, np.int32), np.array(data, np.float32), values.shape[1]
    )


def hop_of(graph: Graph, kind: str) -> tuple[Hop, Rows]:
    """A hop of this kind and the table rows of its sources."""
    if kind == "whole":
        return graph_hop(graph.indptr, graph.indices, 0, graph.num_nodes), Rows(graph.features)
    if kind == "range":
        start, stop = graph.num_nodes // 5, graph.num_nodes // 2
        return graph_hop(graph.indptr, graph.indices, start, stop), Rows(graph.features)
    targets = np.random.default_rng(5).permutation(graph.num_nodes)[: graph.num_nodes // 3]
    block = sample_block(graph, targets, (3, 2), randomness.key(0, "test"))
    hop = block.hop(1)
    return hop, Rows(graph.features, block.nodes[: hop.num_sources])


def neighbours(hop: Hop, row: int) -> list[int]:
    """The sources that a row reads, itself not among them."""
    return [int(j) for j in hop.indices[hop.indptr[row] : hop.indptr[row + 1]]]


def edge_index(hop: Hop, *, own: bool) -> np.ndarray:
    """PyG's [2, E]: (source, row) pairs one by one."""
    pairs = [(j, r) for r in range(hop.num_rows) for j in neighbours(hop, r)]
    if own:
        pairs += [(hop.first + r, r) for r in range(hop.num_rows)]
    return np.array(pairs, np.int64).reshape(-1, 2).T
