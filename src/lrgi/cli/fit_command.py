"""`lrgi fit`: a graph to a run directory."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from lrgi.baselines.methods import METHODS, fit_method, method_called
from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, add_settings, examples, given_settings
from lrgi.cli.launch import add_launch, check_method, launched, load_shared, own_device, sent_in_words
from lrgi.cli.needs import announce_needs
from lrgi.cli.progress import Progress, duration
from lrgi.directory import write_file, write_json
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.part import Part
from lrgi.graph.partition import is_partition
from lrgi.probe.evaluation import Views
from lrgi.report.comparison import Comparison, Measure
from lrgi.training.begin import Beginning
from lrgi.training.plan import FitPlan
from lrgi.training.presets import PRESETS, preset
from lrgi.training.resolve import planned_steps, resolve_fit_on
from lrgi.training.resources import Resources
from lrgi.training.run import (
    TABLE,
    Run,
    check_files,
    check_place,
    fit_run,
    is_run_directory,
    keep_scores,
    read_record,
    seal_run,
)
from lrgi.training.sharing import Lead, follow

DESCRIPTION = """Fit an encoder on a graph, one layer after the other, without reading a label.

Writes a run directory: the encoder, the settings, versions and hardware, a line per
step, TensorBoard events, and the final table. Where the graph has labels, the table
says how well a linear probe does on each layer.

It may be stopped or killed at any moment: the same command goes on from there, and
the result has the same bits. A finished run is not fitted again.
"""
EXAMPLE = examples("""
    lrgi fit mine --out runs/mine
    lrgi fit mine --out runs/wide --width 256 --updates 4000 --seed 1
    lrgi fit products --out runs/products --preset products
""")
GROUPS = {
    "the encoder": ("layers", "width", "layer", "heads"),
    "what it is fitted on": ("fit_on", "inputs", "batch_size", "neighbours", "next_neighbours"),
    "how long, how fast": ("updates", "epochs", "learning_rate", "weight_decay", "warmup", "schedule"),
    "the objective": ("reconstruction", "variance", "covariance", "predictors", "expansion", "ridge"),
    "numbers and chance": ("precision", "reduction", "device", "seed"),
}
USES = {"what it may use (the result is the same)": [entry.name for entry in fields(Resources)]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The graph, where to, and every setting of a fit."""
    parser.add_argument("graph", metavar="GRAPH", help="a graph directory, or a .npz file")
    parser.add_argument("--out", metavar="RUN", required=True, help="the run directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is there")
    parser.add_argument(
        "--probe",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="score every layer at the end, where the graph has labels (default: yes)",
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
        help="what to fit in LRGI's place, with the same layers, batches and probe (default lrgi)",
    )
    parser.add_argument(
        "--from", dest="beginning", metavar="RUN", help="begin with the weights of this run, finished or not"
    )
    parser.add_argument(
        "--stop-on-collapse", action="store_true", help="end the fit where the embeddings begin to collapse"
    )
    add_settings(parser, FitPlan, GROUPS)
    add_settings(parser, Resources, USES)
    add_launch(parser, placement=True)
    for name, method in METHODS.items():
        if method.settings is not None:
            title = {f"--method {name}": [entry.name for entry in fields(method.settings)]}
            add_settings(parser, method.settings, title, prefix=name)


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Fit, measure, and say where it lies; as one process or as one of several."""
    plan, method = plan_from(arguments), method_called(arguments.method)
    own, uses = _method_settings(arguments), Resources(**given_settings(arguments, Resources))
    fit, place = partial(fit_method, arguments.method, settings=own), Path(arguments.out)
    with launched(arguments, console, plan.device) as world:
        check_method(world, arguments.method)
        plan = replace(plan, device=own_device(plan.device))
        if world.rank > 0:
            follow(world, load_shared(arguments.graph, world, arguments.placement, plan), plan, fit)
            return {}
        with Lead(world) as lead:
            check_place(place)
            graph = load_shared(arguments.graph, world, arguments.placement, plan)
            done = fit_with_progress(
                graph, plan, arguments.out, console, overwrite=arguments.overwrite, method=arguments.method,
                method_settings=own, fit=lead.beginning(fit), resources=uses,
                beginning=_beginning(arguments.beginning), stop_on_collapse=arguments.stop_on_collapse,
                source=str(Path(arguments.graph).absolute()),
            )  # fmt: skip
    if not world.alone:
        console.note(sent_in_words(done.record))
    if (kept := kept_table(done.path)) is not None:
        console.say(kept[0])
        return {"command": "fit", "path": str(arguments.out), "run": done.record, "table": kept[1]}
    table = (
        None
        if isinstance(graph, Part)
        else measured(graph, done, method.title, arguments.probe, console, uses)
    )
    console.say(
        f"\nThe run lies in {arguments.out}: encoder/, run.json, steps.jsonl, table.txt, TensorBoard events."
    )
    out = f"{Path(arguments.out)}-embedding"
    name = "GRAPH" if is_partition(arguments.graph) else arguments.graph
    named = table is not None and graph.ids is not None
    wrote = "vectors: Parquet with your ids" if named else "embeddings.npy"
    steps = [(f"embed {arguments.out} {name} --out {out}", f"write {out}/{wrote}")]
    if table is not None:
        some = shlex.quote(str(graph.ids[0])) if graph.ids is not None else "0"
        steps.append((f"neighbors {arguments.out} --id {some}", "list the nodes most like one of them"))
    if table is not None and table.metric is not None:
        steps.append(
            (f"probe {arguments.out} {arguments.graph} --layers all", "score all layers side by side")
        )
    console.next_steps(steps)
    shown = None if table is None else table.to_json()
    return {"command": "fit", "path": str(arguments.out), "run": done.record, "table": shown}


def _beginning(run: str | None) -> Beginning | None:
    return None if run is None else Beginning.of(Path(run))


def measured(
    graph: Graph, done: Run, title: str, probe: bool, console: Console, uses: Resources
) -> Comparison:
    """The final table, beside the run and on the screen."""
    measure = Measure(
        Views.of(graph, done.fit_on),
        probe=probe,
        scratch=Path(uses.scratch or done.path) if uses.mapped_tables else None,
        tell=lambda name: console.note(f"measuring: {name}"),
    )
    measure.add_features()
    measure.add_layers(done.encoder, fit_seconds(done), title)
    table = measure.comparison()
    keep_table(done.path, table)
    console.say(table.text())
    return table


def plan_from(arguments: argparse.Namespace) -> FitPlan:
    """The preset, if one is named, then what the flags say."""
    given = given_settings(arguments, FitPlan)
    if "updates" in given and "epochs" not in given:
        given["epochs"] = 0  # a preset's epochs would make --updates mean nothing
    base = FitPlan() if arguments.preset is None else preset(arguments.preset)
    return replace(base, **given)


def _method_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of the method that is fitted; a flag of another one is a mistake."""
    for name, method in METHODS.items():
        if method.settings is None:
            continue
        given = given_settings(arguments, method.settings, name)
        if name == arguments.method:
            return given
        for setting in given:
            flag = f"--{name}-{setting}".replace("_", "-")
            raise UsageError(f"{flag} must go with --method {name}, got --method {arguments.method}; drop it")
    return {}


def fit_with_progress(
    graph: Graph,
    plan: FitPlan,
    path: str,
    console: Console,
    *,
    overwrite: bool,
    command: str = "lrgi fit",
    method: str = "lrgi",
    **how: Any,
) -> Run:
    """`fit_run`, watched; `how` is handed on to it."""
    fit_on = resolve_fit_on(plan, graph)
    seen, _ = training_subgraph(graph, fit_on)
    on = "all nodes" if fit_on == "all" else f"the subgraph of {fit_on} nodes"
    what = {"layers": f"{plan.layers} layers", "a stack": f"{plan.layers} layers at once by {method}"}
    fits = METHODS[method].fits
    console.note(
        f"fitting {what.get(fits, f'nothing ({method})')} of width {plan.width} on {on}: "
        f"{seen.num_nodes:,} nodes, {seen.num_edges:,} edges, {seen.num_features:,} columns"
    )
    if not is_run_directory(path):  # one that is there goes on, or is finished
        announce_needs(console, (graph, seen), plan, how.get("resources"), Path(path), method=method)
    steps = planned_steps(plan, seen) if fits != "nothing" else (0,) * plan.layers
    progress = Progress(console, steps[:1] if fits == "a stack" else steps)
    done = fit_run(
        graph, plan, path,
        overwrite=overwrite, command=command, listeners=[progress], method=method, tell=console.note, **how,
    )  # fmt: skip
    console.note(f"fitted in {duration(done.record['seconds'])}")
    return done


def fit_seconds(done: Run) -> list[float]:
    """Of every layer."""
    return [float(layer["fit_seconds"]) for layer in done.record["layers"]]


def keep_table(directory: Path, table: Comparison) -> None:
    """The final table beside the run, for machines and for people, and in the encoder's card."""
    shown = json.loads(json.dumps(table.to_json()))
    write_json(directory / f"{TABLE}.json", shown)
    write_file(directory / f"{TABLE}.txt", table.text() + "\n")
    keep_scores(directory, shown)
    seal_run(directory, read_record(directory))


def kept_table(directory: Path) -> tuple[str, dict[str, Any]] | None:
    """The table that a finished run was given, in words and as JSON."""
    record = read_record(directory)
    if f"{TABLE}.txt" not in record.get("files", {}):
        return None
    check_files(directory, record, (f"{TABLE}.txt", f"{TABLE}.json"))
    words = (directory / f"{TABLE}.txt").read_text(encoding="utf-8").rstrip()
    return words, json.loads((directory / f"{TABLE}.json").read_text(encoding="utf-8"))
