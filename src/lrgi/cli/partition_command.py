"""`lrgi partition`: a graph in parts, one for each machine."""

from __future__ import annotations

import argparse
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import examples, number
from lrgi.cli.graphs import load_graph
from lrgi.errors import InputError
from lrgi.graph.fingerprint import described
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.part import owners_by_range
from lrgi.graph.partition import save_partition
from lrgi.interop.metis import owners_by_metis
from lrgi.report.tables import Cell, Column, plain_table
from lrgi.training.plan import FIT_ON, FitPlan
from lrgi.training.resolve import resolve_fit_on

WAYS = ("metis", "ranges")
DESCRIPTION = """Cut a graph into parts, so that none of several machines has to hold all of it.

A part owns some nodes, and holds besides them their neighbours and the neighbours of
those: what two hops read. In a graph where everyone knows everyone within a few steps
that is most of the graph, however it is cut, and then whole copies serve better: the
table that is printed says what share each part holds.
"""
EXAMPLE = examples("""
    lrgi partition mine --parts 2 --out mine-parts
    torchrun --nproc-per-node=2 -m lrgi fit mine-parts --out runs/mine
""")
MUCH = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph, how many parts, and how to cut."""
    parser.add_argument("graph", metavar="GRAPH", help="a graph directory, or a .npz file")
    parser.add_argument(
        "--parts",
        type=number("--parts", int, 1),
        metavar="P",
        required=True,
        help="how many: one per process",
    )
    parser.add_argument("--out", metavar="PARTS", required=True, help="the directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a partition that is there")
    parser.add_argument(
        "--by",
        choices=WAYS,
        default="metis",
        help="metis: few edges between parts; ranges: consecutive nodes, for graphs whose order means "
        "something or that are too large for METIS (default metis)",
    )
    parser.add_argument(
        "--fit-on",
        metavar="{" + ",".join(FIT_ON) + "}",
        default="auto",
        help="the nodes that will be fitted on, as of `lrgi fit`; only they are in the parts (default auto)",
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Cut, and say what each part holds."""
    whole = load_graph(arguments.graph)
    fit_on = resolve_fit_on(FitPlan(fit_on=arguments.fit_on), whole)
    graph, nodes = training_subgraph(whole, fit_on)
    if arguments.parts > graph.num_nodes:
        raise InputError(
            f"--parts must be at most the number of nodes, {graph.num_nodes}, got {arguments.parts}; lower it"
        )
    console.note(f"cutting {graph.num_nodes:,} nodes, {graph.num_edges:,} edges into {arguments.parts} parts")
    cut = owners_by_metis if arguments.by == "metis" else owners_by_range
    manifest = save_partition(
        graph,
        cut(graph, arguments.parts),
        arguments.out,
        fit_on=fit_on,
        of=described(whole),
        nodes=None if fit_on == "all" else nodes,
        about={"by": arguments.by},
        overwrite=arguments.overwrite,
    )
    console.say(_in_words(manifest, arguments.out))
    console.say(
        f"\nWhat to type next (docs/many-machines.md):\n  # {arguments.parts} processes, a part each\n"
        f"  torchrun --nproc-per-node={arguments.parts} -m lrgi fit {arguments.out} --out runs/{graph.name}"
    )
    return {"command": "partition", "path": str(arguments.out), "partition": manifest}


def _in_words(manifest: dict[str, Any], out: str) -> str:
    rows: list[list[Cell]] = [
        [
            number,
            *(part[key] for key in ("owned", "first_ring", "second_ring", "edges")),
            100 * part["share_of_nodes"],
            100 * part["share_of_edges"],
            part["bytes"] / 1e6,
        ]
        for number, part in enumerate(manifest["parts"])
    ]
    titles = ["part", "owns", "neighbours", "theirs", "edges", "% of nodes", "% of edges"]
    columns = [*map(Column, titles), Column("MB on disk", digits=1)]
    share = sum(part["share_of_nodes"] for part in manifest["parts"]) / len(rows)
    cut = 100 * manifest["cut_edges"] / manifest["edges"]
    lines = [
        f"{len(rows)} parts, now in {out}:\n",
        plain_table(columns, rows),
        f"\n{cut:.0f} % of the edges join two parts; a part holds {100 * share:.0f} % of the nodes on "
        f"average, and would hold {100 / len(rows):.0f} % without neighbours.",
    ]
    if share > MUCH and len(rows) > 1:
        lines.append(
            "That is most of the graph: whole copies on every machine (the same command on the graph itself) "
            "cost little more memory, and share the work evenly."
        )
    return "\n".join(lines)
