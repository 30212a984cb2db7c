"""One fit of the figures of depth and width, and the points it gives. What a worker process does."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lrgi.baselines.methods import fit_method
from lrgi.compute.machine import device_called, hardware, versions
from lrgi.compute.memory import PeakWatch
from lrgi.encoder import Encoder
from lrgi.graph.assign import split_by_graph
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.graph.store import open_graph
from lrgi.interop.npz import read_npz
from lrgi.layers.rows import as_tensor
from lrgi.probe.batched import Task, probe_tasks
from lrgi.probe.linear import ProbePlan
from lrgi.probe.smoothing import mad
from lrgi.training.cost import measure_steps
from lrgi.training.journal import Journal, Listener
from lrgi.training.plan import FitPlan

_MAD_EDGES = 200_000


@dataclass(frozen=True)
class Fit:
    """`plan` is the deepest one's; more than one of the `depths` only for a layer-wise method."""

    method: str
    plan: FitPlan
    depths: tuple[int, ...]
    limit: int  # bytes; a fit that would hold more beside the graph is called out of memory
    probe_epochs: int


class _Prefixes(Listener):
    """Seconds and peak memory up to the end of each layer."""

    def __init__(self, watch: PeakWatch, device: torch.device) -> None:
        self._watch, self._device, self._begun = watch, device, time.perf_counter()
        self.seen: dict[int, tuple[float, int]] = {}

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """One more."""
        self.seen[layer] = (time.perf_counter() - self._begun, peak_of(self._watch, self._device))


def peak_of(watch: PeakWatch, device: torch.device) -> int:
    """Bytes at the most beside what was there before; of another device, everything."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return watch.peak.anonymous - watch.before.anonymous


def measure_fit(fit: Fit, path: Path) -> dict[int, dict[str, Any]]:
    """Measures, versions and hardware of every depth's record."""
    at = {"versions": versions(), "hardware": {**hardware(), "device": fit.plan.device}}
    return {depth: {"measures": found, **at} for depth, found in _measures(fit, path).items()}


def _measures(fit: Fit, path: Path) -> dict[int, dict[str, Any]]:
    graph = graph_at(path)
    seen, ids = training_subgraph(graph, "train")
    fitting = partial(fit_method, fit.method)
    for _ in range(2):  # the first time kernels are compiled, which takes memory too
        few = measure_steps(seen, fit.plan, fit=fitting, steps=2, warm=1, seconds=0.0)
    first: dict[str, Any] = {"step_seconds": few.seconds, "needed_bytes": few.device_memory or few.memory}
    if first["needed_bytes"] > fit.limit:
        return {depth: {**first, "out_of_memory": True} for depth in fit.depths}
    device = device_called(fit.plan.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with PeakWatch() as watch:
        prefixes = _Prefixes(watch, device)
        encoder = fitting(seen, fit.plan, Journal(prefixes))
    found: dict[int, dict[str, Any]] = {}
    distances: list[float] = []
    for depth, table in enumerate(encoder.tables(graph), 1):
        distances.append(mad(table, graph, max_edges=_MAD_EDGES))
        if depth not in fit.depths:
            continue
        seconds, peak = prefixes.seen[depth if len(fit.depths) > 1 else max(prefixes.seen)]
        own = {**first, "fit_seconds": seconds, "peak_bytes": peak, "mad": list(distances)}
        if peak > fit.limit:
            found[depth] = {**own, "needed_bytes": peak, "out_of_memory": True}
            continue
        of_seen = Encoder(encoder.layers[:depth]).embed(seen)
        found[depth] = {**own, **_scores(graph, ids, of_seen, table, fit), "out_of_memory": False}
    return found


def _scores(graph: Graph, ids: Any, of_seen: Table, table: Table, fit: Fit) -> dict[str, Any]:
    """Of a probe on one seed; the area under the ROC curve too, where there are two classes."""
    assert graph.labels is not None and graph.split is not None
    first, second = (as_tensor(one.rows(np.arange(one.shape[0]))) for one in (of_seen, table))
    rows = [np.flatnonzero(graph.split == part) for part in (TRAIN, VALIDATION, TEST)]
    task = Task(np.searchsorted(ids, rows[0]), rows[1], rows[2])
    two = graph.labels.ndim == 1 and int(graph.labels.max()) == 1
    further = ("roc_auc",) if two else ()
    plan = ProbePlan(epochs=fit.probe_epochs, seeds=(0,))
    scores = probe_tasks((first, second), (graph.labels[ids], graph.labels), (task,), plan, further=further)
    found: dict[str, Any] = {
        "metric": scores.metric, "validation": scores.validation[0], "test": scores.test[0],
    }  # fmt: skip
    for name, (validation, test) in scores.further.items():
        found[name] = {"validation": validation[0], "test": test[0]}
    return found


@lru_cache(maxsize=1)
def graph_at(path: Path) -> Graph:
    """A directory or .npz file, split by its graphs if it has no split."""
    graph = read_npz(path) if path.is_file() else open_graph(path)
    return graph if graph.split is not None else replace(graph, split=split_by_graph(graph.offsets, 0))
