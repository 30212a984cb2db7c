"""How fast is one step of fitting, beside what this machine could do and beside the ordinary way?

    python benchmarks/step.py [--json PATH] [--quick] [--page docs/scale.md]

One run measures, in turns so that a busy neighbour disturbs all alike: LRGI's step with the paper's
networks in float32 and in bf16, with predictors in closed form, the same step in PyG and autograd, and the
machine's own rates; then the steps of real fits, which sample ahead; then steps of PPI's size. The floor is
`floor.py`'s.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from floor import bytes_of, floor_seconds, flops_of, shapes_of
from machine import product_rates, row_gather_rate, stream_rate
from ordinary import Ordinary
from step_page import show, write_page
from torch import Tensor, nn

from lrgi import seed as randomness
from lrgi.compute.allocator import empty_table, keep_freed_memory
from lrgi.compute.machine import describe_machine
from lrgi.compute.threads import lanes
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import products_training
from lrgi.layers.aggregate import targets_and_mean
from lrgi.layers.gat import GATLayer
from lrgi.layers.rows import Rows
from lrgi.objective.infomax import Weights
from lrgi.objective.joint import joint_terms
from lrgi.objective.predictors import ClosedPredictors, NetworkPredictors
from lrgi.sampling.block import Block
from lrgi.sampling.sample import Batches, Sampling
from lrgi.training.fit import fit_layer, new_layer
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.presets import preset

PARTS = ("sample", "forward", "backward", "update")
PAPER = {"nodes": 23_769, "edges": 28_727, "steps": 115_200}  # of a batch; 100 epochs of three layers
OURS = ("float32", "bf16", "closed")  # networks in float32, networks in bf16, closed form in float32


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
    ridge: float = 0.01
    weights: tuple[float, float, float] = (25, 10, 1)
    lr: float = 1e-4
    weight_decay: float = 1e-5
    threads: int = 2
    seed: int = 0
    rounds: int = 8
    ours_per_round: int = 15
    ordinary_per_round: int = 3
    fit_steps: int = 150
    ppi_nodes: int = 2_245
    ppi_degree: float = 28.8
    ppi_width: int = 1_024
    ppi_steps: int = 3


QUICK = {
    "nodes": 4_000,
    "mean_degree": 12.0,
    "batch": 128,
    "rounds": 2,
    "ours_per_round": 2,
    "ordinary_per_round": 1,
    "fit_steps": 6,
    "ppi_nodes": 1_000,
    "ppi_degree": 8.0,
    "ppi_width": 64,
}


class Ours:
    """LRGI's step."""

    def __init__(self, table: DenseTable, s: Settings, kind: str = "float32") -> None:
        self.table, self.s, self.kind = table, s, kind
        self.layer = GATLayer(s.width, s.width, s.heads)
        self.layer.reset(randomness.torch_stream(s.seed, "layer"))
        random = randomness.torch_stream(s.seed, "predictors")
        closed = kind == "closed"
        self.predictors: nn.Module = (
            ClosedPredictors(s.ridge) if closed else NetworkPredictors(s.width, s.expansion, random)
        )
        parameters = [*self.layer.parameters(), *self.predictors.parameters()]
        self.count = sum(p.numel() for p in parameters)
        self.optimizer = torch.optim.AdamW(parameters, s.lr, weight_decay=s.weight_decay, fused=True)

    def threads(self) -> AbstractContextManager[object]:
        return lanes()

    def loss(self, block: Block) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.kind == "bf16"):
            local = self.layer(Rows.of(self.table, block), block.hop(1))
            u, v = targets_and_mean(local, block.hop(0))
            return joint_terms(u, v, self.predictors).total(Weights(*self.s.weights))


class Blocks:
    """Batches without end: epoch after epoch."""

    def __init__(self, graph: Graph, s: Settings, batch: int | None = None) -> None:
        size = s.batch if batch is None else batch
        self.batches = Batches(graph, Sampling(size, s.fan_outs), s.seed, layer=1)
        self.number = 0
        self.epoch: Iterator[Block] = self.batches.epoch(0)

    def __next__(self) -> Block:
        for block in self.epoch:
            return block
        self.number += 1
        self.epoch = self.batches.epoch(self.number)
        return next(self)


class Enough(Exception):
    """Ends a fit after the steps that were asked for."""


class Clock(Listener):
    """Seconds between the steps of a fit; the first ones compile and warm up."""

    def __init__(self, steps: int) -> None:
        self.steps, self.times = steps, [time.perf_counter()]

    def step_taken(self, record: StepRecord) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) > self.steps:
            raise Enough

    def summary(self) -> dict[str, float]:
        return _summary(np.diff(self.times)[self.steps // 5 :])


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


def measure(s: Settings) -> dict[str, Any]:
    """Everything, as one record."""
    torch.set_num_threads(s.threads)
    kept = keep_freed_memory()
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    table = _table(graph.num_nodes, s.width, s.seed)
    who: dict[str, Ours | Ordinary] = {kind: Ours(table, s, kind) for kind in OURS}
    counts = {kind: who[kind].count for kind in OURS}  # type: ignore[union-attr]
    ordinary = Ordinary(table, s)
    ordinary.copy_weights(who["float32"].layer, who["float32"].predictors)  # type: ignore[union-attr,arg-type]
    who["ordinary"] = ordinary
    seconds, sizes, rates = _in_turns(who, graph, table, s)
    size = {name: float(n) for name, n in zip(("nodes", "edges", "rows"), np.mean(sizes, 0), strict=True)}
    steps = {name: _parts(times) for name, times in seconds.items()}
    for kind in OURS:
        steps[kind]["fit"] = _steps_of_a_fit(graph, table, s, kind)
    record = {
        "benchmark": "step",
        "settings": asdict(s),
        "machine": describe_machine(),
        "freed_memory_kept": kept,  # process-wide, so for the ordinary way as well
        "batch": {**size, "paper": PAPER},
        "seconds": steps,
        "rates": rates,
        "floors": {kind: floor_of(s, size, counts[kind], rates, kind == "closed") for kind in OURS},
        "ppi": _ppi(s),
    }
    return {**record, "ratios": {when: ratios(record, when) for when in ("median", "best_decile")}}


def _in_turns(
    who: dict[str, Ours | Ordinary], graph: Graph, table: DenseTable, s: Settings
) -> tuple[dict[str, list[list[float]]], list[tuple[int, int, int]], dict[str, float]]:
    blocks = {name: Blocks(graph, s) for name in who}
    seconds: dict[str, list[list[float]]] = {name: [] for name in who}
    sizes: list[tuple[int, int, int]] = []
    rates: dict[str, float] = {}
    for number in range(s.rounds + 1):
        for name, one in who.items():
            with one.threads():
                for _ in range(s.ordinary_per_round if name == "ordinary" else s.ours_per_round):
                    times, block = timed_step(one, blocks[name])
                    if number > 0:  # the first round compiles and warms up
                        seconds[name].append(times)
                        sizes.append((len(block.nodes), len(block.indices), block.ring_ends[1]))
        if number % 4 == 1:
            for name, rate in machine_rates(s, table, sizes[-1][2]).items():
                rates[name] = max(rates.get(name, 0.0), rate)
    return seconds, sizes, rates


def _steps_of_a_fit(graph: Graph, table: DenseTable, s: Settings, kind: str) -> dict[str, float]:
    """As `lrgi fit --preset products` takes them: the next batch is sampled while one is stepped on."""
    plan = preset("products").with_settings(
        width=s.width, batch_size=s.batch, epochs=100, seed=s.seed,
        predictors="closed" if kind == "closed" else "network",
        precision="bf16" if kind == "bf16" else "float32",
    )  # fmt: skip
    clock = Clock(s.fit_steps)
    with suppress(Enough):
        fit_layer(new_layer(plan, 1, s.width), graph, table, plan, 1, journal=Journal(clock))
    return clock.summary()


def _ppi(s: Settings) -> dict[str, Any]:
    """A step on a whole graph of PPI's size at PPI's width, with networks and in closed form."""
    graph = products_training(s.ppi_nodes, s.ppi_degree, seed=s.seed)
    wide = replace(s, width=s.ppi_width)
    table = _table(graph.num_nodes, wide.width, s.seed)
    result: dict[str, Any] = {}
    for name, kind in (("network", "float32"), ("closed", "closed")):
        one, blocks = Ours(table, wide, kind), Blocks(graph, wide, batch=0)
        with one.threads():
            times = [timed_step(one, blocks)[0] for _ in range(s.ppi_steps + 1)][1:]
        result[name] = _parts(times)
    return result


def _table(nodes: int, width: int, seed: int) -> DenseTable:
    rows = empty_table((nodes, width))  # as the table that a fit hands to its next layer
    rows[:] = randomness.stream(seed, "table").standard_normal(rows.shape, dtype=np.float32)
    return DenseTable(rows)


def machine_rates(s: Settings, table: DenseTable, rows: int) -> dict[str, float]:
    """Flops and bytes per second, with the step's threads and at the step's sizes."""
    shapes = {shape for _, shape in shapes_of(s, rows).values()}
    return {
        **product_rates(shapes, s.threads),
        "gather": row_gather_rate(table.array, s.batch * 48, s.threads, s.seed),
        "stream": stream_rate(s.width * s.width * s.expansion, s.threads),
    }


def floor_of(
    s: Settings, size: dict[str, float], parameters: int, rates: dict[str, float], closed: bool
) -> dict[str, Any]:
    """The work of a step and its time at each kind of product's rate."""
    flops = flops_of(s, round(size["rows"]), closed)
    traffic = bytes_of(s, size["nodes"], parameters)
    floors = {kind: floor_seconds(flops, traffic, rates[kind], rates) for kind in ("onednn", "mkl", "tiles")}
    return {"flops": flops, "bytes": traffic, "seconds": {"fastest": min(floors.values()), **floors}}


def ratios(r: dict[str, Any], when: str) -> dict[str, float]:
    """What is demanded, as numbers."""
    step = {name: parts["step"][when] for name, parts in r["seconds"].items()}
    fit = {kind: r["seconds"][kind]["fit"][when] for kind in OURS}
    floor = {kind: r["floors"][kind]["seconds"] for kind in OURS}
    ppi = {name: parts["step"][when] for name, parts in r["ppi"].items()}
    return {
        "step_to_floor": step["float32"] / floor["float32"]["fastest"],
        "step_to_mkl_floor": step["float32"] / floor["float32"]["mkl"],
        "fit_to_floor": fit["float32"] / floor["float32"]["fastest"],
        "ordinary_to_step": step["ordinary"] / step["float32"],
        "float32_to_bf16": step["float32"] / step["bf16"],
        "closed_to_floor": step["closed"] / floor["closed"]["fastest"],
        "closed_to_mkl_floor": step["closed"] / floor["closed"]["mkl"],
        "closed_fit_to_floor": fit["closed"] / floor["closed"]["fastest"],
        "ppi_network_to_closed": ppi["network"] / ppi["closed"],
        **{f"minutes_{kind}": fit[kind] * PAPER["steps"] / 60 for kind in OURS},
    }


def _parts(times: list[list[float]]) -> dict[str, dict[str, float]]:
    """Per part and for the whole step: median and best decile of all steps' seconds."""
    columns = dict(zip(PARTS, np.array(times).T, strict=True)) | {"step": np.sum(times, axis=1)}
    return {part: _summary(values) for part, values in columns.items()}


def _summary(values: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(values)), "best_decile": float(np.quantile(values, 0.1))}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the record here")
    parser.add_argument("--page", type=Path, help="write its tables into this page, between its marks")
    parser.add_argument("--quick", action="store_true", help="a small graph and few steps: does it run?")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args(argv)
    record = measure(Settings(threads=args.threads, **(QUICK if args.quick else {})))
    print(show(record))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    if args.page:
        write_page(args.page, record)
    return record


if __name__ == "__main__":
    main()
