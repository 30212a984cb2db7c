"""How fast is one step of fitting, beside what this machine could do and beside the ordinary way?

`make bench`, or `python benchmarks/step.py [--json PATH] [--quick] [--bf16]`. One run measures, in turns so
that a busy neighbour disturbs all alike: LRGI's step, the same step in PyG and autograd, and the machine's
own rates. The floor is the time of the step's multiply-adds at the fastest rate of a matrix product seen
here plus the time of its unavoidable memory traffic; attention's own arithmetic and everything
elementwise are taken as free, so no step can reach it.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import product_rates, row_gather_rate, stream_rate
from ordinary import Ordinary
from torch import Tensor

from lrgi import seed as randomness
from lrgi.compute.allocator import empty_table, keep_freed_memory
from lrgi.compute.threads import lanes
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import products_training
from lrgi.layers.aggregate import targets_and_mean
from lrgi.layers.gat import GATLayer
from lrgi.layers.rows import Rows
from lrgi.objective.infomax import Weights
from lrgi.objective.joint import joint_terms
from lrgi.objective.predictors import NetworkPredictors
from lrgi.sampling.block import Block
from lrgi.sampling.sample import Batches, Sampling

PARTS = ("sample", "forward", "backward", "update")
PAPER = {"nodes": 23_769, "edges": 28_727}  # per batch, the paper's own count on ogbn-products


@dataclass(frozen=True)
class Settings:
    """The paper's products settings, and how long to measure."""

    nodes: int = 196_615
    mean_degree: float = 57
    width: int = 128
    heads: int = 4
    batch: int = 512
    fan_outs: tuple[int, int] = (10, 5)
    expansion: int = 8
    weights: tuple[float, float, float] = (25, 10, 1)
    lr: float = 1e-4
    weight_decay: float = 1e-5
    threads: int = 2
    seed: int = 0
    bf16: bool = False
    rounds: int = 12
    ours_per_round: int = 25
    ordinary_per_round: int = 5


QUICK = {
    "nodes": 4_000,
    "mean_degree": 12.0,
    "batch": 128,
    "rounds": 2,
    "ours_per_round": 2,
    "ordinary_per_round": 1,
}


class Ours:
    """LRGI's step."""

    def __init__(self, table: DenseTable, s: Settings) -> None:
        self.table, self.s = table, s
        self.layer = GATLayer(s.width, s.width, s.heads)
        self.layer.reset(randomness.torch_stream(s.seed, "layer"))
        self.predictors = NetworkPredictors(
            s.width, s.expansion, randomness.torch_stream(s.seed, "predictors")
        )
        parameters = [*self.layer.parameters(), *self.predictors.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, s.lr, weight_decay=s.weight_decay, fused=True)

    def threads(self) -> AbstractContextManager[object]:
        return lanes()

    def loss(self, block: Block) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.s.bf16):
            local = self.layer(Rows.of(self.table, block), block.hop(1))
            u, v = targets_and_mean(local, block.hop(0))
            return joint_terms(u, v, self.predictors).total(Weights(*self.s.weights))


class Blocks:
    """Batches without end: epoch after epoch."""

    def __init__(self, graph: Graph, s: Settings) -> None:
        self.batches = Batches(graph, Sampling(s.batch, s.fan_outs), s.seed, layer=1)
        self.number = 0
        self.epoch = self.batches.epoch(0)

    def __next__(self) -> Block:
        for block in self.epoch:
            return block
        self.number += 1
        self.epoch = self.batches.epoch(self.number)
        return next(self)


def timed_step(who: Ours | Ordinary, blocks: Blocks) -> tuple[list[float], Block]:
    """Seconds of PARTS, and the block that was stepped on."""
    clock = [time.perf_counter()]
    block = next(blocks)
    clock.append(time.perf_counter())
    loss = who.loss(block)
    clock.append(time.perf_counter())
    who.optimizer.zero_grad()
    loss.backward()
    clock.append(time.perf_counter())
    who.optimizer.step()
    clock.append(time.perf_counter())
    return np.diff(clock).tolist(), block


def shapes_of(s: Settings, rows: int) -> dict[str, tuple[int, tuple[int, int, int]]]:
    """part: (how many products of (m, k, n) a step does at least). Two predictors, two views, H heads."""
    d, hidden, b, c = s.width, s.expansion * s.width, s.batch, s.width // s.heads
    return {
        "predictors, first layer forward": (2, (b, d, hidden)),
        "predictors, second layer forward": (2, (b, hidden, d)),
        "predictors, gradient of the hidden layer": (2, (b, d, hidden)),
        "predictors, gradient of the views": (2, (b, hidden, d)),
        "predictors, gradient of the first weight": (2, (hidden, b, d)),
        "predictors, gradient of the second weight": (2, (d, b, hidden)),
        "heads, forward": (s.heads, (rows, d, c)),
        "heads, gradient of the aggregates": (s.heads, (rows, c, d)),
        "heads, gradient of the weights": (s.heads, (c, rows, d)),
        "skip, forward": (1, (rows, d, d)),
        "skip, gradient of the weight": (1, (d, rows, d)),
        "covariance, forward": (2, (d, b, d)),
        "covariance, backward": (2, (b, d, d)),
    }


def flops_of(s: Settings, rows: int) -> dict[str, int]:
    """Floating point operations of every part; a multiply-add is two."""
    return {part: 2 * times * m * k * n for part, (times, (m, k, n)) in shapes_of(s, rows).items()}


def bytes_of(s: Settings, nodes: float, parameters: int) -> dict[str, float]:
    """Traffic of every part: each sampled row once per pass; p, m, v, gradient read and p, m, v written."""
    return {
        "table rows, forward": nodes * s.width * 4,
        "table rows, backward": nodes * s.width * 4,
        "optimizer": 7 * 4 * parameters,
    }


def floor_seconds(
    flops: dict[str, int], traffic: dict[str, float], product: float, rates: dict[str, float]
) -> float:
    gathered = traffic["table rows, forward"] + traffic["table rows, backward"]
    return sum(flops.values()) / product + gathered / rates["gather"] + traffic["optimizer"] / rates["stream"]


def measure(s: Settings) -> dict[str, Any]:
    """Everything, as one record."""
    torch.set_num_threads(s.threads)
    kept = keep_freed_memory()
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    random = randomness.stream(s.seed, "table")
    rows = empty_table((graph.num_nodes, s.width))  # as the table that a fit hands to its next layer
    rows[:] = random.standard_normal(rows.shape, dtype=np.float32)
    table = DenseTable(rows)
    ours, ordinary = Ours(table, s), Ordinary(table, s)
    ordinary.copy_weights(ours.layer, ours.predictors)
    blocks = {"ours": Blocks(graph, s), "ordinary": Blocks(graph, s)}
    seconds: dict[str, list[list[float]]] = {"ours": [], "ordinary": []}
    sizes, rates = [], {"onednn": 0.0, "mkl": 0.0, "tiles": 0.0, "gather": 0.0, "stream": 0.0}
    turns = (("ours", ours, s.ours_per_round), ("ordinary", ordinary, s.ordinary_per_round))
    for number in range(s.rounds + 1):
        for name, who, steps in turns:
            with who.threads():
                for _ in range(steps):
                    times, block = timed_step(who, blocks[name])
                    if number > 0:  # the first round compiles and warms up
                        seconds[name].append(times)
                        sizes.append((len(block.nodes), len(block.indices), block.ring_ends[1]))
        for name, rate in machine_rates(s, table, sizes[-1][2] if sizes else s.batch).items():
            rates[name] = max(rates[name], rate)
    parameters = sum(p.numel() for p in [*ours.layer.parameters(), *ours.predictors.parameters()])
    return {**describe(s, kept), **evaluate(s, seconds, np.mean(sizes, axis=0), rates, parameters)}


def machine_rates(s: Settings, table: DenseTable, rows: int) -> dict[str, float]:
    """Flops and bytes per second, with the step's threads and at the step's sizes."""
    shapes = {shape for _, shape in shapes_of(s, rows).values()}
    return {
        **product_rates(shapes, s.threads),
        "gather": row_gather_rate(table.array, s.batch * 48, s.threads, s.seed),
        "stream": stream_rate(s.width * s.width * s.expansion, s.threads),
    }


def evaluate(
    s: Settings,
    seconds: dict[str, list[list[float]]],
    sizes: np.ndarray,
    rates: dict[str, float],
    parameters: int,
) -> dict[str, Any]:
    nodes, edges, rows = (float(size) for size in sizes)
    flops, traffic = flops_of(s, round(rows)), bytes_of(s, nodes, parameters)
    steps = {who: summary(times) for who, times in seconds.items()}
    floors = {kind: floor_seconds(flops, traffic, rates[kind], rates) for kind in ("onednn", "mkl", "tiles")}
    fastest = min(floors.values())
    return {
        "batch": {"nodes": nodes, "edges": edges, "rows": rows, "paper": PAPER},
        "seconds": steps,
        "rates": rates,
        "flops": flops,
        "bytes": traffic,
        "floor_seconds": {"fastest": fastest, **floors},
        "ratios": {
            when: {
                "step_to_floor": steps["ours"]["step"][when] / fastest,
                "step_to_mkl_floor": steps["ours"]["step"][when] / floors["mkl"],
                "ordinary_to_step": steps["ordinary"]["step"][when] / steps["ours"]["step"][when],
            }
            for when in ("median", "best_decile")
        },
    }


def summary(times: list[list[float]]) -> dict[str, dict[str, float]]:
    """Per part and for the whole step: median and best decile of all steps' seconds."""
    columns = dict(zip(PARTS, np.array(times).T, strict=True)) | {"step": np.sum(times, axis=1)}
    return {
        part: {"median": float(np.median(values)), "best_decile": float(np.quantile(values, 0.1))}
        for part, values in columns.items()
    }


def describe(s: Settings, kept: bool) -> dict[str, Any]:
    """What the numbers depend on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "benchmark": "step",
        "settings": asdict(s),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "hardware": {"cpu": models[0] if models else platform.processor(), "cores": len(models)},
        "freed_memory_kept": kept,  # process-wide, so for the ordinary way as well
    }


def show(r: dict[str, Any]) -> str:
    """A record as a person reads it."""
    s, batch = r["settings"], r["batch"]
    head = [
        f"{r['hardware']['cpu']}, {s['threads']} threads; malloc keeps freed memory (for both): "
        f"{r['freed_memory_kept']}",
        f"graph of {s['nodes']:,} nodes; D {s['width']}, {s['heads']} heads, B {s['batch']}, "
        f"fan-outs {s['fan_outs']}; seed {s['seed']}",
        f"per batch: {batch['nodes']:,.0f} nodes (paper {PAPER['nodes']:,}), {batch['edges']:,.0f} edges "
        f"(paper {PAPER['edges']:,}), {batch['rows']:,.0f} rows computed",
    ]
    return "\n".join([*head, "", *show_steps(r), "", *show_floor(r)])


def show_steps(r: dict[str, Any]) -> list[str]:
    lines = [f"{'ms: median (best decile)':<26}" + "".join(f"{part:>16}" for part in (*PARTS, "step"))]
    for who, name in (("ours", "lrgi"), ("ordinary", "ordinary way (PyG)")):
        cells = [r["seconds"][who][part] for part in (*PARTS, "step")]
        text = [f"{1e3 * c['median']:.2f} ({1e3 * c['best_decile']:.2f})" for c in cells]
        lines.append(f"{name:<26}" + "".join(f"{cell:>16}" for cell in text))
    return lines


def show_floor(r: dict[str, Any]) -> list[str]:
    rates, floors = r["rates"], r["floor_seconds"]
    work, traffic = sum(r["flops"].values()), sum(r["bytes"].values())
    lines = [
        f"machine: products {rates['onednn'] / 1e9:.0f} GFLOP/s (oneDNN), "
        f"{rates['tiles'] / 1e9:.0f} (tiles), {rates['mkl'] / 1e9:.0f} (torch.mm); random rows "
        f"{rates['gather'] / 1e9:.1f} GB/s; stream {rates['stream'] / 1e9:.1f} GB/s",
        f"floor: {work / 1e9:.2f} GFLOP and {traffic / 1e6:.1f} MB in {1e3 * floors['fastest']:.2f} ms "
        f"({1e3 * floors['mkl']:.2f} ms at torch.mm's rate)",
    ]
    for when, ratio in r["ratios"].items():
        lines.append(
            f"{when.replace('_', ' ')}: step / floor {ratio['step_to_floor']:.2f} "
            f"({ratio['step_to_mkl_floor']:.2f} at torch.mm's rate), "
            f"ordinary / step {ratio['ordinary_to_step']:.2f}"
        )
    return lines


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the record here")
    parser.add_argument("--quick", action="store_true", help="a small graph and few steps: does it run?")
    parser.add_argument("--bf16", action="store_true", help="LRGI's products in bfloat16")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args(argv)
    settings = Settings(threads=args.threads, bf16=args.bf16, **(QUICK if args.quick else {}))
    record = measure(settings)
    print(show(record))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    return record


if __name__ == "__main__":
    main()
