"""Is depth free? Peak memory of a fit with 15 layers against one with 3.

Each fit runs in a process of its own on the graph shaped like ogbn-products' training part, with the
paper's settings but one epoch per layer (a step's memory does not depend on how many there are). What is
compared is the peak resident memory of the process (VmHWM), beside what of it the fit added.

    python benchmarks/depth.py --json benchmarks/results/depth.json
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from question import Demand, Question

from lrgi.graph.synthetic import products_training
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.training.fit import fit_encoder
from lrgi.training.presets import preset


@dataclass(frozen=True)
class Settings:
    """The paper's products setting; the first and the last of the depths are compared."""

    nodes: int = 196_615
    mean_degree: float = 57.0
    depths: tuple[int, ...] = (3, 15)
    predictors: str = "network"
    threads: int = 2
    seed: int = 0


QUICK = {"nodes": 1_500, "mean_degree": 10.0, "depths": (1, 2)}


def measure(s: Settings) -> dict[str, Any]:
    """Every depth in its own process."""
    rows = {}
    for depth in s.depths:
        command = [sys.executable, __file__, "--child", str(depth), json.dumps(asdict(s))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows[str(depth)] = json.loads(done.stdout.splitlines()[-1])
    peaks = [row["peak_mb"] for row in rows.values()]
    return {"rows": rows, "ratios": {"peak_of_deep_to_shallow": peaks[-1] / peaks[0]}}


def peak_of(depth: int, s: Settings) -> dict[str, float]:
    """Fit `depth` layers here; peak resident memory before and after."""
    torch.set_num_threads(s.threads)
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    plan = preset("products").with_settings(
        layers=depth, epochs=1, seed=s.seed, predictors=s.predictors, fit_on="all"
    )
    Path("/proc/self/clear_refs").write_text("5")  # forget the generator's own peak
    before, start = _peak_mb(), time.perf_counter()
    fit_encoder(graph, plan)
    seconds = time.perf_counter() - start
    return {"before_mb": before, "peak_mb": _peak_mb(), "seconds": seconds}


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    columns = (
        Column("layers"), Column("peak, MiB", digits=0), Column("of which the fit added", digits=0),
        Column("seconds", digits=0),
    )  # fmt: skip
    rows = [
        (depth, row["peak_mb"], row["peak_mb"] - row["before_mb"], row["seconds"])
        for depth, row in record.measures["rows"].items()
    ]
    s = record.settings
    how = (
        f"One epoch per layer of the paper's products setting on a graph of {s['nodes']:,} nodes; peak "
        "resident memory of the process."
    )
    return columns, rows, how


QUESTION = Question(
    name="depth",
    title="Depth is free",
    settings=Settings,
    measure=measure,
    table=table,
    better={"peak_of_deep_to_shallow": "low"},
    quick=QUICK,
    short={"nodes": 20_000, "predictors": "closed"},
    demands={"peak_of_deep_to_shallow": Demand(1.05, "low")},
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(peak_of(int(sys.argv[2]), Settings(**json.loads(sys.argv[3])))))
    else:
        QUESTION.main()
