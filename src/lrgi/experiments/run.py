"""Running the cells of a table: what can run runs, the rest is named with its reason.

A seed that is done is kept below RESULTS/.seeds until its cell's record is written, so that an interrupted
command loses at most the fits that were running.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.baselines.methods import METHODS
from lrgi.compute.machine import hardware, versions
from lrgi.directory import write_json
from lrgi.experiments.cells import Cell, Table, difference, setting_defaults
from lrgi.experiments.measure import UNTRAINED, measure_seed
from lrgi.experiments.registry import Request
from lrgi.experiments.trials import find_graph, load_prepared
from lrgi.experiments.workers import work_through
from lrgi.graph.graph import Graph
from lrgi.report.record import Cost, RunRecord, Score, records_of, save_record

SCRATCH = ".seeds"


def run_table(table: Table, request: Request) -> dict[str, str]:
    """Run the cells that are asked for; returns the reason for each that is not on record afterwards."""
    kind, begun = f"table:{table.name}", time.monotonic()
    cells = table.chosen(request.data_sets, request.methods)
    on_record = records_of(request.results, kind)
    missing: dict[str, str] = {}
    to_run: list[Cell] = []
    for cell in cells:
        why = None if request.again else stale(cell, on_record.get(cell.name), _seeds(cell, request))
        if not request.again and why is None:
            continue
        if find_graph(cell.data, request.data) is None:
            hint = f" (`{cell.data.how}`)" if cell.data.how else ""
            missing[cell.name] = f"no graph {request.data / cell.data.name} or ....npz{hint}"
        else:
            to_run.append(cell)
            missing[cell.name] = "the budget was used up"
    if to_run:
        deadline = None if request.budget_minutes is None else begun + 60 * request.budget_minutes
        _run(kind, to_run, request, missing, deadline)
    return missing


def stale(cell: Cell, record: RunRecord | None, seeds: Sequence[int] = ()) -> str | None:
    """Why a record does not stand for the cell as it is now; None if it does."""
    if record is None:
        return "not measured yet"
    why = difference(record.settings, cell.identity(), setting_defaults(cell))
    if why is not None:
        return f"its settings have changed since it was measured: {why}"
    lacking = sorted(set(seeds) - set(record.seeds))
    return f"seeds {lacking} are not measured yet" if lacking else None


def _run(
    kind: str, cells: Sequence[Cell], request: Request, missing: dict[str, str], deadline: float | None
) -> None:
    tasks, by_name = [], {cell.name: cell for cell in cells}
    for cell in cells:
        if request.again:
            shutil.rmtree(_place(request, kind, cell, 0).parent, ignore_errors=True)
        path = find_graph(cell.data, request.data)
        for seed in _seeds(cell, request):
            if _kept(request, kind, cell, seed) is None:
                tasks.append(((cell.name, seed), (cell, path, seed, request.device)))
    for cell in cells:
        _finish(kind, cell, request, missing)
    if request.jobs > 1:  # the longest first, so that no worker is left alone with one at the end
        tasks.sort(key=lambda task: -_length(*task[1][:2]))
    request.tell(f"{len(tasks)} fits of {len(cells)} cells to do, {request.jobs} at once on {request.device}")
    threads = max(1, len(os.sched_getaffinity(0)) // request.jobs)
    failed: set[str] = set()
    for done in work_through(work, tasks, jobs=request.jobs, threads=threads, deadline=deadline):
        name, seed = done.key
        cell = by_name[name]
        if done.problem is not None:
            failed.add(name)
            missing[name] = f"seed {seed} failed: {done.problem}"
            request.tell(f"{name}, seed {seed}: failed: {done.problem}")
            continue
        place = _place(request, kind, cell, seed)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_json(place, {"settings": cell.identity(), **done.value})
        request.tell(f"{name}, seed {seed}: {_in_words(done.value)}")
        if name not in failed:
            _finish(kind, cell, request, missing)


def _length(cell: Cell, path: Path | None) -> float:
    """A rough measure of a fit's time: bytes of the graph, times steps where something is fitted."""
    size = path.stat().st_size if path is not None and path.is_file() else 1
    plan = cell.fit_plan(0)
    return size * (1 if METHODS[cell.method].fits == "nothing" else (plan.epochs or plan.updates or 1000))


def work(cell: Cell, path: Path, seed: int, device: str) -> dict[str, Any]:
    """What a worker does: one seed of a cell, with the machine it was done on."""
    found = measure_seed(cell, _graph(cell.data, path), seed, device)
    return {**found, "versions": versions(), "hardware": {**hardware(), "device": device}}


@lru_cache(maxsize=1)
def _graph(data: Any, path: Path) -> Graph:
    return load_prepared(data, path)


def _finish(kind: str, cell: Cell, request: Request, missing: dict[str, str]) -> None:
    """Write the cell's record if all of its seeds are there."""
    seeds = _seeds(cell, request)
    found = [_kept(request, kind, cell, seed) for seed in seeds]
    if any(one is None for one in found):
        return
    save_record(assemble(kind, cell, [one for one in found if one], request.command), request.results)
    shutil.rmtree(_place(request, kind, cell, 0).parent, ignore_errors=True)
    missing.pop(cell.name, None)


def assemble(kind: str, cell: Cell, found: Sequence[dict[str, Any]], command: str) -> RunRecord:
    """The record of a cell from its seeds. Test scores are kept of two read-outs: its own, and the chosen."""
    scores = [Score(**score) for one in found for score in one["scores"]]
    main, first = scores[0].readout, scores[0].metric
    names = [name for name in dict.fromkeys(score.readout for score in scores) if name != UNTRAINED]
    validation = {name: np.mean(_values(scores, name, first)) for name in names}
    chosen = max(names, key=lambda name: float(validation[name]))  # the first of equals: the method's own
    shown = (main, chosen, UNTRAINED)
    kept = [s if s.readout in shown else Score(s.readout, s.metric, s.seed, s.validation) for s in scores]
    return RunRecord(
        experiment=kind, cell=cell.name, settings=cell.identity(), scores=tuple(kept),
        costs=tuple(Cost(**one["cost"]) for one in found), main=main, chosen=chosen,
        versions=found[-1]["versions"], hardware=found[-1]["hardware"], command=command,
    )  # fmt: skip


def _values(scores: Sequence[Score], readout: str, metric: str) -> list[float]:
    return [v for s in scores if (s.readout, s.metric) == (readout, metric) for v in s.validation]


def _seeds(cell: Cell, request: Request) -> tuple[int, ...]:
    return request.seeds or cell.seeds


def _place(request: Request, kind: str, cell: Cell, seed: int) -> Path:
    folder = request.results / SCRATCH / kind.partition(":")[2] / cell.name.replace("/", "--")
    return folder / f"{seed}.json"


def _kept(request: Request, kind: str, cell: Cell, seed: int) -> dict[str, Any] | None:
    """What a seed gave, if it was done before with these settings."""
    try:
        given = json.loads(_place(request, kind, cell, seed).read_text(encoding="utf-8"))
        settings = given.pop("settings")
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return given if difference(settings, cell.identity(), setting_defaults(cell)) is None else None


def _in_words(found: dict[str, Any]) -> str:
    own = found["scores"][0]
    cost = found["cost"]
    return (
        f"{own['metric']} {100 * np.mean(own['validation']):.2f} on validation nodes, "
        f"{cost['steps']} steps in {cost['fit_seconds']:.1f} s, probed in {cost['probe_seconds']:.1f} s"
    )
