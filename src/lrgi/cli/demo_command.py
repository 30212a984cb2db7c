"""`lrgi demo`: a graph is made, an encoder is fitted, and one table says what that did."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.fit_command import GROUPS, fit_seconds, fit_with_progress, keep_table
from lrgi.cli.flags import add_settings, examples, given_settings, number
from lrgi.errors import InputError
from lrgi.graph.store import save_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.probe.evaluation import Views
from lrgi.report.comparison import Measure
from lrgi.training.plan import FitPlan
from lrgi.training.run import check_place, is_run_directory, read_record

DESCRIPTION = """Make a graph, fit a 3-layer encoder on it without labels, and print one table.

The graph has planted communities: features alone are a poor guide to a node's class,
its neighbourhood helps. It is made to show what the method can do, and is no evidence
that it beats another one. Nothing is downloaded.
"""
EXAMPLE = examples("""
    lrgi demo
    lrgi demo --nodes 5000 --seed 1 --out runs/small
""")
NODES, DEGREE, COMMAND = 20_000, 20, "lrgi demo"
DEFAULTS = {"updates": 400}
_GRAPH = "graph"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the graph, where to, and a few settings of the fit."""
    parser.add_argument(
        "--out", metavar="RUN", default="runs/demo", help="the run directory (default runs/demo)"
    )
    parser.add_argument(
        "--nodes",
        type=number("--nodes", int),
        default=NODES,
        metavar="N",
        help=f"nodes of the graph (default {NODES:,})",
    )
    add_settings(parser, FitPlan, GROUPS, defaults=DEFAULTS, only=("layers", "updates", "precision", "seed"))


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Make, fit, measure, and say what to type next."""
    plan = FitPlan(**{**DEFAULTS, **given_settings(arguments, FitPlan)})
    out = Path(arguments.out)
    check_place(out)
    _check_ours(out)
    graph = planted_communities(arguments.nodes, DEGREE * arguments.nodes, seed=plan.seed)
    done = fit_with_progress(graph, plan, arguments.out, console, overwrite=True, command=COMMAND)
    save_graph(graph, out / _GRAPH, overwrite=True)
    measure = Measure(Views.of(graph, done.fit_on), tell=lambda name: console.note(f"measuring: {name}"))
    measure.add_features()
    measure.add_propagated(plan.layers)
    measure.add_untrained(plan)
    measure.add_layers(done.encoder, fit_seconds(done))
    table = measure.comparison()
    keep_table(done.path, table)
    console.say(
        f"A generated graph: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, "
        f"{graph.num_features} features, 10 classes.\n\n{table.text()}"
    )
    console.say(
        f"\nThe run lies in {out}: encoder/, graph/, run.json, steps.jsonl, table.txt, TensorBoard events."
    )
    console.next_steps(
        [
            (f"probe {out} {out / _GRAPH} --layers all", "all three layers side by side, under the probe"),
            (f"embed {out} {out / _GRAPH} --out {out}-embedding", "one row per node, as a .npy file"),
            ("import YOURS.npz --out mine", "your own graph; the arrays it needs: lrgi import --help"),
        ]
    )
    return {
        "command": "demo",
        "path": str(out),
        "graph": str(out / _GRAPH),
        "run": done.record,
        "table": table.to_json(),
    }


def _check_ours(out: Path) -> None:
    """An earlier demo's run may be replaced without asking; nobody else's."""
    if not is_run_directory(out):
        return
    command = read_record(out).get("command")
    if command != COMMAND:
        raise InputError(
            f"the place for the demo's run must be free, got {out}, which holds a run of {command!r}; "
            "choose another path with --out"
        )
