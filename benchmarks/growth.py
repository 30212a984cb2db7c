"""How does the time of a step grow: with B, D, S_L, depth, and the size of the graph?

One setting is varied at a time, the others are the paper's for products. A power law time = c x^p is fitted
to each series by least squares of the logarithms; p is its exponent.

    python benchmarks/growth.py [--graph FOLDER] --json benchmarks/results/growth.json

FOLDER is one of `lrgi generate products --out FOLDER`: with it, the largest graph is of ogbn-products' size.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embed import random_table
from question import Question

from lrgi.graph.graph import Graph
from lrgi.graph.products import write_products
from lrgi.graph.store import open_graph
from lrgi.graph.synthetic import products_training
from lrgi.report.figures import Figure, Line, Panel
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.training.cost import measure_steps
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.plan import FitPlan
from lrgi.training.presets import preset

TITLES = {"batch": "targets per batch, B", "width": "width, D", "neighbours": "neighbours, S_L",
          "depth": "layers, L", "nodes": "nodes, N"}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What is varied, and how long to measure."""

    nodes: int = 196_615
    mean_degree: float = 57.0
    batches: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    widths: tuple[int, ...] = (32, 64, 128, 256, 512)
    neighbours: tuple[int, ...] = (3, 5, 10, 20, 40)
    depths: tuple[int, ...] = (1, 3, 5, 10, 15)
    depth_nodes: int = 5_000
    scales: tuple[float, ...] = (0.00409, 0.02, 0.1)
    graph: str = ""
    predictors: tuple[str, ...] = ("network",)
    threads: int = 2
    steps: int = 10
    rounds: int = 1
    seed: int = 0


QUICK = {"nodes": 2_000, "mean_degree": 12.0, "batches": (64, 128), "widths": (16, 32), "neighbours": (2, 4),
         "depths": (1, 2), "depth_nodes": 1_000, "scales": (0.002, 0.003), "steps": 2,
         "predictors": ("closed",), "rounds": 1}  # fmt: skip


def measure(s: Settings) -> dict[str, Any]:
    """Seconds per step of every series, and their exponents."""
    torch.set_num_threads(s.threads)
    series: dict[str, dict[str, list[list[float]]]] = {p: {} for p in s.predictors}
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    for predictors, found in series.items():
        base = preset("products").with_settings(layers=1, fit_on="all", seed=s.seed, predictors=predictors)
        plans = {
            "batch": [(b, base.with_settings(batch_size=b)) for b in s.batches],
            "width": [(d, base.with_settings(width=d)) for d in s.widths],
            "neighbours": [(k, base.with_settings(neighbours=k)) for k in s.neighbours],
        }
        for name, points in plans.items():
            found[name] = [[x, seconds_of(graph, plan, s)] for x, plan in points]
        found["depth"] = by_depth(s, base)
        found["nodes"] = []
    del graph
    for whole in graphs_by_size(s):
        for predictors, found in series.items():
            plan = preset("products").with_settings(layers=1, fit_on="all", predictors=predictors)
            found["nodes"].append([whole.num_nodes, seconds_of(whole, plan, s)])
    exponents = {p: {name: exponent(points) for name, points in f.items()} for p, f in series.items()}
    ratios = {
        f"{predictors}_step_at_largest_{name}": points[-1][1] / points[0][1]
        for predictors, found in series.items()
        for name, points in found.items()
    }
    return {"series": series, "exponents": exponents, "ratios": ratios}


def seconds_of(graph: Graph, plan: FitPlan, s: Settings) -> float:
    """The median step's, of the quicker round."""
    return min(measure_steps(graph, plan, steps=s.steps, seconds=1.0).seconds for _ in range(s.rounds))


class _Steps(Listener):
    """The seconds of every step but each layer's first, which waits for its batch."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        self._last = 0.0

    def step_taken(self, record: StepRecord) -> None:
        now = time.perf_counter()
        self.seconds += [now - self._last] if self._last else []
        self._last = now


def by_depth(s: Settings, base: FitPlan) -> list[list[float]]:
    """Seconds per step over all layers of a fit of L layers; features as wide as a layer's output."""
    small = products_training(s.depth_nodes, s.mean_degree, features=base.width, seed=s.seed)
    found = []
    for depth in s.depths:
        heard = _Steps()
        fit_encoder(small, base.with_settings(layers=depth, epochs=0, updates=1), Journal(heard))
        found.append([depth, float(np.median(heard.seconds))])
    return found


def graphs_by_size(s: Settings) -> Iterator[Graph]:
    """Graphs of ogbn-products' shape, each larger than the one before, with a dense table in memory."""
    with tempfile.TemporaryDirectory() as folder:
        for scale in s.scales:
            path = Path(folder) / str(scale)
            write_products(path, scale, s.seed)
            yield in_memory(open_graph(path), s)
    if s.graph:
        yield in_memory(open_graph(s.graph), s)


def in_memory(graph: Graph, s: Settings) -> Graph:
    features = random_table(graph.num_nodes, preset("products").width, s.seed)
    indptr, indices = np.array(graph.indptr), np.array(graph.indices)
    return Graph.trusted(indptr, indices, features, offsets=graph.offsets, name=graph.name)


def exponent(points: list[list[float]]) -> float:
    """p of time = c x^p."""
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def figure_of(record: RunRecord) -> Figure:
    """A panel per setting that is varied, a line per kind of predictors."""
    series, exponents = record.measures["series"], record.measures["exponents"]
    panels = tuple(
        Panel(
            TITLES[name], TITLES[name], "ms per step",
            tuple(
                Line(f"{p} predictors, exponent {exponents[p][name]:.2f}", *_axes(series[p][name]))
                for p in series
            ),
            log_x=True, log_y=True,
        )
        for name in TITLES
    )  # fmt: skip
    return Figure("Time of a step", panels)


def _axes(points: list[list[float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(float(x) for x, _ in points), tuple(1e3 * y for _, y in points)


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    columns = (
        Column("varied", text=True), Column("predictors", text=True), Column("from"), Column("to"),
        Column("ms per step"), Column("exponent", digits=2),
    )  # fmt: skip
    rows = []
    for name, title in TITLES.items():
        for predictors, found in record.measures["series"].items():
            points = found[name]
            steps = " / ".join(f"{1e3 * y:.1f}" for _, y in points)
            power = record.measures["exponents"][predictors][name]
            rows.append((title, predictors, f"{points[0][0]:,}", f"{points[-1][0]:,}", steps, power))
    s = record.settings
    how = (
        f"One setting varied, the others the paper's for products, on a graph of {s['nodes']:,} nodes "
        f"(depth: {s['depth_nodes']:,}; sizes: graphs of ogbn-products' shape), {s['threads']} threads."
    )
    return columns, rows, how


def _better() -> Mapping[str, Any]:
    return {f"{p}_step_at_largest_{name}": "low" for p in ("network", "closed") for name in TITLES}


QUESTION = Question(
    name="growth",
    title="Growth",
    settings=Settings,
    measure=measure,
    table=table,
    better=_better(),
    quick=QUICK,
    short={"batches": (128, 512), "widths": (64, 128), "neighbours": (5, 20), "depths": (1, 5),
           "scales": (0.00409, 0.05)},
)  # fmt: skip

if __name__ == "__main__":
    QUESTION.main()
