"""OGB's folders, through its own readers of raw files. What it has processed is pickled and is not opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError, InputError, LRGIError
from lrgi.graph.graph import Graph
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION
from lrgi.interop.featured import Source, featured, no_features
from lrgi.interop.silence import silent

_PARTS = (("train", TRAIN), ("valid", VALIDATION), ("test", TEST))


def is_ogb_folder(folder: Path) -> bool:
    """Whether raw files lie in it as OGB lays them out."""
    names = ("edge.csv.gz", "data.npz", "num-node-dict.csv.gz", "num_nodes_dict.npz", "edge_index_dict.npz")
    return any((folder / "raw" / name).is_file() for name in names)


def read_ogb(
    path: str | os.PathLike[str], *, directed: bool = False, split: str = "", features_from: Source = None
) -> Graph:
    """The graph in a folder such as `ogbn_arxiv`: raw/, and perhaps split/ and mapping/.

    Nodes of several graphs (ogbg) follow each other. `split` names the folder below split/ where there are
    several. A mapping of all nodes to names becomes their ids. Unless `directed`, every edge goes both ways,
    as OGB's leaderboards have it. Raises FormatError for damaged files, InputError for several node types.
    """
    return featured(bare_ogb(path, directed=directed, split=split), features_from)


def bare_ogb(path: str | os.PathLike[str], *, directed: bool = False, split: str = "") -> Graph:
    """The same without making features; there may be none."""
    folder = Path(path)
    _check_kind(folder)
    try:
        with silent():
            return _read(folder, directed, _split_folder(folder, split))
    except LRGIError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(
            f"OGB must be installed to read {folder}, got no module {error.name!r}; pip install 'lrgi[ogb]'"
        ) from None
    except Exception as error:  # whatever pandas and OGB make of a damaged file
        raise FormatError(
            f"the files in {folder} must be as OGB lays them out, got what cannot be read "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}); download them again"
        ) from error


def _check_kind(folder: Path) -> None:
    if not is_ogb_folder(folder):
        raise FormatError(
            f"an OGB folder must hold raw/edge.csv.gz or raw/data.npz, got {folder}, which has neither; "
            "give the folder that OGB downloads, such as datasets/ogbn_arxiv"
        )
    if not any((folder / "raw" / name).is_file() for name in ("edge.csv.gz", "data.npz")):
        raise InputError(
            f"an OGB graph must have one node type, got {folder}, which has several; LRGI knows no types"
        )


def _read(folder: Path, directed: bool, split: Path | None) -> Graph:
    from ogb.io.read_graph_raw import read_binary_graph_raw, read_csv_graph_raw

    binary = (folder / "raw" / "data.npz").is_file()
    graphs = (read_binary_graph_raw if binary else read_csv_graph_raw)(str(folder / "raw"))
    sizes = [int(graph["num_nodes"]) for graph in graphs]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    edges = [graph["edge_index"] + start for graph, start in zip(graphs, starts[:-1], strict=True)]
    bare = graphs[0]["node_feat"] is None
    total = int(starts[-1])
    return Graph.from_edges(
        edges[0] if len(edges) == 1 else np.concatenate(edges, axis=1),
        no_features(total) if bare else np.concatenate([graph["node_feat"] for graph in graphs]),
        num_nodes=total,
        directed=directed,
        labels=_labels(folder / "raw", total),
        split=None if split is None else _split(split, sizes),
        ids=_ids(folder / "mapping", total),
        offsets=starts,
        name=folder.name,
    )


def _labels(raw: Path, total: int) -> npt.NDArray[Any] | None:
    """One class per node, -1 where it is not known; or 0 and 1 for each of many labels."""
    if (raw / "node-label.npz").is_file():
        with np.load(raw / "node-label.npz", allow_pickle=False) as file:
            found = np.asarray(file["node_label"], dtype=np.float64)
    elif (raw / "node-label.csv.gz").is_file():
        found = _table(raw / "node-label.csv.gz")
    else:
        return None
    known = np.where(np.isnan(found), -1, found).astype(np.int64).reshape(total, -1)
    return known[:, 0] if known.shape[1] == 1 else known


def _split_folder(folder: Path, name: str) -> Path | None:
    found = sorted(path for path in (folder / "split").glob("*") if (path / "train.csv.gz").is_file())
    if name:
        found = [path for path in found if path.name == name]
        if not found:
            raise InputError(f"split must be a folder below {folder / 'split'}, got {name!r}; check the name")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise InputError(f"split must be one of {names} in {folder}, got none; name one")
    return found[0] if found else None


def _split(place: Path, sizes: list[int]) -> npt.NDArray[np.uint8]:
    """Of nodes; of a data set of many graphs the files list graphs."""
    many = len(sizes) > 1
    split = np.full(len(sizes) if many else sizes[0], NO_SPLIT, dtype=np.uint8)
    for word, part in _PARTS:
        split[_table(place / f"{word}.csv.gz")[:, 0].astype(np.int64)] = part
    return np.repeat(split, sizes) if many else split


def _ids(mapping: Path, total: int) -> npt.NDArray[Any] | None:
    """What nodes are called, where one file says so of all of them and no two share a name."""
    import pandas

    files = sorted(mapping.glob("nodeidx2*.csv.gz"))
    if len(files) != 1:
        return None
    table = pandas.read_csv(files[0], compression="gzip", dtype={1: str}, keep_default_na=False)
    if table.shape[1] != 2 or len(table) != total or not table.iloc[:, 1].is_unique:
        return None
    names = np.empty(total, dtype=object)
    names[table.iloc[:, 0].to_numpy(dtype=np.int64)] = table.iloc[:, 1].to_numpy(dtype=object)
    text = np.array([str(name) for name in names])
    whole = np.char.isdecimal(text) & (np.char.str_len(text) < 19)
    if whole.all() and (text.astype(np.int64).astype(str) == text).all():
        return text.astype(np.int64)
    return text


def _table(path: Path) -> npt.NDArray[np.float64]:
    import pandas

    try:
        return np.asarray(pandas.read_csv(path, compression="gzip", header=None), dtype=np.float64)
    except pandas.errors.EmptyDataError:  # no validation nodes, say
        return np.empty((0, 1))
