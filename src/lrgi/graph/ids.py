"""The users' own ids of nodes: found by their text, and more of them behind the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.graph.graph import Graph

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_PART = 1 << 20  # ids looked at at once

Texts = npt.NDArray[np.str_]


def is_whole(name: str) -> bool:
    """Whether an id, as text, is the way to write a whole number: `007` is not."""
    return _WHOLE.fullmatch(name) is not None


def places_of(graph: Graph, names: Texts) -> npt.NDArray[np.int64]:
    """Which node each of these different ids is, -1 for none. Without ids a node is called by its place."""
    found = np.full(len(names), -1, dtype=np.int64)
    if graph.ids is None or graph.ids.dtype.kind == "i":
        asked = np.flatnonzero([is_whole(name) for name in names.tolist()])
        wanted: npt.NDArray[Any] = np.array([int(names[at]) for at in asked], dtype=np.int64)
    else:
        asked, wanted = np.arange(len(names)), names
    if graph.ids is None:
        there = (wanted >= 0) & (wanted < graph.num_nodes)
        found[asked[there]] = wanted[there]
        return found
    order = np.argsort(wanted, kind="stable")
    asked, wanted = asked[order], wanted[order]
    if not len(wanted):
        return found
    for start in range(0, graph.num_nodes, _PART):
        part = np.asarray(graph.ids[start : start + _PART])
        at = np.minimum(np.searchsorted(wanted, part), len(wanted) - 1)
        here = np.flatnonzero(wanted[at] == part)
        found[asked[at[here]]] = here + start
    return found


def dtype_with(graph: Graph, names: Sequence[str]) -> np.dtype[Any] | None:
    """The type of all ids when these come behind; None where a node is called by its place still."""
    if graph.ids is None and list(names) == [str(graph.num_nodes + at) for at in range(len(names))]:
        return None
    if graph.ids is None or graph.ids.dtype.kind == "i":
        if all(map(is_whole, names)):
            return np.dtype(np.int64)
        ends = (graph.num_nodes,) if graph.ids is None else (graph.ids.min(), graph.ids.max())
        longest = max(len(str(int(end))) for end in ends)
    else:
        longest = graph.ids.dtype.itemsize // 4
    return np.dtype(f"<U{max(longest, *map(len, names))}" if names else f"<U{longest}")


def ids_with(graph: Graph, names: Sequence[str], dtype: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    """All ids of `dtype`, in parts: those of the graph, then these."""
    for start in range(0, graph.num_nodes, _PART):
        stop = min(start + _PART, graph.num_nodes)
        part = np.arange(start, stop) if graph.ids is None else np.asarray(graph.ids[start:stop])
        yield part.astype(dtype)
    yield np.array([int(name) for name in names] if dtype.kind == "i" else list(names), dtype=dtype)
