"""OGB's own reader of its CSV files. Its processed files, which are pickled, are not opened."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.graph.graph import Graph
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION

_SPLITS = {"ogbn-products": "sales_ranking", "ogbn-arxiv": "time"}
_ZIPS = {"ogbn-products": "products", "ogbn-arxiv": "arxiv"}
_URL = "http://snap.stanford.edu/ogb/data/nodeproppred"  # ogb/nodeproppred/master.csv


def download(name: str, root: Path) -> None:
    """OGB's own download, without its question whether to."""
    from ogb.utils.url import download_url, extract_zip

    root.mkdir(parents=True, exist_ok=True)
    file = Path(download_url(f"{_URL}/{_ZIPS[name]}.zip", str(root)))
    extract_zip(str(file), str(root))
    file.unlink()
    shutil.move(str(root / _ZIPS[name]), str(root / name.replace("-", "_")))


def read(name: str, root: Path, split: int) -> Graph:
    """The graph with OGB's split. Edges are made to go both ways, as its leaderboards do with arxiv's."""
    from ogb.io.read_graph_raw import read_csv_graph_raw

    place = root / name.replace("-", "_")
    (raw,) = read_csv_graph_raw(str(place / "raw"), add_inverse_edge=False)
    parts = np.full(raw["num_nodes"], NO_SPLIT, dtype=np.uint8)
    for word, part in (("train", TRAIN), ("valid", VALIDATION), ("test", TEST)):
        parts[_column(place / "split" / _SPLITS[name] / f"{word}.csv.gz").astype(np.int64)] = part
    labels = _column(place / "raw" / "node-label.csv.gz")
    known = np.where(np.isnan(labels), -1, labels).astype(np.int64)
    return Graph.from_edges(raw["edge_index"], raw["node_feat"], labels=known, split=parts)


def _column(path: Path) -> np.ndarray:
    import pandas

    values: Any = pandas.read_csv(path, compression="gzip", header=None)[0]
    return np.asarray(values, dtype=np.float64)
