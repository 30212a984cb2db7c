"""From a list of edges to in-neighbours: what is kept, what is merged, what is dropped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import row_chunks

_CHUNK = 1 << 22
_MOST_NODES = 3_037_000_499  # the largest N with N * N below 2^63


class Neighbours(NamedTuple):
    """In-neighbours in CSR form, and how many of the given edges were self loops or said twice."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.integer[Any]]
    self_loops: int  # dropped
    duplicates: int  # merged; an undirected edge listed both ways counts as one duplicate


def in_neighbours(edges: Any, num_nodes: int, *, directed: bool = False) -> Neighbours:
    """Sort edges int[2, E] (row 0 sends to row 1) into in-neighbours; see docs/graph-format.md.

    Self loops are dropped and duplicates merged. Unless `directed`, every edge goes both ways.
    Needs about 8 bytes per stored edge beside its result. Raises InputError for anything but two
    rows of integers in 0 to num_nodes - 1.
    """
    pairs = _as_pairs(edges)
    if num_nodes > _MOST_NODES:
        raise InputError(
            f"a graph must have at most {_MOST_NODES} nodes, got {num_nodes}; split it into parts"
        )
    keys, self_loops = _edge_keys(pairs, num_nodes, directed)
    listed = len(keys)
    keys.sort()
    keys = _distinct(keys)
    merged = (listed - len(keys)) if directed else (listed - len(keys)) // 2
    starts = np.arange(num_nodes + 1, dtype=np.int64) * num_nodes
    indptr = np.searchsorted(keys, starts).astype(np.int64, copy=False)
    indices = np.empty(len(keys), dtype=index_dtype(num_nodes))
    for start, stop in row_chunks(indptr):
        first, last = indptr[start], indptr[stop]
        base = np.repeat(starts[start:stop], np.diff(indptr[start : stop + 1]))
        indices[first:last] = keys[first:last] - base
    return Neighbours(indptr, indices, self_loops, merged)


def index_dtype(num_nodes: int) -> np.dtype[Any]:
    """int32 while every node id fits, else int64."""
    return np.dtype(np.int32 if num_nodes <= 2**31 else np.int64)


def _as_pairs(edges: Any) -> npt.NDArray[Any]:
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        hint = "transpose them" if pairs.ndim == 2 and pairs.shape[1] == 2 else "give senders and receivers"
        raise InputError(f"edges must have shape (2, E), got {pairs.shape}; {hint}")
    if pairs.dtype.kind not in "iu":
        raise InputError(f"edges must be integers, got dtype {pairs.dtype}; convert node ids to int64")
    return pairs


def _edge_keys(pairs: npt.NDArray[Any], num_nodes: int, directed: bool) -> tuple[npt.NDArray[np.int64], int]:
    """receiver * N + sender for every edge that is kept: sorting these sorts by row, then by column."""
    given = pairs.shape[1]
    keys = np.empty(given if directed else 2 * given, dtype=np.int64)
    filled = self_loops = 0
    for start in range(0, given, _CHUNK):
        part = pairs[:, start : start + _CHUNK]
        _check_ids(part, start, num_nodes)
        sender, receiver = part.astype(np.int64)
        keep = sender != receiver
        if not keep.all():
            self_loops += len(keep) - int(np.count_nonzero(keep))
            sender, receiver = sender[keep], receiver[keep]
        keys[filled : filled + len(sender)] = receiver * num_nodes + sender
        filled += len(sender)
        if not directed:
            keys[filled : filled + len(sender)] = sender * num_nodes + receiver
            filled += len(sender)
    return keys[:filled], self_loops


def _check_ids(part: npt.NDArray[Any], start: int, num_nodes: int) -> None:
    for bad, rule, remedy in (
        (part < 0, "be 0 or more", "number the nodes from 0"),
        (part >= num_nodes, f"be below the number of nodes {num_nodes}", "give features for every node"),
    ):
        if bad.any():
            row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
            raise InputError(
                f"node ids in edges must {rule}, got {part[row, column]} in edge {start + int(column)}; "
                f"{remedy}"
            )


def _distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sorted keys without repeats, moved together in place, a chunk at a time."""
    filled, last = 0, -1
    for start in range(0, len(keys), _CHUNK):
        part = keys[start : start + _CHUNK]
        new = np.empty(len(part), dtype=bool)
        new[0] = part[0] != last
        np.not_equal(part[1:], part[:-1], out=new[1:])
        last = int(part[-1])
        kept = part[new]
        keys[filled : filled + len(kept)] = kept
        filled += len(kept)
    return keys[:filled]
