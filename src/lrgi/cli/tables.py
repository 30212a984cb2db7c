"""Flags for tables of nodes and edges, and what an import of them found, in words."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

import torch

from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, add_settings, given_settings
from lrgi.encoder import is_encoder_directory
from lrgi.errors import InputError
from lrgi.graph.encoding import Encoding
from lrgi.graph.store import is_graph_directory, open_graph
from lrgi.interop.tables.plan import TablePlan
from lrgi.interop.tables.read import Imported, Wishes, import_tables
from lrgi.report.tables import pairs
from lrgi.structural import in_words as made_in_words
from lrgi.training.run import is_run_directory, open_fitted

GROUPS = {
    "columns of tables": ("src", "dst", "id", "label", "split_column", "ignore", "category", "categories"),
    "how tables are read": ("unknown", "delimiter", "encoding", "edges_header", "nodes_header"),
}


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """--edges, --nodes, and what decides how they are read."""
    group = parser.add_argument_group("a graph from tables (Parquet, CSV, TSV, JSON lines; docs/tables.md)")
    group.add_argument("--edges", metavar="TABLE", help="edges: a file, a glob in quotes, or a folder")
    group.add_argument("--nodes", metavar="TABLE", help="nodes with an id and any columns, likewise")
    group.add_argument(
        "--like",
        metavar="PATH",
        help="a graph, run or encoder whose columns these nodes have: their features get the same treatment",
    )
    group.add_argument(
        "--memory", metavar="SIZE", default="2GB", help="of the engine that joins and sorts (default 2GB)"
    )
    names = [entry.name for entry in fields(TablePlan) if entry.name != "directed"]
    add_settings(parser, TablePlan, GROUPS, only=names)


def import_from_tables(arguments: argparse.Namespace, console: Console) -> Imported:
    """Read, write, and say what was found."""
    if arguments.split == "by-graph":
        raise UsageError("--split of tables must be auto, random or none, got by-graph; choose one")
    done = import_tables(
        arguments.edges,
        arguments.out,
        nodes=arguments.nodes,
        plan=TablePlan(**given_settings(arguments, TablePlan)),
        wishes=Wishes(
            arguments.split,
            arguments.split_seed,
            arguments.features_from or "",
            memory=arguments.memory,
            threads=torch.get_num_threads(),
        ),
        like=None if arguments.like is None else encoding_at(arguments.like),
        overwrite=arguments.overwrite,
        tell=console.note,
    )
    console.say(imported_in_words(done))
    return done


def encoding_at(path: str) -> Encoding:
    """The encoding of a graph directory, or of the graph that a run was fitted on."""
    if is_graph_directory(path):
        encoding = open_graph(path).encoding
    elif is_run_directory(path) or is_encoder_directory(path):
        given = open_fitted(path).encoder.extra.get("encoding")
        encoding = None if given is None else Encoding.from_json(given)
    else:
        raise InputError(
            f"--like must name a graph directory, a run or an encoder, got {path}; check the path"
        )
    if encoding is None:
        raise InputError(
            f"--like must name what was made from tables, got {path}, which was not; import it from tables"
        )
    return encoding


def imported_in_words(done: Imported) -> str:
    """The summary: what became of every row and every column."""
    edges, nodes, encoding = done.edges, done.nodes, done.encoding
    dropped = [
        (edges.empty_end, "without a sender or receiver"),
        (edges.unknown, "to nodes that are not in the table"),
        (edges.self_loops, "from a node to itself"),
    ]
    rows_gone = [(nodes.empty_id, "without an id"), (nodes.repeated_id, "with an id that was there before")]
    lines = [
        ("edge rows", f"{edges.read:,} read, {edges.kept:,} kept"),
        ("  dropped", _listed(dropped)),
        ("  merged", f"{edges.repeated:,} that say an edge once more"),
        ("node rows", f"{nodes.read:,} read" if nodes.read else "no table of nodes"),
        ("  dropped", _listed(rows_gone)),
        (
            "  added",
            f"{nodes.only_in_edges:,} node{'' if nodes.only_in_edges == 1 else 's'} that only edges name"
            + _gaps(nodes.read, nodes.only_in_edges),
        ),
    ]
    for column in encoding.columns:
        hint = done.hints.get(column.name)
        lines.append((f"  {column.name}", _column(column) + (f"; it {hint}" if hint else "")))
    if encoding.made is not None:
        lines.append(("  made", made_in_words(encoding.made)))
    lines += [(f"  {name}", f"left out: {why}") for name, why in encoding.ignored.items()]
    return "What was in the tables:\n" + pairs(lines)


def _listed(counts: list[tuple[int, str]]) -> str:
    return ", ".join(f"{count:,} {what}" for count, what in counts if count) or "none"


def _gaps(table: int, added: int) -> str:
    return " (their attributes are gaps)" if table and added else ""


def _column(column: Any) -> str:
    what = {
        "number": f"number, standardised (mean {column.mean:g}, deviation {column.scale:g})",
        "time": "time, standardised",
        "category": f"category, {len(column.values):,} values" + (" and all others" if column.other else ""),
        "list": f"{column.width:,} numbers, as they are",
    }[column.kind]
    return what + (", gaps marked" if column.missing else "")
