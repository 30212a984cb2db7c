"""The points of two of the paper's figures: RGI and LRGI over depth and width on a graph of many graphs.

One record per point: probe score, MAD of every layer, peak memory of the fit, or what it would have taken
where that is more than the stated limit. Settings: costs/depth.toml, much shorter fits than the paper's.
A layer-wise fit begins with all the shallower ones, so one fit gives every depth of a width.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lrgi.baselines.methods import METHODS
from lrgi.experiments.depth_fits import Fit, measure_fit
from lrgi.experiments.registry import Request
from lrgi.experiments.workers import work_through
from lrgi.report.record import RunRecord, records_of, save_record
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


def fits_for(asked: list[Point], device: str = "cpu") -> list[tuple[tuple[Point, ...], Fit]]:
    """Fits, and the points of each: every depth of a width, where layers are fitted one after the other."""
    together: dict[Any, list[Point]] = {}
    for point in asked:
        layerwise = METHODS[point.method].fits == "layers"
        together.setdefault((point.method, point.width, None if layerwise else point.depth), []).append(point)
    limit, epochs = int(settings()["memory_limit_gib"] * _GIB), settings()["probe_epochs"]
    found = []
    for group in together.values():
        deepest, depths = max(group, key=lambda point: point.depth), tuple(point.depth for point in group)
        plan = plan_of(deepest, device)
        found.append((tuple(group), Fit(deepest.method, plan, depths, limit, epochs)))
    return found


def measure_points(chosen: list[Point], request: Request) -> dict[str, str]:
    """Fit those that are not on record; returns why the others are missing."""
    found = found_graph(request.data)
    if found is None:
        wanted = " or ".join(settings()["graphs"])
        return {point.name: f"no graph {wanted} in {request.data}" for point in chosen}
    name, path = found
    on_record = records_of(request.results, EXPERIMENT)
    asked = []
    for point in chosen:
        known = on_record.get(point.name)
        own = identity(point, name, request.device)
        if request.again or not known or not _stands(known, own):
            asked.append(point)
    missing = {point.name: "the budget was used up" for point in asked}
    tasks = [(group, (fit, path)) for group, fit in fits_for(asked, request.device)]
    threads = max(1, len(os.sched_getaffinity(0)) // request.jobs)
    deadline = request.budget_minutes and time.monotonic() + 60 * request.budget_minutes
    for done in work_through(measure_fit, tasks, jobs=request.jobs, threads=threads, deadline=deadline):
        for point in done.key:
            if done.problem is not None:
                missing[point.name] = done.problem
                continue
            settings_of = identity(point, name, request.device)
            found = done.value[point.depth]
            made = RunRecord(EXPERIMENT, point.name, settings_of, command=request.command, **found)
            save_record(made, request.results)
            del missing[point.name]
            request.tell(f"{point.name}: {_in_words(made)}")
    return missing


def shown_score(measures: Mapping[str, Any]) -> tuple[str, float]:
    """Name and test value: the area under the ROC curve where it is there, as shares of classes differ."""
    if "roc_auc" in measures:
        return "area under the ROC curve", measures["roc_auc"]["test"]
    return {"accuracy": "accuracy", "micro_f1": "micro-F1"}[measures["metric"]], measures["test"]


def _stands(known: RunRecord, asked: dict[str, Any]) -> bool:
    """A point on record stands wherever it was fitted, and under any limit that would have done the same."""
    one, other = (
        {**settings_of, "plan": {**settings_of["plan"], "device": ""}, "memory_limit_gib": 0}
        for settings_of in (dict(known.settings), asked)
    )
    limit, m = asked["memory_limit_gib"] * _GIB, known.measures
    held = m["needed_bytes"] > limit if m["out_of_memory"] else m["peak_bytes"] <= limit
    return one == other and (held or known.settings["memory_limit_gib"] == asked["memory_limit_gib"])


def _in_words(record: RunRecord) -> str:
    m = record.measures
    if m["out_of_memory"]:
        return f"out of memory: {m['needed_bytes'] / _GIB:.2f} GiB"
    return f"{shown_score(m)[1]:.3f}, {m['peak_bytes'] / _GIB:.2f} GiB, {m['fit_seconds']:.1f} s"
