"""What does a step cost end to end? RGI and DGI with three layers beside LRGI, the paper's products setting.

Seconds of a step are measured in turns in one process, so that a busy neighbour disturbs all alike. LRGI
takes three such steps (one per layer) where the others take one, so the seconds of an epoch of all layers
are beside. The memory that a fit adds is that of a process of its own, as `lrgi plan` measures it.

    python benchmarks/peers.py --json benchmarks/results/peers.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from constants import stepping
from embed import random_table
from question import Question

from lrgi.baselines.dgi import DeepGraphInfomax
from lrgi.baselines.methods import METHODS, fit_method
from lrgi.baselines.untrained import untrained_encoder
from lrgi.compute.allocator import keep_freed_memory
from lrgi.compute.threads import lanes
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import products_training
from lrgi.layers.stack import Stack
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.training.cost import needs_of
from lrgi.training.fit import new_layer
from lrgi.training.objective import Infomax
from lrgi.training.plan import FitPlan
from lrgi.training.presets import preset

TITLES = {"lrgi": "LRGI", "lrgi closed": "LRGI, closed predictors", "rgi": "RGI", "dgi": "DGI"}


@dataclass(frozen=True)
class Settings:
    """The paper's products setting, and how long to measure."""

    nodes: int = 196_615
    mean_degree: float = 57.0
    layers: int = 3
    methods: tuple[str, ...] = ("lrgi", "lrgi closed", "rgi", "dgi")
    threads: int = 2
    rounds: int = 6
    ours_per_round: int = 20
    seed: int = 0


QUICK = {"nodes": 2_000, "mean_degree": 12.0, "methods": ("lrgi", "dgi"), "rounds": 1, "ours_per_round": 2}


def measure(s: Settings) -> dict[str, Any]:
    """Every method's costs."""
    torch.set_num_threads(s.threads)
    rows: dict[str, dict[str, float]] = {method: memory_of(method, s) for method in s.methods}
    keep_freed_memory()
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    table = random_table(graph.num_nodes, preset("products").width, s.seed)
    ways = {method: steps_of(method, graph, table, s) for method in s.methods}
    taken: dict[str, list[float]] = {method: [] for method in ways}
    with lanes():
        for number in range(s.rounds + 1):
            for method, step in ways.items():
                times = [step()[0] for _ in range(s.ours_per_round if method.startswith("lrgi") else 1)]
                taken[method] += times if number else []  # the first round compiles and warms up
    batches = max(1, round(graph.num_nodes / preset("products").batch_size))
    for method, times in taken.items():
        fits = s.layers if method.startswith("lrgi") else 1
        step = float(np.median(times))
        rows[method] |= {"step": step, "epoch": fits * batches * step, "steps": len(times)}
    ratios = {
        f"{method}_{of}_to_lrgi": rows[method][of] / rows["lrgi"][of]
        for method in ("rgi", "dgi")
        for of in ("step", "epoch", "memory")
        if method in rows
    }
    return {"rows": rows, "ratios": ratios}


def plan_of(method: str, s: Settings) -> FitPlan:
    _, _, predictors = method.partition(" ")
    return preset("products").with_settings(
        layers=s.layers, seed=s.seed, fit_on="all", predictors=predictors or "network"
    )


def steps_of(method: str, graph: Graph, table: DenseTable, s: Settings) -> Callable[[], tuple[float, int]]:
    """A layer of LRGI's, or all layers at once, on a table as wide as a layer's output."""
    plan = plan_of(method, s)
    if method.startswith("lrgi"):
        return stepping(new_layer(plan, 1, plan.width), table, graph, plan)
    stack = Stack(untrained_encoder(plan, plan.width).layers)
    objective = DeepGraphInfomax(plan, plan.width) if method == "dgi" else Infomax(plan, 1, plan.width)
    return stepping(stack, table, graph, plan, objective)


def memory_of(method: str, s: Settings) -> dict[str, float]:
    """Measured in a process of its own."""
    command = [sys.executable, __file__, "--child", method, json.dumps(asdict(s))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def costs_of(method: str, s: Settings) -> dict[str, float]:
    """In this process: bytes that a fit adds, and the sizes of its batches."""
    torch.set_num_threads(s.threads)
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    name = method.partition(" ")[0]
    layerwise = METHODS[name].fits == "layers"
    fit = partial(fit_method, name)
    needs = needs_of(graph, plan_of(method, s), fit=fit, layerwise=layerwise, steps=2, seconds=0.5)
    first = needs.measured[0]
    return {"memory": needs.step + needs.tables, "nodes": first.nodes, "edges": first.edges}


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    columns = (
        Column("", text=True), Column("nodes per batch", digits=0), Column("edges per batch", digits=0),
        Column("ms per step", digits=1), Column("seconds per epoch", digits=1), Column("MiB", digits=0),
    )  # fmt: skip
    rows = [
        (
            TITLES[method], cost["nodes"], cost["edges"], 1e3 * cost["step"], cost["epoch"],
            cost["memory"] / 2**20,
        )
        for method, cost in record.measures["rows"].items()
    ]  # fmt: skip
    s = record.settings
    how = (
        f"{s['layers']} layers, a graph of {s['nodes']:,} nodes, {s['threads']} threads. An epoch is one of "
        "every layer. Memory is what a fit adds to the process."
    )
    return columns, rows, how


QUESTION = Question(
    name="peers",
    title="End-to-end peers",
    settings=Settings,
    measure=measure,
    table=table,
    better={f"{peer}_{of}_to_lrgi": "high" for peer in ("rgi", "dgi") for of in ("step", "epoch", "memory")},
    quick=QUICK,
    short={"rounds": 2, "methods": ("lrgi", "rgi", "dgi")},
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(costs_of(sys.argv[2], Settings(**json.loads(sys.argv[3])))))
    else:
        QUESTION.main()
