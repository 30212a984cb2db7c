"""A graph and settings so small that a whole command takes a fraction of a second."""

import numpy as np

from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities

SMALL = ["--width", "8", "--updates", "2", "--batch-size", "100", "--layers", "2"]
SMALL_PLAN = {"width": 8, "updates": 2, "batch_size": 100, "layers": 2}


def tiny_graph() -> Graph:
    return planted_communities(240, 2400, classes=4, features=12)


def npz_arrays(graph: Graph) -> dict[str, np.ndarray]:
    """As shared/data/README.md describes a file."""
    receiver = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    edges = np.stack([graph.indices, receiver])
    return {"edge_index": edges, "x": graph.features.array, "y": graph.labels}
