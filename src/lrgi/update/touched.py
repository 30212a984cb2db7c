"""Which rows of U_(l) a change of the graph can reach: all others keep their bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lrgi.graph.change import readers_of
from lrgi.graph.graph import Graph
from lrgi.layers.layer import GraphLayer

Ints = npt.NDArray[np.int64]


def touched_rows(layer: GraphLayer, graph: Graph, rows: Ints, inputs: Ints, *, directed: bool) -> Ints:
    """The rows of a layer's output that may change, ascending.

    `graph` is the changed one; `rows` are the nodes with other in-neighbours (the new ones among them),
    `inputs` those with another row in the layer's input. A node's output depends on its in-neighbours, on
    their inputs and on its own, and where neighbours count by their degree on those degrees: then whoever
    reads a node whose degree changed is touched, though its own row is the same.
    """
    seen = np.union1d(inputs, rows) if layer.reads_degrees else inputs
    parts = [rows, readers_of(graph, seen, directed=directed)]
    if layer.reads_itself:
        parts.append(inputs)
    touched: Ints = np.unique(np.concatenate(parts))
    return touched
