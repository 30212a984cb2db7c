"""Are encoders as good when SAGE and GCN layers are fitted on constant aggregates instead of samples?

Both ways fit two layers on the graph of `lrgi demo`, smaller, with the same seeds; a linear probe reads the
second layer's output.

    python benchmarks/constant_scores.py --json benchmarks/results/constant_scores.json
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from question import Question

from lrgi.encoder import embed_layer
from lrgi.graph.synthetic import planted_communities
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.training.fit import fit_layer, new_layer
from lrgi.training.objective import Infomax
from lrgi.training.plan import FitPlan

WAYS = ("constants", "samples")


@dataclass(frozen=True)
class Settings:
    """The graph, and a short fit."""

    nodes: int = 5_000
    degree: int = 40
    kinds: tuple[str, ...] = ("sage", "gcn")
    layers: int = 2
    updates: int = 300
    seeds: int = 2
    seed: int = 0
    threads: int = 2


QUICK = {"nodes": 500, "updates": 4, "seeds": 1}


def measure(s: Settings) -> dict[str, Any]:
    """Scores of both ways, and the mean of one over the mean of the other."""
    torch.set_num_threads(s.threads)
    rows = {kind: {way: scored(kind, way, s) for way in WAYS} for kind in s.kinds}
    means = {
        kind: {way: float(np.mean(scores)) for way, scores in ways.items()} for kind, ways in rows.items()
    }
    ratios = {
        f"{kind}_constants_to_samples": mean["constants"] / mean["samples"] for kind, mean in means.items()
    }
    return {"rows": rows, "ratios": ratios}


def scored(kind: str, way: str, s: Settings) -> list[float]:
    """Test accuracy for every seed."""
    graph = planted_communities(s.nodes, s.nodes * s.degree // 2)
    found = []
    for seed in range(s.seed, s.seed + s.seeds):
        plan = FitPlan(layers=s.layers, layer=kind, updates=s.updates, seed=seed,
            width=128, learning_rate=1e-3, reconstruction=25.0, predictors="network", inputs="given",
        )  # fmt: skip
        features = graph.features
        for number in range(1, plan.layers + 1):
            layer = new_layer(plan, number, features.shape[1])
            objective = Infomax(plan, number, plan.width)
            objective.reads_constants = way == "constants"
            fit_layer(layer, graph, features, plan, number, objective=objective)
            features = embed_layer(layer, graph, features)
        result = probe_table(Views(graph), features, None, ProbePlan(seeds=(seed,)))
        found.append(result.test_mean)
    return found


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    s = record.settings
    columns = (
        Column("layer", text=True),
        Column("fitted on", text=True),
        Column("test accuracy, one per seed"),
    )
    rows = [
        (kind, way, " / ".join(f"{100 * score:.1f}" for score in scores))
        for kind, ways in record.measures["rows"].items()
        for way, scores in ways.items()
    ]
    how = (
        f"Percent, one figure per seed, after {s['layers']} layers of {s['updates']} updates each on a demo "
        f"graph of {s['nodes']:,} nodes."
    )
    return columns, rows, how


QUESTION = Question(
    name="constant_scores",
    title="Constant aggregates: what they cost in quality",
    settings=Settings,
    measure=measure,
    table=table,
    better={f"{kind}_constants_to_samples": "high" for kind in ("sage", "gcn")},
    quick=QUICK,
    short={"kinds": ("sage",), "updates": 100, "seeds": 1},
)

if __name__ == "__main__":
    QUESTION.main()
