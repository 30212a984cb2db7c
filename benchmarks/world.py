"""What sharing a batch among processes costs and brings: seconds and bytes per step.

`python benchmarks/world.py [--json PATH] [--quick]`. A graph shaped like ogbn-products' training part; every
process has one thread, and all are on this machine, so what is measured is the program and the loopback
device, not a network. `many_machines.py` goes on from the record.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import tempfile
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrgi.compute.machine import hardware, versions
from lrgi.distributed.collectives import ALONE, joined
from lrgi.graph.store import open_graph, save_graph
from lrgi.graph.synthetic import products_training
from lrgi.training.fit import fit_layer, new_layer
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.plan import FitPlan
from lrgi.training.traffic import step_traffic

NODES, DEGREE, STEPS, WARM = 196_615, 57.0, 36, 12
KINDS: dict[str, dict[str, str]] = {
    "network": {},
    "network, bf16 gradients": {"reduction": "bf16"},
    "closed": {"predictors": "closed"},
}
SHARED = (512, 2048)  # batches that one or two processes take
SMALL = (16, 64, 256)  # what is left of a batch for one of many


class Enough(Exception):
    """Raised when enough steps were seen."""


class Clock(Listener):
    def __init__(self, world: Any, steps: int) -> None:
        self.world, self.steps = world, steps
        self.seen: list[tuple[float, float, int]] = []

    def step_taken(self, record: StepRecord) -> None:
        self.seen.append((time.perf_counter(), self.world.waited, self.world.sent))
        if len(self.seen) == self.steps:
            raise Enough


def measure(world: Any, graph: Any, settings: dict[str, Any], steps: int) -> dict[str, float]:
    """Of the steps after the first ones: the median's seconds, and how much of it was waiting."""
    plan, clock = (
        FitPlan(
            layers=1, width=128, updates=10**6, **({"predictors": "network", "inputs": "given"} | settings)
        ),
        Clock(world, steps),
    )
    with suppress(Enough):
        layer = new_layer(plan, 1, graph.num_features)
        fit_layer(layer, graph, graph.features, plan, 1, journal=Journal(clock))
    took, waited, sent = np.diff(np.array(clock.seen[WARM:]), axis=0).T
    step_ms, waited_ms = (round(1e3 * float(np.median(each)), 3) for each in (took, waited))
    return {"step_ms": step_ms, "waited_ms": waited_ms, "sent": int(sent[0])}


def process(rank: int, size: int, port: int, path: str, steps: int, answer: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    graph = open_graph(path)
    cases = [(kind, batch) for kind in KINDS for batch in (SHARED if size > 1 else (*SMALL, *SHARED))]
    with joined() if size > 1 else nullcontext(ALONE) as world:
        rows = [
            {"predictors": kind, "batch": batch, "processes": size}
            | measure(world, graph, {"batch_size": batch, **KINDS[kind]}, steps)
            for kind, batch in cases
            if size > 1 or "bf16" not in kind
        ]
        for row in rows:  # the counter and the formula are the same
            plan = FitPlan(
                width=128, **({"predictors": "network", "inputs": "given"} | KINDS[row["predictors"]])
            )
            assert abs(row["sent"] - step_traffic(plan, graph.num_features, 1, size).total) <= 4, row
        if rank == 0:
            answer.send(rows)


def run(nodes: int, steps: int) -> dict[str, Any]:
    context, rows = multiprocessing.get_context("spawn"), []
    with tempfile.TemporaryDirectory() as place:
        path = str(Path(place) / "graph")
        save_graph(products_training(nodes, DEGREE if nodes == NODES else 12.0), path)
        for size in (1, 2):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            here, there = context.Pipe()
            arguments = [(rank, size, port, path, steps, there) for rank in range(size)]
            workers = [context.Process(target=process, args=each) for each in arguments]
            for worker in workers:
                worker.start()
            rows += here.recv()
            for worker in workers:
                worker.join()
    about = {"nodes": nodes, "width": 128, "steps": steps - WARM, "threads_per_process": 1}
    return {**about, "hardware": hardware(), "versions": versions(), "rows": rows}


def in_words(record: dict[str, Any]) -> str:
    lines = ["predictors               batch  processes   ms/step  of it waiting  bytes sent"]
    for row in record["rows"]:
        lines.append(
            f"{row['predictors']:<24} {row['batch']:>5}  {row['processes']:>9}  {row['step_ms']:>8.2f}"
            f"  {row['waited_ms']:>13.2f}  {row['sent']:>10,}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="PATH", help="write the record there")
    parser.add_argument("--quick", action="store_true", help="a small graph and few steps")
    given = parser.parse_args()
    record = run(4_000, WARM + 6) if given.quick else run(NODES, WARM + STEPS)
    print(in_words(record))
    if given.json:
        Path(given.json).write_text(json.dumps(record, indent=1) + "\n")
