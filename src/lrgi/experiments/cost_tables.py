"""Tables of what a fit costs: a few measured steps of the paper's products setting, extrapolated.

The graph is ogbn-products' training part if it lies in the data folder (`ogbn-products`, or `products` as
`lrgi generate products` makes it), otherwise one drawn in its shape; the record says which.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from lrgi.baselines.methods import METHODS, fit_method
from lrgi.compute.machine import hardware, versions
from lrgi.errors import FormatError
from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import Grid, details, machines
from lrgi.experiments.workers import work_through
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.store import open_graph
from lrgi.graph.synthetic import products_training
from lrgi.report.record import RunRecord, records_of, save_record
from lrgi.report.tables import Column
from lrgi.training.cost import needs_of
from lrgi.training.presets import preset

FOLDER = Path(__file__).parent / "costs"
GRAPHS = ("ogbn-products", "products")
DRAWN = "products-training"  # drawn here, where neither is there
STEPS, SECONDS = 24, 20.0  # of every different layer, at the most


@dataclass(frozen=True)
class CostCell:
    """A row: what is fitted, and what the paper says of it. G-BT has two `copies` of a batch."""

    name: str
    title: str
    method: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    copies: int = 1
    paper: Mapping[str, float] = field(default_factory=dict)
    remarks: str = ""

    def identity(self, graph: str, device: str) -> dict[str, Any]:
        """What decides its numbers, besides the machine."""
        plan = preset("products").with_settings(**self.plan).to_mapping()
        return {"graph": graph, "method": self.method, "plan": {**plan, "device": device},
                "copies": self.copies, "steps": STEPS}  # fmt: skip


@dataclass(frozen=True)
class CostTable:
    """One of the paper's tables of cost."""

    name: str
    title: str
    source: str
    cells: tuple[CostCell, ...]

    @property
    def experiment(self) -> str:
        """Its name in records."""
        return f"table:{self.name}"

    def reproduce(self, request: Request) -> Outcome:
        """Measure what is asked for and not on record yet."""
        missing = self._measure(request)
        records = records_of(request.results, self.experiment)
        grid = self.grid(records)
        rows = {name: {"measures": r.measures, "settings": r.settings} for name, r in records.items()}
        return Outcome(f"{grid.plain()}\n\n{self.how(records)}", rows, missing)

    def blocks(self, results: Path) -> dict[str, str]:
        """The table as Markdown and LaTeX."""
        records = records_of(results, self.experiment)
        grid = self.grid(records)
        text = f"{grid.markdown()}\n\n{self.how(records)}\n\n{details('As LaTeX', grid.latex(), 'latex')}"
        return {self.experiment: text}

    def grid(self, records: Mapping[str, RunRecord]) -> Grid:
        """A row per cell, the paper's figures beside ours."""
        columns = (
            Column("", text=True), Column("nodes, paper"), Column("nodes"), Column("edges, paper"),
            Column("edges"), Column("100 epochs, paper"), Column("100 epochs"), Column("a step"),
            Column("steps measured"), Column("memory"),
        )  # fmt: skip
        return Grid(columns, tuple(_row(cell, records.get(cell.name)) for cell in self.cells))

    def how(self, records: Mapping[str, RunRecord]) -> str:
        """How to read it."""
        graphs = ", ".join(sorted({str(record.settings["graph"]) for record in records.values()}))
        return (
            f"Paper: {self.source}. Ours: its products setting on the training part of {graphs or '-'}; "
            "nodes and edges are means over measured batches; the time is the median step times all steps of "
            "100 epochs (of three layers and the embedding between them for LRGI), from the share of steps "
            "that was measured. Memory: the fit's peak beside the page cache, the graph included. "
            f"Measured on: {machines(records)}."
        )

    def _measure(self, request: Request) -> dict[str, str]:
        graph = next((name for name in GRAPHS if (request.data / name).is_dir()), DRAWN)
        place = None if graph == DRAWN else request.data / graph
        on_record = records_of(request.results, self.experiment)
        tasks, missing = [], {}
        for cell in self.cells:
            if request.methods and not {cell.name, cell.method} & set(request.methods):
                continue
            known = on_record.get(cell.name)
            if not request.again and known and known.settings == cell.identity(graph, request.device):
                continue
            missing[cell.name] = "the budget was used up"
            tasks.append((cell, (cell, place, request.device)))
        threads = max(1, len(os.sched_getaffinity(0)) // request.jobs)
        deadline = request.budget_minutes and time.monotonic() + 60 * request.budget_minutes
        for done in work_through(measure_cell, tasks, jobs=request.jobs, threads=threads, deadline=deadline):
            if done.problem is not None:
                missing[done.key.name] = done.problem
                continue
            settings = done.key.identity(graph, request.device)
            made = RunRecord(self.experiment, done.key.name, settings, command=request.command, **done.value)
            save_record(made, request.results)
            del missing[done.key.name]
            request.tell(f"{done.key.name}: {hours(made.measures['seconds'])} for 100 epochs")
        return missing


@cache
def cost_table(name: str) -> CostTable:
    """The table of that name, from its file."""
    path = FOLDER / f"{name}.toml"
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        cells = tuple(CostCell(name=cell, **values) for cell, values in given["cells"].items())
        return CostTable(name, given["title"], given["source"], cells)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: a table of costs must be complete, got {error}; correct it") from error


def measure_cell(cell: CostCell, place: Path | None, device: str) -> dict[str, Any]:
    """What a worker does: the costs of one cell, with the machine they were measured on."""
    graph = training_part(place)
    plan = preset("products").with_settings(**cell.plan, device=device)
    fit = partial(fit_method, cell.method)
    layerwise = METHODS[cell.method].fits == "layers"
    needs = needs_of(graph, plan, fit=fit, layerwise=layerwise, steps=STEPS, seconds=SECONDS)
    taken, total = sum({id(cost): cost.steps for cost in needs.measured}.values()), sum(needs.steps)
    first = needs.measured[0]
    measures = {
        "nodes": cell.copies * first.nodes,
        "edges": cell.copies * first.edges,
        "seconds": needs.seconds,
        "step_seconds": list(needs.step_seconds),
        "embed_seconds": list(needs.embed_seconds),
        "steps_measured": taken,
        "steps_total": total,
        "memory_bytes": needs.memory,
        "device_memory_bytes": first.device_memory,
    }
    return {"measures": measures, "versions": versions(), "hardware": {**hardware(), "device": device}}


def training_part(place: Path | None) -> Graph:
    """Of the graph that lies there, or one drawn in its shape."""
    return products_training() if place is None else training_subgraph(open_graph(place))[0]


def hours(seconds: float) -> str:
    """As the paper writes it: 01h15m."""
    minutes = round(seconds / 60)
    return f"{minutes // 60:02d}h{minutes % 60:02d}m"


def _row(cell: CostCell, record: RunRecord | None) -> tuple[str, ...]:
    paper = cell.paper
    said = [f"{paper[key]:,}" if key in paper else "-" for key in ("nodes", "edges")]
    time_said = hours(60 * paper["minutes"]) if "minutes" in paper else "-"
    if record is None:
        return (cell.title, said[0], "-", said[1], "-", time_said, *("-",) * 4)
    m = record.measures
    step = " / ".join(f"{1000 * s:.1f}" for s in dict.fromkeys(m["step_seconds"]))
    share = f"{m['steps_measured']:,} of {m['steps_total']:,}"
    memory = m["device_memory_bytes"] or m["memory_bytes"]
    return (
        cell.title, said[0], f"{m['nodes']:,.0f}", said[1], f"{m['edges']:,.0f}", time_said,
        hours(m["seconds"]), f"{step} ms", share, f"{memory / 2**30:.2f} GiB",
    )  # fmt: skip
