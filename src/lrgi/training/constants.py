"""The aggregates that a fit makes once per layer, for layers that read nothing else of neighbours."""

from __future__ import annotations

from lrgi.distributed.collectives import present
from lrgi.encoder import embed_layer
from lrgi.graph.features import DenseTable, Table
from lrgi.graph.graph import Graph
from lrgi.layers.constant import AggregatedTable, OnConstants, has_constants
from lrgi.training.objective import FittedModule, Objective
from lrgi.training.sharing import scratch_of
from lrgi.training.tables import TableStore


def reader_of(layer: FittedModule, objective: Objective, sparse: bool) -> FittedModule:
    """What the objective asks for u: the layer, or the layer on constants where there are any."""
    return OnConstants(layer) if objective.reads_constants and has_constants(layer, sparse) else layer


def inputs_of(reader: FittedModule, graph: Graph, table: Table, tables: TableStore) -> Table:
    """What the reader reads: the frozen table, or that and the aggregates over all neighbours of its rows."""
    if not isinstance(reader, OnConstants):
        return table
    constant = reader.layer.constant()
    assert constant is not None and isinstance(table, DenseTable)
    sink = scratch_of(present(), graph, tables, table.shape[1])
    return AggregatedTable(table.array, embed_layer(constant, graph, table, sink))
