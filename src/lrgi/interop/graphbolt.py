"""GraphBolt's folders (DGL's OnDiskDataset) with a `metadata.yaml`; DGL is not needed, PyYAML is.

What the keys mean: https://www.dgl.ai/dgl_docs/stochastic_training/ondisk-dataset-specification.html
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import DenseTable, Table
from lrgi.graph.graph import Graph
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION
from lrgi.interop.featured import Source, featured, no_features

METADATA = "metadata.yaml"
_SETS = (("train_set", TRAIN), ("validation_set", VALIDATION), ("test_set", TEST))
_SEEDS = ("seeds", "seed_nodes")  # the latter until DGL 2.1
_LABELS = ("label", "labels", "y")


def read_graphbolt(
    path: str | os.PathLike[str], *, directed: bool = False, features_from: Source = None
) -> Graph:
    """The graph of a folder with one node type; several edge types become one.

    Features are the node data called "feat", else all that are not labels, side by side. Split and labels
    are those of the first task whose seeds are nodes; labels may also be node data. Unless `directed`, every
    edge goes both ways. Only `numpy` (and edges as `csv`) are read: `torch` files are pickled.
    Raises FormatError, or InputError for a graph that LRGI cannot hold.
    """
    return featured(bare_graphbolt(path, directed=directed), features_from)


def bare_graphbolt(path: str | os.PathLike[str], *, directed: bool = False) -> Graph:
    """The same without making features; there may be none."""
    folder = Path(path)
    about = _read_yaml(folder / METADATA)
    try:
        nodes = _num_nodes(about)
        labels, split = _task(folder, about, nodes)
        features, other_labels = _node_data(folder, about, nodes)
        edges = [_edges(folder, entry) for entry in about["graph"]["edges"]]
        name = str(about.get("dataset_name") or folder.name)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise FormatError(
            f"{folder / METADATA} must have graph, feature_data and tasks as GraphBolt lays them out, "
            f"got something else ({type(error).__name__}: {error}); correct it"
        ) from None
    return Graph.from_edges(
        np.concatenate(edges, axis=1), features, num_nodes=nodes, directed=directed,
        labels=labels if other_labels is None else other_labels, split=split, name=name,
    )  # fmt: skip


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise InputError(
            f"{METADATA} must be read by PyYAML, got no module 'yaml'; pip install 'lrgi[graphbolt]'"
        ) from None
    try:
        about = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FormatError(
            f"{path} must be YAML text, got what cannot be read ({' '.join(str(error).split())[:200]}); "
            "check it"
        ) from None
    if isinstance(about, dict) and "graph_topology" in about:
        raise FormatError(
            f"{path} must be the {METADATA} of the raw data, got the one that GraphBolt makes of it, "
            "whose graph is pickled; give the folder above"
        )
    if not isinstance(about, dict) or "graph" not in about:
        raise FormatError(f"{path} must say what the graph is, got no key 'graph'; correct it")
    return about


def _num_nodes(about: dict[str, Any]) -> int:
    kinds = about["graph"]["nodes"]
    if len(kinds) != 1:
        names = ", ".join(str(kind.get("type")) for kind in kinds) or "none"
        raise InputError(
            f"a GraphBolt graph must have one node type, got {len(kinds)} ({names}); LRGI knows no types: "
            "write one of them to a folder of its own"
        )
    return int(kinds[0]["num"])


def _edges(folder: Path, entry: dict[str, Any]) -> npt.NDArray[Any]:
    if entry["format"] != "csv":
        return _array(folder, entry)
    try:
        pairs = np.loadtxt(folder / entry["path"], delimiter=",", dtype=np.int64, ndmin=2)
    except (OSError, ValueError) as error:
        raise FormatError(
            f"edges in {folder / entry['path']} must be two whole numbers a line, separated by a comma, "
            f"got something else ({error}); correct it"
        ) from None
    return pairs.T


def _node_data(folder: Path, about: dict[str, Any], nodes: int) -> tuple[Table, npt.NDArray[Any] | None]:
    """Features, and labels if there are some among the node data."""
    entries = [entry for entry in about.get("feature_data") or [] if entry["domain"] == "node"]
    labelled = next((entry for entry in entries if entry["name"] in _LABELS), None)
    chosen = [entry for entry in entries if entry["name"] == "feat"]
    chosen = chosen or [entry for entry in entries if entry["name"] not in _LABELS]
    parts = [_array(folder, entry) for entry in chosen]
    for entry, part in zip(chosen, parts, strict=True):
        if part.ndim not in (1, 2) or len(part) != nodes:
            raise FormatError(
                f"{folder / entry['path']} must have one row per node ({nodes}), got shape {part.shape}; "
                "correct it"
            )
    columns = [part[:, None] if part.ndim == 1 else part for part in parts]
    table = DenseTable(np.concatenate(columns, axis=1)) if len(columns) > 1 else None
    if table is None:
        table = DenseTable(columns[0]) if columns else no_features(nodes)
    return table, None if labelled is None else _as_labels(_array(folder, labelled))


def _task(
    folder: Path, about: dict[str, Any], nodes: int
) -> tuple[npt.NDArray[Any] | None, npt.NDArray[np.uint8] | None]:
    """Labels and split of the first task about nodes."""
    for task in about.get("tasks") or []:
        split, labels = np.full(nodes, NO_SPLIT, dtype=np.uint8), None
        for key, part in _SETS:
            for seeds, given in _sets(folder, task.get(key) or []):
                if seeds.ndim != 1:
                    break  # a task about edges
                _check_seeds(seeds, nodes, key)
                split[seeds] = part
                if given is not None:
                    labels = _with_labels(labels, seeds, _as_labels(given), nodes)
        if (split != NO_SPLIT).any():
            return labels, split
    return None, None


def _sets(
    folder: Path, sets: list[dict[str, Any]]
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]]:
    for entry in sets:
        named = {item.get("name"): item for item in entry["data"]}
        seeds = next((named[name] for name in _SEEDS if name in named), None)
        if seeds is not None:
            labels = named.get("labels")
            yield _array(folder, seeds), None if labels is None else _array(folder, labels)


def _check_seeds(seeds: npt.NDArray[Any], nodes: int, key: str) -> None:
    if seeds.dtype.kind not in "iu" or (seeds.size and not 0 <= int(seeds.min()) <= int(seeds.max()) < nodes):
        raise FormatError(
            f"seeds of {key} must be nodes from 0 to {nodes - 1}, got {seeds.dtype} "
            f"up to {seeds.max(initial=0)}; correct them"
        )


def _with_labels(
    labels: npt.NDArray[Any] | None, seeds: npt.NDArray[Any], given: npt.NDArray[Any], nodes: int
) -> npt.NDArray[Any]:
    if labels is None:
        labels = np.full((nodes, *given.shape[1:]), -1 if given.ndim == 1 else 0, dtype=np.int64)
    if given.shape != (len(seeds), *labels.shape[1:]):
        raise FormatError(
            f"labels must have one row per seed ({len(seeds)}), got shape {given.shape}; correct them"
        )
    labels[seeds] = given
    return labels


def _as_labels(given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Classes as whole numbers; what is not a number is unknown."""
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.ndim == 1 and given.dtype.kind == "f":
        return np.where(np.isnan(given), -1, given).astype(np.int64)
    return given


def _array(folder: Path, entry: dict[str, Any]) -> npt.NDArray[Any]:
    path = folder / entry["path"]
    if entry["format"] != "numpy":
        raise FormatError(
            f"{path} must be in the format numpy, got {entry['format']!r}, which is pickled; write it with "
            "numpy.save and say so in metadata.yaml"
        )
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(
            f"{path} must be a .npy file of numbers, got what cannot be read ({error})"
        ) from None
    return np.asarray(found)
