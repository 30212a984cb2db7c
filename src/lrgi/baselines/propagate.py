"""Propagated features: the mean over a node's neighbours, again and again. Nothing is learned."""

from __future__ import annotations

import numpy as np
import torch

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, Table, row_chunks
from lrgi.graph.graph import Graph
from lrgi.layers.aggregate import neighbour_mean
from lrgi.layers.rows import as_tensor
from lrgi.sampling.block import graph_hop

_CHUNK_EDGES = 1 << 20


def propagate(graph: Graph, table: Table, steps: int) -> DenseTable:
    """`steps` times the plain mean over each node's in-neighbours, itself not among them; [N, d].

    A node without neighbours gets zeros. A sparse table becomes dense, so it should be narrow.
    """
    if table.shape[0] != graph.num_nodes:
        raise InputError(
            f"the table must have one row per node ({graph.num_nodes}), got {table.shape[0]} rows; "
            "propagate on the graph it belongs to"
        )
    if steps < 0:
        raise InputError(f"steps must be at least 0, got {steps}; raise it")
    dense = table.array if isinstance(table, DenseTable) else table.rows(np.arange(table.shape[0]))
    for _ in range(steps):
        x, fresh = as_tensor(dense), np.empty_like(dense)
        for start, stop in row_chunks(graph.indptr, _CHUNK_EDGES):
            hop = graph_hop(graph.indptr, graph.indices, start, stop)
            with torch.no_grad():
                fresh[start:stop] = neighbour_mean(x, hop).numpy()
        dense = fresh
    return DenseTable(dense)
