"""`lrgi update`: new edges and nodes for a run's graph, and only what they touch embedded again."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, add_settings, examples, given_settings
from lrgi.cli.progress import duration
from lrgi.errors import InputError
from lrgi.interop.tables.plan import TablePlan
from lrgi.report.tables import Cell, Column, pairs, plain_table
from lrgi.training.run import read_record
from lrgi.update.run import Updated, Wanted, update_run

DESCRIPTION = """Add edges and nodes to the graph of a run (or take edges away), and make the
outputs of its layers again for the nodes that this touches; all others are kept. The
result has the bits of embedding the changed graph from scratch.

The graph directory is replaced by the changed one. New nodes stand behind the others
and get the features that the fit's columns make; a row with an id that is there already
takes the place of that node's. The weights of the encoder stay.

The run keeps the outputs of all layers (RUN/tables). The first update makes them, for
all nodes; without any table, that is all it does. `lrgi embed` and `lrgi neighbors` then
read them. An update that is killed leaves graph and outputs as they were.
"""
EXAMPLE = examples("""
    lrgi update runs/mine --edges new_follows.csv --nodes new_people.csv
    lrgi update runs/mine --remove-edges unfollows.csv
    lrgi update runs/mine
""")
GROUPS = {
    "columns of tables": ("src", "dst", "id", "label", "split_column", "ignore"),
    "how tables are read": ("unknown", "delimiter", "encoding", "edges_header", "nodes_header"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, its graph, and the tables of what is new."""
    parser.add_argument("run", metavar="RUN", help="a finished run of `lrgi fit`")
    parser.add_argument(
        "graph", metavar="GRAPH", nargs="?", help="the graph directory to change (default: the fit's)"
    )
    group = parser.add_argument_group("what is new (Parquet, CSV, TSV, JSON lines; docs/update.md)")
    group.add_argument("--edges", metavar="TABLE", help="new edges: a file, a glob in quotes, or a folder")
    group.add_argument("--nodes", metavar="TABLE", help="new nodes, and other rows for known ones, likewise")
    group.add_argument("--remove-edges", metavar="TABLE", help="edges to take out of the graph, likewise")
    group.add_argument(
        "--directed",
        action=argparse.BooleanOptionalAction,
        help="whether edges go one way only (default: as the graph was made)",
    )
    group.add_argument(
        "--memory", metavar="SIZE", default="2GB", help="of the engine that reads tables (default 2GB)"
    )
    names = [name for group_names in GROUPS.values() for name in group_names]
    add_settings(parser, TablePlan, GROUPS, only=names)


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Change the graph, refresh, and say how much that was."""
    wanted = Wanted(
        arguments.edges, arguments.nodes, arguments.remove_edges,
        TablePlan(**given_settings(arguments, TablePlan)), arguments.directed,
        memory=arguments.memory, threads=torch.get_num_threads(),
    )  # fmt: skip
    place = Path(arguments.run)
    done = update_run(place, _graph_of(place, arguments.graph), wanted, tell=console.note)
    console.say(in_words(done))
    if done.layers:
        console.next_steps(
            [(f"embed {place} {done.graph} --out EMB", "write the vectors, without embedding")]
        )
    return {
        "command": "update",
        "path": str(place),
        "graph": str(done.graph),
        "directed": done.directed,
        "changed": done.changed,
        **({"nodes": None, "edges": None, "removed_edges": None} | done.changes),
        "features_changed": done.features,
        "layers": [_layer(layer) for layer in done.layers],
        "had_tables": done.had_tables,
        "graph_seconds": round(done.graph_seconds, 3),
        "seconds": round(done.seconds, 3),
        "saved_seconds": None if done.saved_seconds is None else round(done.saved_seconds, 3),
    }


def in_words(done: Updated) -> str:
    """What was read, what was touched, what that saved."""
    lines = [*_counts(done.changes), *_kind(done)]
    said = [pairs(lines)] if lines else []
    if not done.changed:
        said.append("Nothing in the graph changes.")
    if not done.layers:
        said.append("The run keeps the outputs of all layers: nothing was to be made.")
        return "\n".join(said)
    columns = [
        Column("layer", text=True), Column("nodes touched"), Column("share", text=True),
        Column("seconds", 2), Column("made", text=True),
    ]  # fmt: skip
    words = {"rows": "those alone", "all": "all nodes", "nothing": "nothing"}
    rows: list[tuple[Cell, ...]] = [
        (str(one.layer), one.rows, f"{one.rows / one.nodes:.2%}", one.seconds, words[one.made])
        for one in done.layers
    ]
    said.append("\n" + plain_table(columns, rows))
    spent = sum(layer.seconds for layer in done.layers)
    if not done.had_tables:
        said.append(
            f"\nThe run kept no outputs of this graph: all were made, in {duration(spent)}. "
            "It keeps them now, and the next update makes only what it touches."
        )
    elif done.saved_seconds is not None:
        whole, saved = done.saved_seconds + spent, done.saved_seconds
        verdict = f"{duration(saved)} saved" if saved > 0 else "nothing saved on a graph so small"
        said.append(
            f"\nEmbedding took {duration(spent)}; all nodes take about {duration(whole)}, as when they were "
            f"embedded last: {verdict}."
        )
    return "\n".join(said)


def _counts(changes: dict[str, Any]) -> list[tuple[str, str]]:
    if not changes:
        return []
    nodes, edges, gone = changes["nodes"], changes["edges"], changes["removed_edges"]
    lines = [
        ("edge rows", f"{edges['read']:,} read, {edges['added']:,} new, {edges['known']:,} known already"),
        ("  dropped", _dropped(edges)),
        ("node rows", f"{nodes['read']:,} read, {nodes['new']:,} new, {nodes['known']:,} of known nodes"),
    ]
    rows_gone = nodes["empty_id"] + nodes["repeated_id"]
    if rows_gone:
        lines.append(("  dropped", f"{rows_gone:,} without an id or with one that was there before"))
    if nodes["only_in_edges"]:
        lines.append(("  added", f"{nodes['only_in_edges']:,} that only edges name; their columns are gaps"))
    if gone is not None:
        lines.append(
            ("edges to go", f"{gone['read']:,} read, {gone['removed']:,} gone, {gone['absent']:,} absent")
        )
        lines.append(("  dropped", _dropped(gone)))
    lines.append(("graph", f"{nodes['total']:,} nodes"))
    return lines


def _dropped(edges: dict[str, int]) -> str:
    what = {
        "empty_end": "without a sender or receiver",
        "unknown": "to nodes that are not there",
        "self_loops": "from a node to itself",
        "repeated": "said twice",
    }
    return ", ".join(f"{edges[key]:,} {words}" for key, words in what.items() if edges[key]) or "none"


def _kind(done: Updated) -> list[tuple[str, str]]:
    if not done.changes:
        return []
    kind = "directed: only the receiver reads the sender" if done.directed else "undirected: both ways"
    found = " (found by its edges; --directed says otherwise)" if done.guessed_directed else ""
    return [("edges go", kind + found), ("features", f"of {done.features:,} nodes are new or others")]


def _layer(layer: Any) -> dict[str, Any]:
    found = asdict(layer)
    found["touched"] = found.pop("rows")
    found["share"] = layer.rows / layer.nodes
    return found


def _graph_of(run: Path, given: str | None) -> Path:
    found = given or read_record(run).get("source")
    if found is None:
        raise UsageError(
            f"GRAPH must be named for a run that does not say where its graph is, got {run}; add it"
        )
    if not Path(found).exists():
        raise InputError(
            f"the graph of a run must be there, got {found}, which is not; name it: lrgi update {run} GRAPH"
        )
    return Path(found)
