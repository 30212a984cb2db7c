"""What does a step cost end to end? RGI and DGI with three layers beside LRGI, the paper's products setting.

Each method runs in a process of its own, in turns, on the same graph: seconds of a step, nodes and edges of
its batch, and the memory that its fit adds to the process. LRGI takes three such steps (one per layer)
where the others take one, so the seconds of an epoch of all layers are beside.

    python benchmarks/peers.py --json benchmarks/results/peers.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from question import Question

from lrgi.baselines.methods import METHODS, fit_method
from lrgi.graph.synthetic import products_training
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.training.cost import needs_of
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
    rounds: int = 2
    steps: int = 12
    seconds: float = 6.0
    seed: int = 0


QUICK = {"nodes": 2_000, "mean_degree": 12.0, "methods": ("lrgi", "dgi"), "rounds": 1, "steps": 2}


def measure(s: Settings) -> dict[str, Any]:
    """Every method's costs; of several rounds the quickest, the graph being the same."""
    found: dict[str, list[dict[str, Any]]] = {method: [] for method in s.methods}
    for _ in range(s.rounds):
        for method in s.methods:
            command = [sys.executable, __file__, "--child", method, json.dumps(asdict(s))]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[method].append(json.loads(done.stdout.splitlines()[-1]))
    rows = {method: min(costs, key=lambda cost: cost["step"]) for method, costs in found.items()}
    ours, ratios = rows["lrgi"], {}
    for method in (name for name in ("rgi", "dgi") if name in rows):
        theirs = rows[method]
        ratios |= {f"{method}_{of}_to_lrgi": theirs[of] / ours[of] for of in ("step", "epoch", "memory")}
    return {"rows": rows, "ratios": ratios}


def costs_of(method: str, s: Settings) -> dict[str, Any]:
    """In this process: what `lrgi plan` measures of a fit."""
    torch.set_num_threads(s.threads)
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    name, _, predictors = method.partition(" ")
    plan = preset("products").with_settings(
        layers=s.layers, seed=s.seed, fit_on="all", predictors=predictors or "network"
    )
    needs = needs_of(
        graph, plan, fit=partial(fit_method, name), layerwise=METHODS[name].fits == "layers",
        steps=s.steps, seconds=s.seconds,
    )  # fmt: skip
    first = needs.measured[0]
    return {
        "step": max(needs.step_seconds), "epoch": needs.epoch_seconds, "memory": needs.step + needs.tables,
        "nodes": first.nodes, "edges": first.edges, "steps": sum(c.steps for c in needs.measured),
    }  # fmt: skip


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
        "every layer; LRGI's step is that of its slowest layer. Memory is what a fit adds to the process."
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
    short={"rounds": 1, "steps": 6, "seconds": 3.0, "methods": ("lrgi", "rgi", "dgi")},
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(costs_of(sys.argv[2], Settings(**json.loads(sys.argv[3])))))
    else:
        QUESTION.main()
