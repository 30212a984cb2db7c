"""`lrgi grow`: more layers for a finished run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.fit_command import USES, measured
from lrgi.cli.flags import UsageError, add_settings, examples, given_settings, number
from lrgi.cli.graphs import load_graph
from lrgi.cli.progress import Progress
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.nearness import edge_auc
from lrgi.training.grow import grow_run, settle
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import planned_steps
from lrgi.training.resources import Resources
from lrgi.training.run import Run

DESCRIPTION = """Add layers to a finished run, without fitting the others again.

The result has the bits of a run that was fitted with so many layers from the start.
Until the new layers are finished the run stays as it is; what is interrupted goes on
with the same command (give the number of layers in all, as 5, where it might be).
With --until, layers are added one by one, and the first that brings too little is
dropped: by how well neighbours are told from strangers (edges, without labels), or by
the linear probe on the validation nodes (probe).
"""
EXAMPLE = examples("""
    lrgi grow runs/mine --layers +1
    lrgi grow runs/mine --layers 8 --until edges
    lrgi grow runs/mine mine --layers +3 --until probe --least-gain 0.005
""")
MEASURES = ("edges", "probe")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, its graph, how many layers, and when to stop."""
    parser.add_argument("run", metavar="RUN", help="a finished run of `lrgi fit`")
    parser.add_argument(
        "graph", metavar="GRAPH", nargs="?", help="the graph it was fitted on (default: where it was then)"
    )
    parser.add_argument(
        "--layers",
        metavar="{+N,N}",
        default="+1",
        help="how many more layers, or how many in all (default +1)",
    )
    parser.add_argument(
        "--until", choices=MEASURES, help="stop when a further layer brings nothing by this measure"
    )
    parser.add_argument(
        "--least-gain",
        type=number("--least-gain", float),
        default=0.002,
        metavar="X",
        help="what a further layer must bring with --until (default 0.002)",
    )
    add_settings(parser, Resources, USES)


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Grow, and measure all layers."""
    path = Path(arguments.run)
    before = settle(path)
    graph = load_graph(_graph_of(before, arguments.graph))
    have = len(before.encoder.layers)
    wanted = _wanted(arguments.layers, have, grown="grown_from" in before.record)
    if wanted == have:  # killed between the last layer and the table
        console.note(f"{path} has its {have} layers: none is fitted again")
    judge = None if arguments.until is None else _Judge(graph, arguments.until, arguments.least_gain, console)
    done, gains, uses = before, [], Resources(**given_settings(arguments, Resources))
    for layers in range(have + 1 if judge is not None else max(wanted, have + 1), wanted + 1):
        console.note(f"growing from {len(done.encoder.layers)} to {layers} layers")
        done = grow_run(
            path, graph, layers,
            listeners=[_progress(done, graph, layers, console)], tell=console.note, judge=judge,
            resources=uses,
        )  # fmt: skip
        if len(done.encoder.layers) < layers:
            break
    if judge is not None:
        gains = judge.scores
    table = measured(graph, done, "LRGI", True, console, uses)
    console.say(
        f"\nThe run in {path} has {len(done.encoder.layers)} layers, {len(done.encoder.layers) - have} new."
    )
    return {
        "command": "grow",
        "path": str(path),
        "layers": len(done.encoder.layers),
        "new_layers": len(done.encoder.layers) - have,
        "measure": arguments.until,
        "scores": gains,
        "run": done.record,
        "table": table.to_json(),
    }


class _Judge:
    """Whether a layer is worth keeping: the score of the last table against the one below."""

    def __init__(self, graph: Graph, measure: str, least: float, console: Console) -> None:
        self._graph, self._measure, self._least, self._console = graph, measure, least, console
        self.scores: list[float] = []

    def __call__(self, longer: Run) -> bool:
        score = self._score_of(longer)
        *_, below, last = [float("nan"), *map(score, range(len(longer.encoder.layers) + 1))]
        kept = last - below >= self._least
        self.scores = [*(self.scores or [below]), last]
        self._console.note(
            f"layer {len(longer.encoder.layers)} by {self._measure}: {last:.4f} after {below:.4f}, "
            + (
                "kept"
                if kept
                else f"less than {self._least:g} more: it is dropped, and the run stays as it was"
            )
        )
        return kept

    def _score_of(self, run: Run) -> Callable[[int], float]:
        views = Views.of(self._graph, run.fit_on)
        if self._measure == "probe" and views.metric is None:
            raise InputError(
                "a graph to grow a run on by the probe must have labels, got none; use --until edges"
            )
        tables = [self._graph.features, *run.encoder.tables(self._graph)]
        seen = None if views.seen is None else [views.seen.features, *run.encoder.tables(views.seen)]

        def score(layer: int) -> float:
            if layer < len(tables) - 2:
                return float("nan")  # only the last two are compared
            if self._measure == "edges":
                return edge_auc(tables[layer], self._graph)
            return probe_table(views, tables[layer], None if seen is None else seen[layer]).validation_mean

        return score


def _wanted(given: str, have: int, *, grown: bool) -> int:
    read = number("--layers", int, 1)
    layers = int(read(given.removeprefix("+")))
    wanted = have + layers if given.startswith("+") else layers
    if wanted < have or (wanted == have and not grown):
        raise UsageError(f"--layers must be more than the {have} of the run, got {given}; ask for some as +1")
    return wanted


def _graph_of(run: Run, given: str | None) -> str:
    found = given or run.record.get("source")
    if found is None:
        raise UsageError(
            f"GRAPH must be named for a run that does not say where its graph is, got {run.path}; add it"
        )
    return str(found)


def _progress(run: Run, graph: Graph, layers: int, console: Console) -> Progress:
    plan = FitPlan.from_mapping(run.record["plan"]).with_settings(layers=layers)
    seen, _ = training_subgraph(graph, run.fit_on)
    return Progress(console, planned_steps(plan, seen))
