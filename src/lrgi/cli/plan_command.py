"""`lrgi plan`: what a fit will need, before it is begun."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from lrgi.baselines.methods import METHODS, method_called
from lrgi.cli.console import Console
from lrgi.cli.fit_command import GROUPS, plan_from
from lrgi.cli.flags import add_settings, examples, given_settings
from lrgi.cli.graphs import load_graph
from lrgi.cli.needs import disk_bound, in_lines, measured_needs, memory_bound
from lrgi.errors import InputError
from lrgi.graph.inductive import training_subgraph
from lrgi.training.cost import refuse_what_cannot_be
from lrgi.training.plan import FitPlan
from lrgi.training.presets import PRESETS
from lrgi.training.resolve import resolve_fit_on
from lrgi.training.resources import Resources

DESCRIPTION = """Say what a fit will need on this graph with these settings: memory, disk, seconds
per step, per epoch and in all; and which setting to change if it does not fit.

A few steps of every different layer are taken and measured, which lasts seconds.
Nothing is written. Memory is what only the process can give back: pages of mapped
files are the system's cache, and are not counted.
"""
EXAMPLE = examples("""
    lrgi plan mine
    lrgi plan products --preset products --memory-gib 4
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph and every setting of a fit."""
    parser.add_argument("graph", metavar="GRAPH", help="a graph directory, or a .npz file")
    parser.add_argument(
        "--out", metavar="RUN", default=".", help="where the run would lie, for the disk's sake (default .)"
    )
    parser.add_argument(
        "--preset",
        metavar="{" + ",".join(PRESETS) + "}",
        help="begin with the paper's settings for this data set; flags below change them",
    )
    parser.add_argument(
        "--method",
        metavar="{" + ",".join(METHODS) + "}",
        default="lrgi",
        help="what to fit, with the same layers and batches (default lrgi)",
    )
    add_settings(parser, FitPlan, GROUPS)
    uses = {"what it may use (the result is the same)": [entry.name for entry in fields(Resources)]}
    add_settings(parser, Resources, uses)


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure and say."""
    plan, uses = plan_from(arguments), Resources(**given_settings(arguments, Resources))
    method_called(arguments.method)
    graph = load_graph(arguments.graph, checked=["indptr"])
    seen, _ = training_subgraph(graph, resolve_fit_on(plan, graph))
    console.note("measuring a few steps")
    needs = measured_needs((graph, seen), plan, uses, arguments.method, steps=12, seconds=4.0)
    if needs is None:
        raise InputError(f"method must fit something, got {arguments.method!r}; there is nothing to plan")
    memory, disk = memory_bound(needs, uses), disk_bound(Path(arguments.out))
    console.say(f"A fit of {graph.name!r} ({arguments.method}):\n{in_lines(needs, seen, memory, disk)}")
    remedy = None
    try:
        refuse_what_cannot_be(needs, plan, memory, disk)
    except InputError as error:
        remedy = str(error)
    console.say(f"\nIt {'fits.' if remedy is None else 'does not fit: ' + remedy + '.'}")
    return {"command": "plan", "needs": needs.to_json(), "fits": remedy is None, "remedy": remedy}
