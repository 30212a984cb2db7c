"""Graphs from what a user names, and what they are in words."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.directory import checksum
from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.assign import split_by_graph
from lrgi.graph.encoding import Encoding
from lrgi.graph.graph import Graph
from lrgi.graph.store import MANIFEST, check_bytes, open_graph
from lrgi.graph.summary import summarize
from lrgi.interop.npz import read_npz
from lrgi.interop.tables.recode import recoded
from lrgi.probe.data import random_split
from lrgi.report.tables import pairs

SPLITS = ("auto", "random", "by-graph", "none")


def load_graph(path: str, *, checked: Collection[str] = ()) -> Graph:
    """A graph directory, or a .npz file with the split that `lrgi import` would give it.

    All its files are read once and compared with their checksums, or just the arrays that are `checked`, so
    that no result is made of damaged numbers.
    """
    place = Path(path)
    if not place.exists():
        raise FormatError(f"a graph must exist, got {path}, which does not; check the path")
    if place.is_file():
        return with_split(read_npz(place), "auto", 0)
    graph = open_graph(place)
    check_bytes(place, checked)
    return graph


def load_graph_for(encoder: Encoder, path: str, console: Console) -> Graph:
    """The graph at a path, its features treated as those of the fit if both came from tables."""
    graph = load_graph(path)
    if "encoding" not in encoder.extra:
        return graph
    wanted = Encoding.from_json(encoder.extra["encoding"])
    if graph.encoding is not None and graph.encoding.same_features(wanted):
        return graph
    if not Path(path).is_dir():
        encoder.check_columns(graph)
        return graph
    console.note("making the features once more, as they were made for the fit")
    return recoded(path, wanted)


def fingerprint(path: str) -> str:
    """A checksum that tells one graph on disk from another: of its manifest, which has those of its files."""
    place = Path(path)
    return checksum(place / MANIFEST if place.is_dir() else place)


def with_split(graph: Graph, split: str, seed: int) -> Graph:
    """The graph with another split: "auto" keeps what there is, and holds out graphs where there are many."""
    if split not in SPLITS:
        raise InputError(f"split must be one of {', '.join(SPLITS)}, got {split!r}; choose one")
    if split == "none":
        return replace(graph, split=None)
    if split == "random":
        return replace(graph, split=random_split(_rows(graph), seed))
    if split == "by-graph" or (graph.split is None and graph.num_graphs >= 3):
        return replace(graph, split=split_by_graph(graph.offsets, seed))
    return graph


def in_words(graph: Graph) -> str:
    """What `summarize` finds, as lines."""
    facts = summarize(graph)
    lines = [
        ("nodes", f"{facts['nodes']:,}" + _isolated(facts["isolated_nodes"])),
        ("edges", f"{facts['edges']:,} directed (an undirected edge counts twice)"),
        ("degree", f"{facts['mean_degree']:,} on average, {facts['largest_degree']:,} at most"),
        ("graphs", f"{facts['graphs']:,}"),
        ("features", _features(facts)),
        ("labels", _labels(facts["labels"])),
        ("split", _split(facts["split"])),
    ]
    return pairs(lines)


def _rows(graph: Graph) -> Any:
    return graph.num_nodes if graph.labels is None else graph.labels


def _isolated(count: int) -> str:
    return f", {count:,} of them without neighbours" if count else ""


def _features(facts: dict[str, Any]) -> str:
    kind, columns = facts["features"]["kind"], facts["features"]["columns"]
    if kind == "dense":
        return f"{columns:,} columns, dense"
    each = facts["features"]["values"] / max(1, facts["nodes"])
    return f"{columns:,} columns, sparse ({each:,.1f} values per node)"


def _labels(labels: dict[str, Any] | None) -> str:
    if labels is None:
        return "none"
    if labels["kind"] == "many labels":
        return f"{labels['classes']:,} classes, a node may have several"
    return f"{labels['classes']:,} classes, {labels['labelled_nodes']:,} nodes labelled"


def _split(split: dict[str, int] | None) -> str:
    if split is None:
        return "none (the probe draws random ones: 10 % train, 10 % validation, 80 % test)"
    return ", ".join(f"{count:,} {name}" for name, count in split.items())
