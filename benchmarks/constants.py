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
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import products_training
from lrgi.layers.constant import OnConstants
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.sampling.sample import Batches
from lrgi.training.constants import inputs_of
from lrgi.training.fit import new_layer
from lrgi.training.journal import Place
from lrgi.training.objective import FittedModule, Infomax, Objective
from lrgi.training.optimize import adamw, descend
from lrgi.training.plan import FitPlan
from lrgi.training.presets import preset
from lrgi.training.tables import TableStore


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
    seed: int = 0


QUICK = {"nodes": 2_000, "mean_degree": 12.0, "rounds": 1, "steps_per_round": 2}


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
    return {"rows": rows, "ratios": ratios}


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
    reader: FittedModule, table: Table, graph: Graph, plan: FitPlan, objective: Objective | None = None
) -> Callable[[], tuple[float, int]]:
    """A function that takes the next step of a fit: its seconds, sampling included, and the batch's nodes."""
    objective = objective or Infomax(plan, 1, plan.width)
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
    short={"kinds": ("sage",), "predictors": ("network",), "rounds": 5},
)

if __name__ == "__main__":
    QUESTION.main()
