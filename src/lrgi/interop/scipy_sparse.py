"""scipy.sparse adjacency matrices in; scipy is imported only when a file is read."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import Table, as_table
from lrgi.graph.graph import Graph
from lrgi.interop.featured import Source, featured, no_features


def from_scipy(
    adjacency: Any,
    features: Any = None,
    *,
    directed: bool = False,
    features_from: Source = None,
    **rest: Any,
) -> Graph:
    """A graph from a scipy.sparse matrix or array [N, N] of any format: entry (i, j), if not 0, is an edge
    from i to j. Weights are not used.

    Features are numbers [N, d], dense or sparse, or made of the structure (`featured`). `rest` goes to
    `Graph.from_edges`: labels, split, ids, offsets, name.
    """
    return featured(bare_from_scipy(adjacency, features, directed=directed, **rest), features_from)


def bare_from_scipy(adjacency: Any, features: Any = None, **rest: Any) -> Graph:
    """The same without making features; there may be none."""
    shape = tuple(adjacency.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InputError(f"an adjacency matrix must be square, got shape {shape}; give one row per node")
    entries = adjacency.tocoo()
    stored = entries.data != 0
    edges = np.stack([entries.row[stored], entries.col[stored]])
    table = no_features(shape[0]) if features is None else as_table(features)
    return Graph.from_edges(edges, table, num_nodes=shape[0], **rest)


def is_scipy_npz(path: Path) -> bool:
    """Whether a file was written by scipy.sparse.save_npz."""
    try:
        with zipfile.ZipFile(path) as file:
            return {"format.npy", "shape.npy", "data.npy"} <= set(file.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def load_matrix(path: str | os.PathLike[str]) -> Any:
    """What scipy.sparse.save_npz wrote; FormatError for anything else. Nothing is unpickled."""
    from scipy.sparse import load_npz

    try:
        return load_npz(path)
    except Exception as error:  # numpy, zipfile and scipy each have their own
        reason = " ".join(str(error).split())[:200]
        raise FormatError(
            f"a matrix must be a file of scipy.sparse.save_npz, got {path}, which cannot be read ({reason}); "
            "write it again"
        ) from error


def load_features(path: str | os.PathLike[str]) -> Table:
    """Features [N, d] from a .npy file, or sparse ones from a file of scipy.sparse.save_npz."""
    place = Path(path)
    if is_scipy_npz(place):
        return as_table(load_matrix(place))
    try:
        found = np.load(place, allow_pickle=False)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise FormatError(
            f"features must be a .npy file of numbers, got {path} ({error}); check it"
        ) from None
    if not isinstance(found, np.ndarray):
        raise FormatError(f"features must be one array [N, d], got {path}, a .npz of several; write a .npy")
    return as_table(found)
