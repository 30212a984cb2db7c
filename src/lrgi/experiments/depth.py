"""The fits behind two of the paper's figures: RGI and LRGI over depth and width on a graph of many graphs.

One record per point: probe score, MAD of every layer, peak memory of the fit, or what it would have taken
where that is more than the stated limit. Settings: costs/depth.toml, much shorter fits than the paper's.
"""

from __future__ import annotations

import os
import time
import tomllib
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from lrgi.baselines.methods import fit_method
from lrgi.compute.machine import device_called, hardware, versions
from lrgi.compute.memory import PeakWatch
from lrgi.experiments.registry import Request
from lrgi.experiments.workers import work_through
from lrgi.graph.assign import split_by_graph
from lrgi.graph.graph import Graph
from lrgi.graph.store import open_graph
from lrgi.interop.npz import read_npz
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.probe.smoothing import mad
from lrgi.report.record import RunRecord, records_of, save_record
from lrgi.training.cost import measure_steps
from lrgi.training.plan import FitPlan

EXPERIMENT = "figure:depth-width"
_GIB = 2**30


class Point(NamedTuple):
    """One fit."""

    method: str
    depth: int
    width: int

    @property
    def name(self) -> str:
        """Its cell."""
        return f"{self.method}-l{self.depth}-d{self.width}"


@cache
def settings() -> dict[str, Any]:
    """Those of costs/depth.toml."""
    return tomllib.loads((Path(__file__).parent / "costs" / "depth.toml").read_text(encoding="utf-8"))


def points(widths: tuple[int, ...] = ()) -> list[Point]:
    """All of them, the cheap ones first."""
    given = settings()
    found = [Point(m, d, w) for m in given["methods"] for d in given["depths"] for w in given["widths"]]
    chosen = [point for point in found if not widths or point.width in widths]
    return sorted(chosen, key=lambda point: point.depth * point.width**2)


def plan_of(point: Point, device: str = "cpu") -> FitPlan:
    """The settings of a fit."""
    return FitPlan(layers=point.depth, width=point.width, device=device, **settings()["plan"])


def identity(point: Point, graph: str, device: str) -> dict[str, Any]:
    """What decides a point, besides the machine."""
    given = settings()
    return {"graph": graph, "method": point.method, "plan": plan_of(point, device).to_mapping(),
            "memory_limit_gib": given["memory_limit_gib"], "probe_epochs": given["probe_epochs"]}  # fmt: skip


def found_graph(data: Path) -> tuple[str, Path] | None:
    """The first of the graphs that is there."""
    for name in settings()["graphs"]:
        for path in (data / name, data / f"{name}.npz"):
            if path.exists():
                return name, path
    return None


def measure_points(chosen: list[Point], request: Request) -> dict[str, str]:
    """Fit those that are not on record; returns why the others are missing."""
    found = found_graph(request.data)
    if found is None:
        wanted = " or ".join(settings()["graphs"])
        return {point.name: f"no graph {wanted} in {request.data}" for point in chosen}
    name, path = found
    on_record = records_of(request.results, EXPERIMENT)
    tasks, missing = [], {}
    for point in chosen:
        known = on_record.get(point.name)
        asked = identity(point, name, request.device)
        if not request.again and known and _same_but_device(known.settings, asked):
            continue
        missing[point.name] = "the budget was used up"
        tasks.append((point, (point, path, request.device)))
    threads = max(1, len(os.sched_getaffinity(0)) // request.jobs)
    deadline = request.budget_minutes and time.monotonic() + 60 * request.budget_minutes
    for done in work_through(measure_point, tasks, jobs=request.jobs, threads=threads, deadline=deadline):
        if done.problem is not None:
            missing[done.key.name] = done.problem
            continue
        made = RunRecord(
            EXPERIMENT, done.key.name, identity(done.key, name, request.device), command=request.command,
            **done.value,
        )  # fmt: skip
        save_record(made, request.results)
        del missing[done.key.name]
        request.tell(f"{done.key.name}: {_in_words(made)}")
    return missing


def measure_point(point: Point, path: Path, device: str) -> dict[str, Any]:
    """What a worker does."""
    limit, graph = settings()["memory_limit_gib"] * _GIB, _graph(path)
    views, plan = Views.of(graph, "train"), plan_of(point, device)
    assert views.seen is not None
    fit = partial(fit_method, point.method)
    for _ in range(2):  # the first time kernels are compiled, which takes memory too
        few = measure_steps(views.seen, plan, fit=fit, steps=2, warm=1, seconds=0.0)
    needed = few.device_memory or few.memory
    measures: dict[str, Any] = {"step_seconds": few.seconds, "needed_bytes": needed}
    at = {"versions": versions(), "hardware": {**hardware(), "device": device}}
    if needed > limit:
        return {"measures": {**measures, "out_of_memory": True}, **at}
    if device_called(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    with PeakWatch() as watch:
        encoder = fit(views.seen, plan)
    measures["fit_seconds"] = time.perf_counter() - begun
    measures["peak_bytes"] = (
        torch.cuda.max_memory_allocated()
        if device_called(device).type == "cuda"
        else watch.peak.anonymous - watch.before.anonymous
    )
    distances = []
    for table in encoder.tables(graph):
        distances.append(mad(table, graph, max_edges=200_000))
    plan_of_probe = ProbePlan(epochs=settings()["probe_epochs"], seeds=(0,))
    result = probe_table(views, table, encoder.embed(views.seen), plan_of_probe)
    measures |= {"test": result.test_mean, "validation": result.validation_mean, "mad": distances}
    return {"measures": {**measures, "out_of_memory": False}, **at}


@lru_cache(maxsize=1)
def _graph(path: Path) -> Graph:
    graph = read_npz(path) if path.is_file() else open_graph(path)
    return graph if graph.split is not None else replace(graph, split=split_by_graph(graph.offsets, 0))


def _same_but_device(known: Any, wanted: dict[str, Any]) -> bool:
    """A point on record stands, wherever it was fitted."""
    without = [{**dict(one), "plan": {**one["plan"], "device": ""}} for one in (known, wanted)]
    return without[0] == without[1]


def _in_words(record: RunRecord) -> str:
    m = record.measures
    if m["out_of_memory"]:
        return f"out of memory: {m['needed_bytes'] / _GIB:.2f} GiB"
    return f"{m['test']:.3f}, {m['peak_bytes'] / _GIB:.2f} GiB, {m['fit_seconds']:.1f} s"
