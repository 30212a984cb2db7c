"""OGB's data sets by name: where its raw files come from. `interop/ogb.py` reads them."""

from __future__ import annotations

import shutil
from pathlib import Path

from lrgi.graph.graph import Graph
from lrgi.interop.ogb import read_ogb

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
    return read_ogb(root / name.replace("-", "_"), split=_SPLITS[name])
