"""`lrgi info`: what something on disk is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import examples
from lrgi.cli.graphs import in_words, load_graph
from lrgi.cli.progress import duration
from lrgi.encoder import CONFIG, Encoder
from lrgi.errors import FormatError
from lrgi.graph.store import is_graph_directory, verify_graph
from lrgi.graph.summary import summarize
from lrgi.outputs import is_embedding_directory, open_embedding, read_manifest
from lrgi.report.tables import pairs
from lrgi.training.run import TABLE, check_files, is_run_directory, read_record

DESCRIPTION = """Say what a path is: a graph (directory or .npz file), a run, an encoder or an embedding.
"""
EXAMPLE = examples("""
    lrgi info mine
    lrgi info runs/mine --json
    lrgi info mine --verify
""")


_SHOWN = ("indptr", "labels", "split", "offsets")  # what is said of a graph is counted in these


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The path."""
    parser.add_argument("path", metavar="PATH", help="a graph, run, encoder or embedding")
    parser.add_argument(
        "--verify", action="store_true", help="read a whole graph directory: every checksum and every rule"
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Look, and say."""
    path = Path(arguments.path)
    if not path.exists():
        raise FormatError(f"a path to look at must exist, got {path}, which does not; check it")
    if path.is_file() or is_graph_directory(path):
        kind, facts = "graph", _graph(path, arguments.verify, console)
    elif is_run_directory(path):
        kind, facts = "run", _run(path, console)
    elif is_embedding_directory(path):
        kind, facts = "embedding", _embedding(path, console)
    elif (path / CONFIG).is_file():
        kind, facts = "encoder", _encoder(path, console)
    else:
        raise FormatError(
            f"a path to look at must be a graph, run, encoder or embedding, got {path}, "
            "which is none of them; make a graph with `lrgi import`, a run with `lrgi fit`"
        )
    return {"command": "info", "path": str(path), "kind": kind, kind: facts}


def _graph(path: Path, verify: bool, console: Console) -> dict[str, Any]:
    if verify and path.is_dir():
        verify_graph(path)
    graph = load_graph(str(path), checked=_SHOWN)
    where = f"graph directory {path}" if path.is_dir() else f"file {path}, as `lrgi import` would read it"
    console.say(f"Graph {graph.name!r} ({where}):\n{in_words(graph)}")
    if verify and path.is_dir():
        console.say("  every checksum and every rule holds")
    return summarize(graph)


def _run(path: Path, console: Console) -> dict[str, Any]:
    record = read_record(path)
    plan, graph, machine = record["plan"], record["graph"], record["hardware"]
    sizes = f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['columns']:,} columns"
    took = "" if record["seconds"] is None else f" in {duration(record['seconds'])}"
    lines = [
        ("status", f"{record['status']}{took}" + (f": {record['error']}" if "error" in record else "")),
        ("started", record["started"]),
        (
            "graph",
            f"{graph['name']}: {sizes}",
        ),
        (
            "fitted on",
            f"{record['fit_on']} ({record['protocol']}), {record['fitted_graph']['nodes']:,} nodes",
        ),
        ("encoder", f"{plan['layers']} {plan['layer']} layers of width {plan['width']}"),
        ("seed", str(plan["seed"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in record["versions"].items())),
        ("machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads used"),
    ]
    console.say(f"Run {path}:\n{pairs(lines)}")
    if f"{TABLE}.txt" in record.get("files", {}):
        check_files(path, record, [f"{TABLE}.txt"])
        console.say("\n" + (path / f"{TABLE}.txt").read_text(encoding="utf-8").rstrip())
    return record


def _encoder(path: Path, console: Console) -> dict[str, Any]:
    encoder = Encoder.load(path)
    layers = [
        {"kind": layer.kind, "in_dim": layer.in_dim, "out_dim": layer.out_dim, "settings": layer.settings()}
        for layer in encoder.layers
    ]
    numbers = sum(p.numel() for layer in encoder.layers for p in layer.parameters())
    lines = [
        (f"layer {i}", f"{layer.kind}, {layer.in_dim:,} -> {layer.out_dim:,} columns")
        for i, layer in enumerate(encoder.layers, 1)
    ]
    console.say(f"Encoder {path}:\n{pairs([*lines, ('weights', f'{numbers:,} numbers')])}")
    return {"layers": layers, "weights": numbers, "extra": encoder.extra}


def _embedding(path: Path, console: Console) -> dict[str, Any]:
    manifest = read_manifest(path)
    if "arrays" in manifest:
        open_embedding(path)  # looks at the files
    lines = [
        ("shape", f"{manifest['nodes']:,} nodes x {manifest['columns']:,} columns, {manifest.get('dtype')}"),
        ("kind", str(manifest.get("kind"))),
        ("graph", str(manifest.get("graph"))),
        ("layers", ", ".join(map(str, manifest.get("layers", [])))),
        ("embedded in", str(manifest.get("embedded_in", "whole graph"))),
    ]
    console.say(f"Embedding {path}:\n{pairs(lines)}")
    return manifest
