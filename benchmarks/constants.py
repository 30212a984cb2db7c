"""What does it save that the sums of SAGE and GCN layers are constants while a layer is fitted?

The paper's products setting with `--layer sage` and `gcn`, steps of both ways in turns: on the table of
aggregates, which is made once per layer, and on sampled neighbourhoods, as attention has to be fitted. The
table's own seconds are counted: a layer of 100 epochs is `seconds of the table + steps * seconds of a step`.

    python benchmarks/constants.py --json benchmarks/results/constants.json
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from embed import random_table
from question import Question

from lrgi.compute.allocator import keep_freed_memory
from lrgi.compute.threads import lanes
from lrgi.encoder import embed_layer
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities, products_training
from lrgi.layers.constant import OnConstants
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.sampling.sample import Batches
from lrgi.training.constants import inputs_of
from lrgi.training.fit import fit_layer, new_layer
from lrgi.training.journal import Place
from lrgi.training.objective import FittedModule, Infomax
from lrgi.training.optimize import adamw, descend
from lrgi.training.plan import FitPlan
from lrgi.training.presets import preset
from lrgi.training.tables import TableStore

WAYS = ("constants", "samples")


@dataclass(frozen=True)
class Settings:
    """The paper's products setting, and how long to measure."""

    nodes: int = 196_615
    mean_degree: float = 57.0
    kinds: tuple[str, ...] = ("sage", "gcn")
    predictors: tuple[str, ...] = ("network", "closed")
    threads: int = 2
    rounds: int = 8
    steps_per_round: int = 10
    epochs: int = 100
    score_seeds: int = 2
    score_nodes: int = 5_000
    score_updates: int = 300
    seed: int = 0


QUICK = {"nodes": 2_000, "mean_degree": 12.0, "rounds": 1, "steps_per_round": 2,
         "score_nodes": 500, "score_updates": 4, "score_seeds": 1}  # fmt: skip


def measure(s: Settings) -> dict[str, Any]:
    """Both ways, for every kind of layer and predictors."""
    torch.set_num_threads(s.threads)
    keep_freed_memory()
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    rows, ratios = {}, {}
    for kind in s.kinds:
        for predictors in s.predictors:
            plan = preset("products").with_settings(layer=kind, predictors=predictors, seed=s.seed)
            name = f"{kind}, {predictors}"
            rows[name] = compared(graph, plan, s)
            cost = rows[name]
            ratios[f"{kind}_{predictors}_step"] = cost["samples"]["step"] / cost["constants"]["step"]
            ratios[f"{kind}_{predictors}_layer"] = cost["samples"]["layer"] / cost["constants"]["layer"]
    scores = {f"{kind}, {way}": scored(kind, way, s) for kind in s.kinds for way in WAYS}
    return {"rows": rows, "scores": scores, "ratios": ratios}


def scored(kind: str, way: str, s: Settings) -> list[list[float]]:
    """[validation, test] accuracy of a probe on two fitted layers of the demo graph, for every seed."""
    graph = planted_communities(s.score_nodes, 20 * s.score_nodes)
    found = []
    for seed in range(s.seed, s.seed + s.score_seeds):
        plan = FitPlan(layers=2, layer=kind, updates=s.score_updates, seed=seed)
        features = graph.features
        for number in range(1, plan.layers + 1):
            layer = new_layer(plan, number, features.shape[1])
            objective = Infomax(plan, number, plan.width)
            objective.reads_constants = way == "constants"
            fit_layer(layer, graph, features, plan, number, objective=objective)
            features = embed_layer(layer, graph, features)
        result = probe_table(Views(graph), features, None, ProbePlan(seeds=(seed,)))
        found.append([result.validation_mean, result.test_mean])
    return found


def compared(graph: Graph, plan: FitPlan, s: Settings) -> dict[str, dict[str, float]]:
    """Seconds of a step and of a layer of `epochs`, and nodes per batch, of both ways in turns."""
    table = random_table(graph.num_nodes, plan.width, s.seed)
    begun = time.perf_counter()
    layer = OnConstants(new_layer(plan, 1, plan.width))
    beside = inputs_of(layer, graph, table, TableStore())
    made = time.perf_counter() - begun
    ways = {"constants": stepping(layer, beside, graph, plan),
            "samples": stepping(new_layer(plan, 1, plan.width), table, graph, plan)}  # fmt: skip
    taken: dict[str, list[tuple[float, int]]] = {way: [] for way in ways}
    with lanes():
        for number in range(s.rounds + 1):
            for way, step in ways.items():
                times = [step() for _ in range(s.steps_per_round)]
                taken[way] += times if number else []
    steps = s.epochs * max(1, round(graph.num_nodes / plan.batch_size))
    found = {}
    for way, times in taken.items():
        seconds, nodes = np.array(times).T
        step, table_seconds = float(np.median(seconds)), made if way == "constants" else 0.0
        found[way] = {"step": step, "table": table_seconds, "layer": table_seconds + steps * step,
                      "nodes": float(nodes.mean())}  # fmt: skip
    return found


def stepping(
    reader: FittedModule, table: Table, graph: Graph, plan: FitPlan
) -> Callable[[], tuple[float, int]]:
    """A function that takes the next step of a fit: its seconds, sampling included, and the batch's nodes."""
    objective = Infomax(plan, 1, plan.width)
    optimizer = adamw([*reader.parameters(), *objective.parameters()], plan)
    batches = Batches(graph, plan.sampling_over(reader.hops, objective.hops), plan.seed, 1)
    blocks = batches.after(0, 1_000_000)
    place = Place(1, 1, 1, 1)

    def step() -> tuple[float, int]:
        begun = time.perf_counter()
        _, block = next(blocks)
        descend(optimizer, objective.terms(reader, table, block, place), plan, plan.learning_rate, place)
        return time.perf_counter() - begun, len(block.nodes)

    return step


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    columns = (
        Column("layer, predictors", text=True), Column("inputs", text=True),
        Column("nodes per batch", digits=0), Column("ms per step", digits=2),
        Column("seconds of the table", digits=2), Column("minutes of a layer", digits=2),
    )  # fmt: skip
    rows = [
        (name, way, cost["nodes"], 1e3 * cost["step"], cost["table"], cost["layer"] / 60)
        for name, ways in record.measures["rows"].items()
        for way, cost in ways.items()
    ]
    s = record.settings
    how = (
        f"The paper's products setting on a graph of {s['nodes']:,} nodes, {s['threads']} threads; a layer "
        f"is {s['epochs']} epochs. Steps sample, go forward and back, and update."
    )
    said = "; ".join(
        f"{name} {', '.join(f'{100 * test:.1f}' for _, test in scores)}"
        for name, scores in record.measures["scores"].items()
    )
    if s["score_seeds"]:
        how += (
            f" Test accuracy in percent after two layers on a demo graph of {s['score_nodes']:,} nodes, "
            f"{s['score_updates']} updates per layer, one figure per seed: {said}."
        )
    return columns, rows, how


QUESTION = Question(
    name="constants",
    title="Constant aggregates: what they save",
    settings=Settings,
    measure=measure,
    table=table,
    better={
        f"{kind}_{predictors}_{of}": "high"
        for kind in ("sage", "gcn")
        for predictors in ("network", "closed")
        for of in ("step", "layer")
    },
    quick=QUICK,
    short={"kinds": ("sage",), "predictors": ("network",), "rounds": 5, "score_seeds": 0},
)

if __name__ == "__main__":
    QUESTION.main()
