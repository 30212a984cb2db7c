"""Does bf16 cost accuracy? The demo's fit in float32 and in bf16, several seeds, the same probe.

Demanded: the mean test accuracy moves by no more than the seeds' own spread.

    python benchmarks/precision.py [--seeds 3] [--json benchmarks/results/precision.json]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from lrgi.compute.machine import describe_machine
from lrgi.graph.synthetic import planted_communities
from lrgi.probe.data import ProbeData
from lrgi.probe.linear import ProbePlan, linear_probe
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan


def main() -> None:
    """Fit, probe, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    graph = planted_communities(nodes=options.nodes, edges=20 * options.nodes)
    rows = []
    for seed in range(options.seeds):
        for precision in ("float32", "bf16"):
            plan = FitPlan(
                width=128,
                predictors="network",
                inputs="given",
                updates=options.updates,
                precision=precision,
                seed=seed,
            )
            start = time.perf_counter()
            encoder = fit_encoder(graph, plan)
            seconds = time.perf_counter() - start
            data = ProbeData.transductive(encoder.embed(graph), graph.labels, graph.split)
            score = linear_probe(data, ProbePlan(seeds=(0,))).test_mean
            rows.append({"seed": seed, "precision": precision, "test": score, "fit_seconds": seconds})
            print(f"seed {seed} {precision:8s} test {score:.4f}, fit {seconds:.1f} s", flush=True)
    scores = {p: [r["test"] for r in rows if r["precision"] == p] for p in ("float32", "bf16")}
    difference = abs(float(np.mean(scores["bf16"]) - np.mean(scores["float32"])))
    spread = float(np.std(scores["float32"], ddof=1)) if options.seeds > 1 else float("nan")
    print(f"means differ by {difference:.4f}; float32's spread over seeds is {spread:.4f}")
    if options.json:
        record = {"benchmark": "precision", "machine": describe_machine(), "nodes": options.nodes,
                  "updates": options.updates, "rows": rows, "difference": difference,
                  "spread": spread}  # fmt: skip
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
