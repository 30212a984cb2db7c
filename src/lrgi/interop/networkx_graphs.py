"""NetworkX graphs in, with their nodes as ids. NetworkX itself is not needed: the graph brings it along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import Table, as_table
from lrgi.graph.graph import Graph
from lrgi.interop.featured import Source, featured, no_features


def from_networkx(
    given: Any,
    features: Any = "x",
    *,
    labels: Any = "y",
    split: npt.ArrayLike | None = None,
    features_from: Source = None,
    name: str | None = None,
) -> Graph:
    """A graph from a networkx Graph, DiGraph or one with several edges between two nodes, which merge.

    Nodes keep their order and become the ids: whole numbers as such, all else as text. An edge of a DiGraph
    goes one way. `features` is the name of a node attribute (a number or a list of them), several names side
    by side, or an array [N, d]; "x" may be lacking everywhere, and then `features_from` makes some of the
    structure (`featured`). `labels` is an attribute, again perhaps lacking, or an array; a class may be text.
    """
    nodes = list(given.nodes)
    place = {node: at for at, node in enumerate(nodes)}
    ends = [(place[sender], place[receiver]) for sender, receiver in given.edges()]
    graph = Graph.from_edges(
        np.array(ends, dtype=np.int64).reshape(-1, 2).T,
        _features(given, features),
        num_nodes=len(nodes),
        directed=given.is_directed(),
        labels=_labels(given, labels),
        split=split,
        ids=_ids(nodes),
        name=str(given.name or "graph") if name is None else name,
    )
    return featured(graph, features_from)


def _features(given: Any, features: Any) -> Table:
    if features is None or (features == "x" if isinstance(features, str) else False):
        column = None if features is None else _attribute(given, "x", needed=False)
        return no_features(len(given)) if column is None else as_table(_numbers(column, "x"))
    names = [features] if isinstance(features, str) else features
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        return as_table(features)
    return as_table(np.concatenate([_numbers(_attribute(given, name), name) for name in names], axis=1))


def _attribute(given: Any, name: str, *, needed: bool = True) -> list[Any] | None:
    """Its value on every node; None where no node has it and it is not `needed`."""
    values = [data.get(name) for _, data in given.nodes(data=True)]
    lacking = [node for node, value in zip(given.nodes, values, strict=True) if value is None]
    if not lacking:
        return values
    if len(lacking) == len(values) and not needed:
        return None
    raise InputError(
        f"every node must have the attribute {name!r}, got none on node {lacking[0]!r}; set it, or name "
        "others"
    )


def _numbers(values: list[Any] | None, name: str) -> npt.NDArray[np.float32]:
    try:
        column = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError(
            f"the attribute {name!r} must be a number or a list of as many numbers on every node, "
            f"got something else; import a table of the nodes instead (docs/tables.md)"
        ) from None
    return column[:, None] if column.ndim == 1 else column


def _labels(given: Any, labels: Any) -> npt.NDArray[Any] | None:
    if labels is None:
        return None
    if not isinstance(labels, str):
        return np.asarray(labels)
    values = _attribute(given, labels, needed=labels != "y")
    if values is None:
        return None
    found = np.asarray(values)
    if found.dtype.kind == "U":
        return np.unique(found, return_inverse=True)[1]
    return found


def _ids(nodes: list[Any]) -> npt.NDArray[Any]:
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        return np.array(nodes, dtype=np.int64)
    names = [str(node) for node in nodes]
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(
            f"nodes must differ as text, got two that read {twice!r}; relabel them "
            "(networkx.convert_node_labels_to_integers)"
        )
    return np.array(names)
