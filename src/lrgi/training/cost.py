"""What a fit will need, said before it starts: a few measured steps, and the sizes of what it keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch

from lrgi import seed as randomness
from lrgi.compute.allocator import empty_table, release_freed_memory
from lrgi.compute.machine import device_called
from lrgi.compute.memory import PeakWatch, resident
from lrgi.compute.threads import lanes
from lrgi.encoder import CHUNK_EDGES, CHUNK_ROWS, SCRATCH_IN_MEMORY
from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.layers.constant import constant_bytes
from lrgi.layers.layer import GraphLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop
from lrgi.sampling.sample import Batches
from lrgi.training.fit import fit_encoder, new_layer
from lrgi.training.inputs import directions_wanted, turns
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.plan import EVERY, WHOLE, FitPlan
from lrgi.training.resolve import planned_steps

Fit = Callable[[Graph, FitPlan, Journal], Any]

STAND_IN_ROWS = 1 << 18  # of a table that is not there yet: as cold as the real one, and not as large
_EMBED_EDGES = 1 << 18
_STEP_LINE, _EVENT_BYTES = 360, 500_000  # of steps.jsonl; of a layer's TensorBoard events


@dataclass(frozen=True)
class StepCost:
    """Means over some measured steps; the seconds are their median."""

    steps: int
    seconds: float
    nodes: float
    edges: float
    memory: int  # bytes held at the most, beside what was there before
    device_memory: int | None = None  # the same on another device, everything there included

    def to_json(self) -> dict[str, Any]:
        """One object."""
        return asdict(self)


@dataclass(frozen=True)
class Needs:
    """What a fit will take. Bytes are anonymous memory; mapped files are the system's cache."""

    steps: tuple[int, ...]  # of every layer, or of the one fit of a stack
    batches: int  # steps of an epoch
    step_seconds: tuple[float, ...]
    embed_seconds: tuple[float, ...]  # between the layers
    process: int  # what is held before, the graph that is fitted on and compiled kernels included
    tables: int  # at the moment of the highest demand
    step: int  # of the largest step, or of a chunk that is embedded
    disk: int
    measured: tuple[StepCost, ...]
    constant_seconds: tuple[float, ...] = ()  # aggregates without parameters, before each layer's first step

    @property
    def memory(self) -> int:
        """Bytes at the most."""
        return self.process + self.tables + self.step

    @property
    def epoch_seconds(self) -> float:
        """Of one pass over all nodes by every layer."""
        return self.batches * sum(self.step_seconds)

    @property
    def seconds(self) -> float:
        """Of the whole fit."""
        fits = sum(n * s for n, s in zip(self.steps, self.step_seconds, strict=True))
        return fits + sum(self.embed_seconds) + sum(self.constant_seconds)

    def to_json(self) -> dict[str, Any]:
        """One object."""
        derived = {"memory": self.memory, "epoch_seconds": self.epoch_seconds, "seconds": self.seconds}
        return {**asdict(self), **derived}


class _Enough(Exception):
    """Leaves a fit from within: its listener has seen what it wanted."""


class _StepClock(Listener):
    """The seconds and sizes of the first steps: `warm` and at least two others."""

    def __init__(self, warm: int, steps: int, seconds: float) -> None:
        self._least, self._steps = warm + 2, warm + steps
        self._deadline = time.perf_counter() + seconds
        self._last = time.perf_counter()
        self.seen: list[tuple[float, int, int]] = []

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Start the clock."""
        self._last = time.perf_counter()

    def step_taken(self, record: StepRecord) -> None:
        """One more; leave when they are enough, or when the time is up."""
        now, block = time.perf_counter(), record.block
        self.seen.append((now - self._last, len(block.nodes), len(block.indices)))
        if len(self.seen) >= self._steps or (len(self.seen) >= self._least and now > self._deadline):
            raise _Enough
        self._last = time.perf_counter()


def measure_steps(
    graph: Graph,
    plan: FitPlan,
    *,
    fit: Fit = fit_encoder,
    steps: int = 8,
    warm: int = 2,
    seconds: float = 60.0,
) -> StepCost:
    """The first steps of a fit of the plan, which is then left: nothing of it remains.

    At most `steps` of them after `warm` others, and no more once the `seconds` are over.
    """
    clock = _StepClock(warm, steps, seconds)
    device = device_called(plan.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    release_freed_memory()  # what a heap holds already would hide what the fit takes
    with PeakWatch() as watch, suppress(_Enough):
        fit(graph, plan, Journal(clock))
    release_freed_memory()
    taken = np.array(clock.seen[min(warm, len(clock.seen) - 1) :])
    return StepCost(
        len(taken),
        float(np.median(taken[:, 0])),
        float(taken[:, 1].mean()),
        float(taken[:, 2].mean()),
        watch.peak.anonymous - watch.before.anonymous,
        torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    )


def needs_of(
    graph: Graph,
    plan: FitPlan,
    *,
    fit: Fit = fit_encoder,
    layerwise: bool = True,
    mapped: bool = False,
    steps: int = 8,
    seconds: float = 2.0,
) -> Needs:
    """What a fit of the plan on all nodes of `graph` (the part that is fitted on) will take.

    `layerwise`: layers are fitted one after the other. `mapped`: tables between them are left on disk.
    Takes about twice `seconds`, and at least three steps of every different layer.
    """
    planned = planned_steps(plan, graph)
    batches = len(Batches(graph, plan.sampling, plan.seed, 1))
    measure = partial(measure_steps, fit=fit, steps=steps, seconds=seconds)
    if not layerwise:
        return _needs_of_a_stack(graph, plan, (planned[0], batches), measure(graph, plan))
    costs = [measure(graph, replace(plan.for_layer(1), layers=1))]
    for number in range(2, plan.layers + 1):
        width = plan.for_layer(number - 1).width
        if number > 2 and width == plan.for_layer(number - 2).width and plan.per_layer == ():
            costs.append(costs[-1])  # the same layer on a table of the same width
            continue
        costs.append(measure(_with_stand_in(graph, width), replace(plan.for_layer(number), layers=1)))
    embeds = [_embed_seconds(graph, plan, number) for number in range(1, plan.layers)]
    held = [_aggregate_bytes(graph, plan, number) for number in range(1, plan.layers + 1)]
    constants = [
        _embed_seconds(graph, plan, n, constant=True)
        for n, size in enumerate(held, 1)
        if size and plan.for_layer(n).layer != "gat"
    ]
    if mapped:  # the steps were measured with their aggregates in memory
        costs = [replace(c, memory=max(0, c.memory - size)) for c, size in zip(costs, held, strict=True)]
    release_freed_memory()
    moments = list(_moments(graph, plan, costs, mapped))
    tables, step = max(moments, key=sum)
    return Needs(
        planned, batches, tuple(c.seconds for c in costs), tuple(embeds), resident().anonymous, tables, step,
        _disk(graph, plan, planned, True) + (max(held) if mapped else 0), tuple(costs), tuple(constants),
    )  # fmt: skip


def _needs_of_a_stack(graph: Graph, plan: FitPlan, planned: tuple[int, int], cost: StepCost) -> Needs:
    steps, batches = planned
    disk = _disk(graph, plan, (steps,), False)
    return Needs((steps,), batches, (cost.seconds,), (), resident().anonymous, 0, cost.memory, disk, (cost,))


def _moments(graph: Graph, plan: FitPlan, costs: list[StepCost], mapped: bool) -> Iterator[tuple[int, int]]:
    """(tables, work) in bytes: while each layer is fitted, and while it embeds."""
    table = 0
    for number, cost in enumerate(costs, 1):
        yield table, cost.memory
        if number == plan.layers:
            return
        own = plan.for_layer(number)
        result = 0 if mapped else 4 * graph.num_nodes * own.width
        yield table + result, _embed_bytes(graph, own)
        table = result


def with_measurement(needs: Needs, whole: Graph, plan: FitPlan, mapped: bool) -> Needs:
    """The same, with what is held while every layer is measured on all nodes at the end."""
    widths = [plan.for_layer(number).width for number in range(1, plan.layers + 1)]
    pairs = max(4 * whole.num_nodes * (a + b) for a, b in zip([0, *widths], widths, strict=False))
    step = max(_embed_bytes(whole, plan.for_layer(number)) for number in range(1, plan.layers + 1))
    disk = max(needs.disk, pairs + _scratch_bytes(whole, plan, max(widths))) if mapped else needs.disk
    tables = 0 if mapped else pairs
    if tables + step <= needs.tables + needs.step:
        return replace(needs, disk=disk)
    return replace(needs, tables=tables, step=step, disk=disk)


def _embed_bytes(graph: Graph, own: FitPlan) -> int:
    """What nodes offer their neighbours, where it stays in memory, and a chunk of rows and edges."""
    offered = 4 * graph.num_nodes * (own.width + 2 * own.heads)
    rows, edges = min(CHUNK_ROWS, graph.num_nodes), min(CHUNK_EDGES, graph.num_edges)
    chunk = 4 * (rows + edges) * own.heads + 4 * 4 * rows * own.width
    return chunk + (offered if 4 * graph.num_nodes * own.width <= SCRATCH_IN_MEMORY else 0)


def _aggregate_bytes(graph: Graph, plan: FitPlan, number: int) -> int:
    """Of the tables that are made for a layer's fit alone: of constants, and of the first inputs, turned."""
    if number == 1:
        layer = new_layer(plan, 1, graph.num_features)
        if not turns(layer, graph.features, plan, 1):
            return constant_bytes(layer, graph.features)
        columns = directions_wanted(graph.num_features, layer.out_dim)
        table = DenseTable(np.zeros((1, columns), np.float32))  # stands for X M, which is held too
        return graph.num_nodes * (4 * columns + constant_bytes(new_layer(plan, 1, columns), table))
    width = plan.for_layer(number - 1).width
    rows = constant_bytes(new_layer(plan, number, width), DenseTable(np.zeros((1, width), np.float32)))
    return rows * graph.num_nodes


def _disk(graph: Graph, plan: FitPlan, steps: tuple[int, ...], layerwise: bool) -> int:
    """The encoder, lines of steps, events, and the tables U_(l) while they are needed."""
    widths = [plan.for_layer(number).width for number in range(1, plan.layers + 1)]
    weights = sum(2 * a * b + 3 * b for a, b in zip([graph.num_features, *widths], widths, strict=False))
    written = 4 * weights + _STEP_LINE * sum(steps) + _EVENT_BYTES * len(steps)
    if not layerwise or plan.layers == 1:
        return written
    pairs = [4 * graph.num_nodes * (a + b) for a, b in zip([0, *widths], widths[:-1], strict=False)]
    return written + max(pairs) + _scratch_bytes(graph, plan, max(widths[:-1]))


def _scratch_bytes(graph: Graph, plan: FitPlan, width: int) -> int:
    """What nodes offer their neighbours, where it is too large for memory."""
    large = 4 * graph.num_nodes * width > SCRATCH_IN_MEMORY
    return 4 * graph.num_nodes * (width + 2 * plan.heads) if large else 0


def _stand_in(rows: int, width: int) -> DenseTable:
    """A table like one that a layer will make."""
    random = randomness.stream(0, "cost", "stand-in")
    return DenseTable(random.standard_normal((rows, width), dtype=np.float32))


def _with_stand_in(graph: Graph, width: int) -> Graph:
    """The graph with other features, for one more layer's steps."""
    if graph.num_nodes <= STAND_IN_ROWS:
        table = _stand_in(graph.num_nodes, width)
    else:
        table = DenseTable(empty_table((graph.num_nodes, width)))  # zeros that are only read take no memory
    return Graph.trusted(graph.indptr, graph.indices, table, offsets=graph.offsets, name=graph.name)


def _embed_seconds(graph: Graph, plan: FitPlan, number: int, *, constant: bool = False) -> float:
    """Of the whole graph by a layer or its constant, from one range of rows and a table of STAND_IN_ROWS."""
    in_dim = graph.num_features if number == 1 else plan.for_layer(number - 1).width
    layer: GraphLayer = new_layer(plan, number, in_dim)
    if constant:
        layer = layer.constant() or layer
    rows = min(graph.num_nodes, STAND_IN_ROWS)
    table = graph.features.slice(0, rows) if number == 1 else _stand_in(rows, in_dim)
    stop = int(np.searchsorted(graph.indptr[: rows + 1], _EMBED_EDGES, side="right")) - 1
    stop = max(1, min(stop, rows))
    edges = int(graph.indptr[stop])
    indices = np.asarray(graph.indices[:edges]) % rows
    hop = Hop(graph.indptr[: stop + 1], indices, rows, 0, graph.indptr[: rows + 1], None)
    device = str(layer.device)
    times: tuple[list[float], list[float]] = ([], [])
    with torch.no_grad(), lanes():
        for _ in range(3):
            begun = time.perf_counter()
            sources = layer.sources(Rows(table, None, device))
            middle = time.perf_counter()
            layer.from_sources(sources, Rows(table.slice(0, stop), None, device), hop).cpu()
            times[0].append(middle - begun)
            times[1].append(time.perf_counter() - middle)
    per_row, per_edge = median(times[0]) / rows, median(times[1]) / (edges + stop)
    return per_row * graph.num_nodes + per_edge * (graph.num_edges + graph.num_nodes)


def refuse_what_cannot_be(needs: Needs, plan: FitPlan, memory: int | None, disk: int) -> None:
    """InputError where a fit needs more than these bytes, with the setting that would help most."""
    if memory is not None and needs.memory > memory:
        raise InputError(
            f"memory for this fit must be at most {gib(memory)}, got a need of about {gib(needs.memory)}; "
            + remedy(needs, plan, memory)
        )
    if needs.disk > disk:
        raise InputError(
            f"disk space for this fit must be at most the {gib(disk)} that are free, got a need of about "
            f"{gib(needs.disk)}; free some, or write to another disk with --out"
        )


def remedy(needs: Needs, plan: FitPlan, memory: int) -> str:
    """Which setting to change so that the fit stays within `memory` bytes."""
    if needs.tables and needs.process + needs.step <= memory:
        return "leave the tables between the layers on disk with --memory-gib"
    if needs.process > memory:
        return (
            f"raise the bound: the libraries and the nodes that are fitted on take {gib(needs.process)}, "
            "less where the graph is a directory of `lrgi import`, which is mapped"
        )
    room = (memory - needs.process - needs.tables) / max(needs.step, 1)
    if plan.batch_size == WHOLE:
        return "take sampled batches with --batch-size 512 --neighbours 10 --next-neighbours 5"
    if plan.neighbours == EVERY:
        return "sample neighbours with --neighbours 10 --next-neighbours 5"
    if plan.batch_size * room >= 64:
        return f"lower --batch-size to {2 ** int(np.log2(plan.batch_size * room))}"
    return f"lower --width to {plan.width // 2}"


def gib(count: float) -> str:
    """Bytes in words."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**28 else f"{count / 2**20:.0f} MiB"
