"""`lrgi plan`: what a fit will need, before it is begun."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from lrgi.baselines.methods import METHODS, method_called
from lrgi.cli.console import Console
from lrgi.cli.fit_command import GROUPS, plan_from
from lrgi.cli.flags import add_settings, examples, given_settings, number
from lrgi.cli.graphs import load_graph
from lrgi.cli.needs import disk_bound, in_lines, measured_needs, memory_bound
from lrgi.cli.partition_command import MUCH
from lrgi.compute.memory import available_memory
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.interop.metis import owners_for
from lrgi.report.tables import pairs
from lrgi.training.cost import gib, refuse_what_cannot_be
from lrgi.training.fit import new_layer
from lrgi.training.inputs import fitted_columns
from lrgi.training.placement import Placement, placement_of
from lrgi.training.plan import FitPlan
from lrgi.training.presets import PRESETS
from lrgi.training.resolve import resolve_fit_on
from lrgi.training.resources import Resources
from lrgi.training.traffic import Traffic, step_traffic

DESCRIPTION = """Say what a fit will need on this graph with these settings: memory, disk, seconds
per step, per epoch and in all; and which setting to change if it does not fit.

A few steps of every different layer are taken and measured, which lasts seconds.
Nothing is written. Memory is what only the process can give back: pages of mapped
files are the system's cache, and are not counted.
"""
EXAMPLE = examples("""
    lrgi plan mine
    lrgi plan products --preset products --memory-gib 4
    lrgi plan products --preset products --processes 4
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
    parser.add_argument(
        "--processes",
        type=number("--processes", int, 1),
        metavar="P",
        default=1,
        help="say too what so many would send, and whether each should have all of the graph or a part",
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
    parted = _placement(arguments, seen, plan, uses)
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
    if parted is not None:
        console.say(_several(arguments, seen, plan, parted))
    console.say(f"\nIt {'fits.' if remedy is None else 'does not fit: ' + remedy + '.'}")
    shown = {"command": "plan", "needs": needs.to_json(), "fits": remedy is None, "remedy": remedy}
    if parted is not None:
        shown |= {"placement": parted.to_json(), "sent_bytes": _traffic(seen, plan, parted.processes).total}
    return shown


def _placement(
    arguments: argparse.Namespace, seen: Graph, plan: FitPlan, uses: Resources
) -> Placement | None:
    if arguments.processes == 1:
        return None
    if arguments.processes > seen.num_nodes:
        raise InputError(
            f"--processes must be at most the number of nodes, {seen.num_nodes}, got {arguments.processes}; "
            "lower it"
        )
    room = int(uses.memory_gib * 2**30) or available_memory()
    return placement_of(seen, plan, owners_for(seen, arguments.processes), room)


def _traffic(seen: Graph, plan: FitPlan, processes: int) -> Traffic:
    """Of the layer that sends most."""
    first = new_layer(plan.with_settings(device="cpu"), 1, seen.num_features)
    columns = fitted_columns(seen.features, first, plan)
    widths = [columns, *(plan.for_layer(number).width for number in range(1, plan.layers))]
    return max(
        (step_traffic(plan, width, number, processes) for number, width in enumerate(widths, 1)),
        key=lambda traffic: traffic.total,
    )


def _several(arguments: argparse.Namespace, seen: Graph, plan: FitPlan, parted: Placement) -> str:
    """What several processes send, and where their data should lie."""
    sent = _traffic(seen, plan, parted.processes)
    gradients = (sent.predictors + sent.layer) / sent.total
    much = ", much of the graph however it is cut" if parted.share_of_nodes > MUCH else ""
    free = "" if parted.room is None else f", and there is room for {gib(parted.room)}"
    lines = pairs([
        ("each sends", f"{sent.total / 1e6:,.2f} MB a step, {100 * gradients:.0f} % of it gradients; "
         f"{8 * sent.total / 1e7:,.1f} ms at 10 Gbit/s"),
        ("whole copies", f"{gib(parted.whole)} on every machine{free}"),
        ("parts", f"{gib(parted.part)} at the most; a part holds {100 * parted.share_of_nodes:.0f} % of the "
         f"nodes{much}"),
        ("choose", f"--placement {parted.best}"),
    ])  # fmt: skip
    command = f"torchrun --nproc-per-node={parted.processes} -m lrgi fit {arguments.graph} --out RUN"
    return f"\nBy {parted.processes} processes:\n{lines}\n  {command} --placement {parted.best}"
