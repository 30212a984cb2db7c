"""One seed of a cell: fit, embed once, probe every read-out."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrgi.baselines.methods import METHODS, fit_method
from lrgi.compute.machine import device_called
from lrgi.encoder import Encoder, propagated
from lrgi.experiments.cells import Cell
from lrgi.experiments.trials import Trial, trial
from lrgi.graph.graph import Graph
from lrgi.probe.batched import probe_tasks
from lrgi.report.record import Cost, Score
from lrgi.training.journal import Journal, Listener, StepRecord

UNTRAINED = "untrained"  # a read-out's name in a record
_WIDE = ("raw", "propagate")  # as wide as the features: views side by side would not fit
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure_seed(cell: Cell, graph: Graph, seed: int, device: str = "cpu") -> dict[str, Any]:
    """JSON: the scores of every read-out, test scores included, and what it cost."""
    reset_peaks(device)
    given, counter = trial(cell, graph, seed), _Counter()
    begun = time.perf_counter()
    encoder = fit_method(
        cell.method, given.seen, cell.fit_plan(seed, device), Journal(counter), cell.method_settings()
    )
    fitted = _now(device)
    views = _views(cell, encoder, given, device)
    embedded = _now(device)
    scores = [
        score for name in readouts(cell, len(encoder.layers)) for score in _probe(cell, given, views, name)
    ]
    if cell.untrained and METHODS[cell.method].fits != "nothing":
        scores += _untrained(cell, given, seed, device)
    cost = Cost(
        seed, counter.steps, round(fitted - begun, 3), round(embedded - fitted, 3),
        round(_now(device) - embedded, 3), *peaks(device),
    )  # fmt: skip
    return {"scores": [asdict(score) for score in scores], "cost": asdict(cost)}


def readouts(cell: Cell, layers: int) -> list[str]:
    """Names of a cell's read-outs: VIEW:LAYERS, the method's own (the last layer's u) first."""
    own = main_readout(layers)
    if cell.readouts == "main" or layers == 0 or METHODS[cell.method].title == "Supervised":
        return [own]
    chosen = [str(number) for number in range(1, layers + 1)]
    if cell.method in _WIDE:
        return [own, *(f"u:{number}" for number in chosen[:-1])]
    every = [*chosen, ",".join(chosen)] if layers > 1 else chosen
    return [own, *(name for v in ("u", "v", "both") for e in every if (name := f"{v}:{e}") != own)]


def main_readout(layers: int) -> str:
    """The paper's: the last layer's output."""
    return f"u:{layers}"


class _Counter(Listener):
    """Counts steps."""

    steps = 0

    def step_taken(self, record: StepRecord) -> None:
        """One more."""
        self.steps += 1


Views = dict[tuple[str, int], tuple[Tensor, Tensor]]  # (u or v, layer) -> rows of seen, rows of whole


def _views(cell: Cell, encoder: Encoder, given: Trial, device: str) -> Views:
    """Every layer's u, and its v where it is read out, on the device; each is computed once."""
    seen = _tables(cell, encoder, given.seen, device)
    if given.transductive:
        return {name: (table, table) for name, table in seen}
    whole = _tables(cell, encoder, given.whole, device)
    return {name: (a, b) for (name, a), (_, b) in zip(seen, whole, strict=True)}


def _tables(
    cell: Cell, encoder: Encoder, graph: Graph, device: str
) -> Iterator[tuple[tuple[str, int], Tensor]]:
    layers, wanted = len(encoder.layers), "".join(readouts(cell, len(encoder.layers)))
    last_only = cell.readouts == "main"
    for number, table in enumerate(encoder.tables(graph), min(1, layers)):
        if last_only and number < layers:
            continue
        yield ("u", number), _on(table, device)
        if "v:" in wanted or "both:" in wanted:
            yield ("v", number), _on(propagated(graph, table), device)


def _on(table: Any, device: str) -> Tensor:
    return torch.from_numpy(table.rows(np.arange(table.shape[0]))).to(device_called(device))


def _probe(cell: Cell, given: Trial, views: Views, name: str) -> Iterator[Score]:
    view, _, numbers = name.partition(":")
    parts = [(v, int(n)) for n in numbers.split(",") for v in (("u", "v") if view == "both" else (view,))]
    tables = [
        torch.cat([views[part][side] for part in parts], 1)
        for side in ((0,) if given.transductive else (0, 1))
    ]
    further = cell.data.metrics
    found = probe_tasks((tables[0], tables[-1]), given.labels, given.tasks, further=further)
    seed = given.tasks[0].seed
    yield Score(name, found.metric, seed, found.validation, found.test)
    for metric, (validation, test) in found.further.items():
        yield Score(name, metric, seed, validation, test)


def _untrained(cell: Cell, given: Trial, seed: int, device: str) -> list[Score]:
    """The last layer's u of the encoder that the fit begins with."""
    encoder = fit_method("random", given.seen, cell.fit_plan(seed, device))
    alone = replace(cell, readouts="main")
    views, name = _views(alone, encoder, given, device), main_readout(len(encoder.layers))
    return [replace(score, readout=UNTRAINED) for score in _probe(alone, given, views, name)]


def _now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def reset_peaks(device: str) -> None:
    """Forget earlier peaks of memory, where the system lets a process do so."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):  # then the peak is that of the whole process, which is no less
        _RESET.write_text("5")


def peaks(device: str) -> tuple[float, float | None]:
    """Highest resident memory of this process since the reset, and highest use of the device; MiB."""
    on_device = None
    if device.startswith("cuda"):
        on_device = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        kib = next(float(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        kib = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return round(kib / 1024, 1), on_device
