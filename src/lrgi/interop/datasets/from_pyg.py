"""PyG's own classes of data sets, from raw files only: what PyG has processed before is not trusted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.graph.features import DenseTable, SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.interop.pyg import from_pyg

_SPARSE = 0.1  # features with fewer values than this share are kept sparse


def download(name: str, root: Path) -> None:
    """PyG's own download of the raw files."""
    make = _makers()[name]
    with tempfile.TemporaryDirectory() as scratch:
        make(root, scratch, True)


def read(name: str, root: Path, split: int) -> Graph:
    """The graph as PyG reads it."""
    with tempfile.TemporaryDirectory() as scratch:
        if name == "ppi":
            return _ppi(root, scratch)
        graph = from_pyg(_makers()[name](root, scratch, False)[0], split=split)
    return _narrow(graph)


def _ppi(root: Path, scratch: str) -> Graph:
    """Twenty graphs to train on, two for validation, two for the test, in this order."""
    from torch_geometric.datasets import PPI

    made = _from_raw(PPI, scratch)
    parts = [made(str(root / "ppi"), split=part) for part in ("train", "val", "test")]
    graph = from_pyg([data for part in parts for data in part])
    counts = [sum(int(data.x.shape[0]) for data in part) for part in parts]
    return replace(graph, split=np.repeat(np.array([TRAIN, VALIDATION, TEST], np.uint8), counts))


def _makers() -> dict[str, Callable[[Path, str, bool], Any]]:
    from torch_geometric import datasets

    def maker(kind: Any, *words: str, below: str = "", **settings: Any) -> Callable[[Path, str, bool], Any]:
        def make(root: Path, scratch: str, only_download: bool) -> Any:
            return _from_raw(kind, scratch, only_download)(str(root / below), *words, **settings)

        return make

    return {
        "ppi": maker(datasets.PPI, below="ppi"),
        "reddit": maker(datasets.Reddit, below="reddit"),
        "flickr": maker(datasets.Flickr, below="flickr"),
        "wikics": maker(datasets.WikiCS, below="wikics", is_undirected=True),
        "cora": maker(datasets.Planetoid, "cora"),
        "citeseer": maker(datasets.Planetoid, "citeseer"),
        "pubmed": maker(datasets.Planetoid, "pubmed"),
        "amazon-computers": maker(datasets.Amazon, "computers"),
        "amazon-photo": maker(datasets.Amazon, "photo"),
        "coauthor-cs": maker(datasets.Coauthor, "CS"),
        "coauthor-physics": maker(datasets.Coauthor, "Physics"),
    }


def _from_raw(kind: Any, scratch: str, only_download: bool = False) -> Any:
    """The class with its processed files in a folder of their own, made anew from the raw ones."""
    changed: dict[str, Any] = {"processed_dir": property(lambda self: scratch)}
    if only_download:
        changed |= {"_process": lambda self: None, "load": lambda self, *words, **settings: None}
    return type(kind.__name__, (kind,), changed)


def _narrow(graph: Graph) -> Graph:
    """Bags of words are sparse, though PyG hands them over dense."""
    table = graph.features
    if not isinstance(table, DenseTable) or np.count_nonzero(table.array) > _SPARSE * table.array.size:
        return graph
    rows, columns = np.nonzero(table.array)
    indptr = np.searchsorted(rows, np.arange(table.shape[0] + 1)).astype(np.int64)
    values = table.array[rows, columns]
    return replace(graph, features=SparseTable(indptr, columns.astype(np.int32), values, table.shape[1]))
