"""Propagated features: the mean over a node's neighbours, again and again. Nothing is learned."""

from __future__ import annotations

import numpy as np

from lrgi.encoder import propagated
from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, Table
from lrgi.graph.graph import Graph


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
    if steps == 0:
        return table if isinstance(table, DenseTable) else DenseTable(table.rows(np.arange(table.shape[0])))
    for _ in range(steps):
        table = propagated(graph, table)
    assert isinstance(table, DenseTable)
    return table
