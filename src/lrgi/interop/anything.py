"""What a user has, as a Graph: objects of other libraries, files, folders. None of those is imported here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrgi.errors import FormatError, InputError
from lrgi.graph.graph import Graph
from lrgi.graph.store import is_graph_directory, open_graph
from lrgi.interop.featured import Source, featured
from lrgi.interop.graphbolt import METADATA, bare_graphbolt
from lrgi.interop.networkx_graphs import from_networkx
from lrgi.interop.npz import bare_npz, from_arrays
from lrgi.interop.ogb import bare_ogb, is_ogb_folder
from lrgi.interop.pyg import from_pyg
from lrgi.interop.scipy_sparse import bare_from_scipy, from_scipy, is_scipy_npz, load_features, load_matrix


def as_graph(given: Any, *, features_from: Source = None) -> Graph:
    """A Graph; PyG's Data, HeteroData or a list of them; a networkx graph; a scipy.sparse adjacency matrix;
    a pair (edges [2, E] or adjacency, features); a mapping of arrays by name (docs/graph-format.md); or the
    path of a graph directory or of what `read_path` reads. Raises InputError for anything else.

    `features_from` makes features of the structure (`featured`), beside those there are or in place of none.
    """
    if isinstance(given, Graph):
        return featured(given, features_from) if features_from else given
    if isinstance(given, str | os.PathLike):
        place = Path(given)
        return featured(open_graph(place) if is_graph_directory(place) else read_path(place), features_from)
    if isinstance(given, Mapping):
        return from_arrays(given, features_from=features_from)
    if _is(given, "networkx", "Graph"):
        return from_networkx(given, features_from=features_from)
    if _is_matrix(given):
        return from_scipy(given, features_from=features_from)
    if isinstance(given, tuple) and len(given) == 2 and not hasattr(given[0], "edge_index"):
        edges, features = given
        if _is_matrix(edges):
            return from_scipy(edges, features, features_from=features_from)
        return featured(Graph.from_edges(edges, features), features_from)
    hetero = _is(given, "torch_geometric.data", "HeteroData")
    if isinstance(given, list | tuple) or hetero or hasattr(given, "edge_index"):
        return from_pyg(given, features_from=features_from)
    raise InputError(
        "a graph must be a Graph, a PyG Data (or a list of them), a networkx graph, a scipy.sparse matrix, "
        f"a pair (edges, features) or a path, got {type(given).__name__}; build one with Graph.from_edges"
    )


def read_path(
    path: str | os.PathLike[str], *, directed: bool = False, features: str | os.PathLike[str] | None = None
) -> Graph:
    """The graph in a .npz file of arrays, a .npz file of scipy.sparse.save_npz, an OGB folder, or a GraphBolt
    folder; perhaps without features, which `featured` can make. `features` is a file with them (.npy, or
    .npz of scipy.sparse) that goes with a matrix. Raises FormatError.
    """
    place = Path(path)
    if place.is_file() and is_scipy_npz(place):
        table = None if features is None else load_features(features)
        return bare_from_scipy(load_matrix(place), table, directed=directed, name=place.stem)
    if features is not None:
        raise InputError(
            f"a file of features must go with an adjacency matrix of scipy.sparse.save_npz, got {path}; "
            "drop --features"
        )
    if place.is_dir():
        if (place / METADATA).is_file():
            return bare_graphbolt(place, directed=directed)
        if is_ogb_folder(place):
            return bare_ogb(place, directed=directed)
        raise FormatError(
            f"a folder to import must hold {METADATA} (GraphBolt) or raw/edge.csv.gz (OGB), got {path}, "
            "which has neither; import tables with --edges"
        )
    return bare_npz(place, directed=directed)


def _is_matrix(given: Any) -> bool:
    return hasattr(given, "tocoo") and len(getattr(given, "shape", ())) == 2


def _is(given: Any, module: str, name: str) -> bool:
    """Whether it is of a class whose library somebody imported; if nobody did, it cannot be."""
    found = getattr(sys.modules.get(module), name, None)
    return found is not None and isinstance(given, found)
