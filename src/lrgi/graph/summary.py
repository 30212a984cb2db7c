"""What a graph is, in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrgi.graph.features import SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.split import TEST, TRAIN, VALIDATION


def summarize(graph: Graph) -> dict[str, Any]:
    """JSON: sizes, degrees, kind of features and labels, and how many nodes are in each part of the split."""
    degrees = graph.degrees()
    table, labels, split = graph.features, graph.labels, graph.split
    features: dict[str, Any] = {"kind": "dense", "columns": graph.num_features}
    if isinstance(table, SparseTable):
        features |= {"kind": "sparse", "values": len(table.data)}
    described = None
    if labels is not None:
        many = labels.ndim == 2
        described = {
            "kind": "many labels" if many else "one class",
            "classes": int(labels.shape[1]) if many else int(labels.max(initial=-1)) + 1,
            "labelled_nodes": len(labels) if many else int(np.count_nonzero(labels >= 0)),
        }
    parts = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "graphs": graph.num_graphs,
        "isolated_nodes": int(np.count_nonzero(degrees == 0)),
        "mean_degree": round(float(degrees.mean()), 2),
        "largest_degree": int(degrees.max()),
        "features": features,
        "labels": described,
        "split": None if split is None else {k: int(np.count_nonzero(split == v)) for k, v in parts.items()},
        "ids": graph.ids is not None,
    }
