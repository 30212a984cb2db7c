"""Features made of the structure, for graphs that came from elsewhere than tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.encoding import Column, Encoding
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.split import TRAIN
from lrgi.structural import plan_features, structural_features

Source = str | Mapping[str, Any] | None


def no_features(num_nodes: int) -> DenseTable:
    """A table without columns, for a graph whose features are still to be made."""
    return DenseTable(np.empty((num_nodes, 0), dtype=np.float32))


def featured(graph: Graph, source: Source = None) -> Graph:
    """The graph with features made of its structure beside those it has; as it is without a `source`.

    `source` is "degree", "random-walk" or "random" (docs/tables.md), with the statistics of the graph's
    training nodes; or the `encoding.made` of another graph, whose statistics are then used.
    Raises InputError where the graph would have no features at all.
    """
    if not source:
        if graph.num_features == 0:
            raise InputError(
                "a graph must have features, got none; give x [N, d], or make some of the structure with "
                "features_from='degree' (--features-from degree)"
            )
        return graph
    if not isinstance(graph.features, DenseTable):
        raise InputError(
            f"features to be made from {source} must stand beside dense ones, got sparse ones; "
            "drop features_from, or give dense features"
        )
    split = graph.split
    training = None if split is None or not (split == TRAIN).any() else split == TRAIN
    made = plan_features(graph, source, training) if isinstance(source, str) else dict(source)
    columns = (Column("x", "list", width=graph.num_features),) if graph.num_features else ()
    joined = np.concatenate([graph.features.array, structural_features(graph, made)], axis=1)
    return with_features(graph, joined, Encoding(columns, made))


def with_features(graph: Graph, features: npt.NDArray[np.float32], encoding: Encoding) -> Graph:
    """The same graph with other features; nothing else is checked again."""
    rest = {key: getattr(graph, key) for key in ("labels", "split", "ids", "offsets", "name", "directed")}
    return Graph.trusted(graph.indptr, graph.indices, DenseTable(features), encoding=encoding, **rest)
