"""The whole paper configuration on a graph of ogbn-products' size: can two cores do it, in what memory?

For each kind of predictors: what `lrgi plan` says beforehand, a fit of some of the 100 epochs (3 layers, the
paper's products setting, on the training subgraph) with the tables between layers on disk, and the embedding
of all nodes to disk. Every part runs in a process of its own, whose anonymous memory is watched; pages of
mapped files are the system's cache. The machine's rate of reading random rows is measured in the same run.

    lrgi generate products --out products
    python benchmarks/whole_graph.py --graph products --json benchmarks/results/whole_graph.json
    python benchmarks/scale_page.py
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import embed
import numpy as np
import torch
from machine import row_gather_rate
from question import Demand, Question

from lrgi.compute.memory import PeakWatch
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.products import write_products
from lrgi.graph.store import open_graph
from lrgi.interop.export import ExportPlan, export_embedding
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.training.cost import needs_of
from lrgi.training.journal import Listener, StepRecord
from lrgi.training.plan import FitPlan
from lrgi.training.presets import preset
from lrgi.training.resources import Resources
from lrgi.training.run import fit_run, open_run

EPOCHS = 100  # of the paper
BOUND = 4e9  # bytes
WARM = 10  # steps
MINUTES = {"network": 60, "closed": 30}  # demanded of 100 epochs


@dataclass(frozen=True)
class Settings:
    """Everything else is the paper's."""

    graph: str = ""  # a directory of `lrgi generate products`; by default one is drawn at `scale`
    scale: float = 1.0
    kinds: tuple[str, ...] = ("closed", "network")
    epochs: int = 1
    memory_gib: float = 3.5
    threads: int = 2
    shared: int = 0  # 1: the machine had other work to do; the record says so
    seed: int = 0


QUICK = {"scale": 0.002, "kinds": ("closed",)}


def measure(s: Settings) -> dict[str, Any]:
    """Every kind in turn."""
    rows = {}
    with _place(s) as (graph, scratch):
        gather = _alone(gather_rate, s, open_graph(graph).num_nodes)
        for kind in s.kinds:
            run, out = scratch / f"run-{kind}", scratch / f"embedding-{kind}"
            row = {
                "plan": _alone(planned, s, kind, graph),
                "fit": _alone(fitted, s, kind, graph, run),
                "embed": _alone(embedded, s, graph, run, out),
            }
            shutil.rmtree(out)
            rows[kind] = {**row, **_derived(row, s)}
    ratios: dict[str, float] = {}
    for kind, row in rows.items():
        ratios |= {
            f"{kind}_minutes_to_demanded": row["seconds_of_all_epochs"] / 60 / MINUTES[kind],
            f"{kind}_memory_to_4_gb": max(row[part]["memory_bytes"] for part in ("fit", "embed")) / BOUND,
            f"{kind}_embedding_to_gather_rate": row["embed"]["bytes_per_second"] / gather,
            f"{kind}_memory_foreseen_to_seen": row["plan"]["memory"] / row["fit"]["memory_bytes"],
        }
    load = round(os.getloadavg()[0], 1)
    return {"rows": rows, "gather_bytes_per_second": gather, "load_average_at_end": load, "ratios": ratios}


@contextmanager
def _place(s: Settings) -> Iterator[tuple[Path, Path]]:
    """The graph, and a folder beside it that is gone afterwards."""
    beside = Path(s.graph).absolute().parent if s.graph else None
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        if s.graph:
            yield Path(s.graph), Path(folder)
            return
        write_products(Path(folder) / "products", s.scale, s.seed)
        yield Path(folder) / "products", Path(folder)


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def plan_of(s: Settings, kind: str) -> FitPlan:
    return preset("products").with_settings(predictors=kind, epochs=s.epochs, seed=s.seed)


def planned(s: Settings, kind: str, graph: Path) -> dict[str, Any]:
    """As `lrgi plan` does it."""
    torch.set_num_threads(s.threads)
    seen, _ = training_subgraph(open_graph(graph))
    needs = needs_of(seen, plan_of(s, kind), mapped=True, steps=12, seconds=4.0)
    return {
        "memory": needs.memory, "disk": needs.disk, "seconds": needs.seconds,
        "step_seconds": list(needs.step_seconds),
    }  # fmt: skip


class _Clock(Listener):
    """Seconds of every step by layer."""

    def __init__(self) -> None:
        self.seconds: list[list[float]] = []

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        self.seconds.append([])
        self._last = time.perf_counter()

    def step_taken(self, record: StepRecord) -> None:
        now = time.perf_counter()
        self.seconds[-1].append(now - self._last)
        self._last = now


def fitted(s: Settings, kind: str, graph: Path, run: Path) -> dict[str, Any]:
    """As `lrgi fit --memory-gib` does it."""
    torch.set_num_threads(s.threads)
    clock, begun = _Clock(), time.perf_counter()
    with PeakWatch() as watch:
        done = fit_run(
            open_graph(graph), plan_of(s, kind), run, listeners=[clock],
            resources=Resources(memory_gib=s.memory_gib),
        )  # fmt: skip
    seconds = time.perf_counter() - begun
    steps = [len(times) for times in clock.seconds]
    return {
        "seconds": seconds,
        "steps": steps,
        "median_step_seconds": [float(np.median(times)) for times in clock.seconds],
        "mean_step_seconds": [float(np.mean(times[WARM:] or times)) for times in clock.seconds],
        "stepping_seconds": sum(map(sum, clock.seconds)),
        "memory_bytes": watch.peak.anonymous,
        "layers": done.record["layers"],
    }


def embedded(s: Settings, graph: Path, run: Path, out: Path) -> dict[str, Any]:
    """As `lrgi embed` does it."""
    torch.set_num_threads(s.threads)
    whole, encoder = open_graph(graph), open_run(run).encoder
    moments: list[float] = []
    with PeakWatch() as watch:
        manifest = export_embedding(
            encoder, whole, out, ExportPlan(), tell=lambda text: moments.append(time.perf_counter())
        )
        moments.append(time.perf_counter())
    settings = embed.Settings(width=encoder.widths[-1], heads=preset("products").heads)
    moved = sum(embed.bytes_of("gat", settings, whole.num_nodes, whole.num_edges).values())
    layers = np.diff(moments).tolist()  # the last includes writing the rows out as an array
    return {
        "nodes": whole.num_nodes, "edges": whole.num_edges, "columns": manifest["columns"],
        "seconds": sum(layers), "layer_seconds": layers,
        "bytes_per_second": moved * len(layers) / sum(layers), "memory_bytes": watch.peak.anonymous,
    }  # fmt: skip


def gather_rate(s: Settings, nodes: int) -> float:
    """Of rows as wide as an embedding's, from a table of as many."""
    torch.set_num_threads(s.threads)
    table = embed.random_table(nodes, preset("products").width, s.seed)
    return row_gather_rate(table.array, 1 << 17, s.threads, s.seed)


def _derived(row: dict[str, Any], s: Settings) -> dict[str, float]:
    """All epochs: their steps at the mean of those taken, and once all that is not a step."""
    fit = row["fit"]
    epoch = sum(n * t for n, t in zip(fit["steps"], fit["mean_step_seconds"], strict=True)) / s.epochs
    return {"seconds_of_all_epochs": epoch * EPOCHS + fit["seconds"] - fit["stepping_seconds"]}


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    m, s = record.measures, record.settings
    columns = (
        Column("predictors", text=True), Column("ms a step"), Column("fit"), Column("100 epochs"),
        Column("fit's memory, foreseen"), Column("fit's memory"), Column("embedding"),
        Column("embedding's memory"), Column("GB moved per second"),
    )  # fmt: skip
    rows = []
    for kind, row in m["rows"].items():
        fit, told, vectors = row["fit"], row["plan"], row["embed"]
        steps = " / ".join(f"{1000 * seconds:.1f}" for seconds in fit["mean_step_seconds"])
        rows.append(
            (
                kind, steps, f"{fit['seconds']:.0f} s", f"{row['seconds_of_all_epochs'] / 60:.0f} min",
                f"{told['memory'] / 1e9:.2f} GB", f"{fit['memory_bytes'] / 1e9:.2f} GB",
                f"{vectors['seconds']:.0f} s", f"{vectors['memory_bytes'] / 1e9:.2f} GB",
                f"{vectors['bytes_per_second'] / 1e9:.1f}",
            )
        )  # fmt: skip
    one = next(iter(m["rows"].values()))
    busy = f" The machine was shared (load {m['load_average_at_end']:g})." if s["shared"] else ""
    how = (
        f"{one['embed']['nodes']:,} nodes, {one['embed']['edges']:,} directed edges; "
        f"{sum(one['fit']['steps']):,} steps, {s['epochs']} of {EPOCHS} epochs of each of "
        f"{len(one['fit']['steps'])} layers, {s['threads']} threads. Milliseconds of a step are means "
        f"by layer without the first {WARM}; 100 epochs are these times all of their steps, and the rest of "
        "the fit. Memory is the highest anonymous memory of the process, Python and its libraries included. "
        "Embedding: all layers, all nodes, written to disk. The machine reads random rows at "
        f"{m['gather_bytes_per_second'] / 1e9:.1f} GB per second.{busy}"
    )
    return columns, rows, how


QUESTION = Question(
    name="whole_graph",
    title="The whole graph on two cores",
    settings=Settings,
    measure=measure,
    table=table,
    better={
        f"{kind}_{what}": better
        for kind in MINUTES
        for what, better in (
            ("minutes_to_demanded", "low"),
            ("memory_to_4_gb", "low"),
            ("embedding_to_gather_rate", "high"),
            ("memory_foreseen_to_seen", "low"),
        )
    },
    quick=QUICK,
    short={"scale": 0.05},
    demands={
        f"{kind}_{what}": demand
        for kind in MINUTES
        for what, demand in (
            ("minutes_to_demanded", Demand(1, "low")),
            ("memory_to_4_gb", Demand(1, "low")),
            ("embedding_to_gather_rate", Demand(0.5, "high")),
        )
    },
)

if __name__ == "__main__":
    QUESTION.main()
