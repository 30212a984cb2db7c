"""More layers for a finished run, without fitting the others again: what only a layer-wise fit can do.

The longer run is made inside the finished one, in `growing/`, as a run that was interrupted after the layers
there are, and goes on. Its encoder has the bits of a fit of all layers from the beginning. When it is
finished it is called `grown/`, and its files take the places of the old ones, the record last; until then
the finished run stays as it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lrgi.directory import check_no_links, checksum, exchange, flush_directory, locked, write_sealed
from lrgi.encoder import CONFIG
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.training.checkpoint import STATE, Position, save_position, weights_of, write_tensors
from lrgi.training.identity import key_of
from lrgi.training.journal import Listener
from lrgi.training.plan import FitPlan
from lrgi.training.resources import Resources
from lrgi.training.run import (
    ENCODER,
    GROWING,
    GROWN,
    RECORD,
    TABLE,
    Run,
    check_files,
    fit_run,
    is_run_directory,
    open_run,
    read_record,
)
from lrgi.training.writer import EVENTS, STEPS, mark_of


def grow_run(
    path: Path,
    graph: Graph,
    layers: int,
    *,
    listeners: Sequence[Listener] = (),
    resources: Resources | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
    judge: Callable[[Run], bool] | None = None,
) -> Run:
    """Give the finished run at `path` as many `layers` in all; returns the longer run.

    `judge` is shown the longer run before it takes the place of the other, and may say no: then it is gone.
    InputError for a run that cannot grow, or a graph that is not the one it was fitted on.
    """
    check_no_links(path)
    with locked(path):
        run, inner = settle(path), path / GROWING
        plan = _longer(run, layers)
        if not is_run_directory(inner):
            _prepare(run, inner, plan)
        longer = fit_run(
            graph, plan, inner,
            command="lrgi grow", listeners=listeners, resources=resources, tell=tell,
            source=run.record.get("source"),
        )  # fmt: skip
        if judge is not None and not judge(longer):
            shutil.rmtree(inner)
            return run
        inner.rename(path / GROWN)
        return settle(path)


def settle(path: Path) -> Run:
    """The run at `path`; what grew in it takes its place, where a process died while it did so."""
    if is_run_directory(path / GROWN):
        _take_over(path / GROWN, path)
    shutil.rmtree(path / GROWN, ignore_errors=True)  # its record, moved last, is here: nothing else is wanted
    return open_run(path)


def _longer(run: Run, layers: int) -> FitPlan:
    plan = FitPlan.from_mapping(run.record["plan"])
    if run.record.get("method") != "lrgi":
        raise InputError(
            f"a run to grow must be fitted layer by layer, got {run.path}, which is of method "
            f"{run.record.get('method')!r}; fit one with --method lrgi"
        )
    if layers <= plan.layers:
        raise InputError(
            f"a run must grow to more layers than it has, got {layers} for {run.path}, which has "
            f"{plan.layers}; ask for more, or for some more as +1"
        )
    return plan.with_settings(layers=layers)


def _prepare(run: Run, inner: Path, plan: FitPlan) -> None:
    """A run that was interrupted when the layers there are were fitted."""
    check_files(run.path, run.record, [STEPS, *(e.name for e in run.path.glob(f"{EVENTS}*"))])
    shutil.rmtree(inner, ignore_errors=True)
    fresh = run.path / f".{GROWING}.part"
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / STATE).mkdir(parents=True)
    record: dict[str, Any] = {k: v for k, v in run.record.items() if k not in ("files", "finished")}
    record |= {"plan": plan.to_mapping(), "status": "interrupted", "command": "lrgi grow"}
    record["grown_from"] = len(run.encoder.layers)
    shutil.copyfile(run.path / STEPS, fresh / f"{STEPS}.part")
    for events in run.path.glob(f"{EVENTS}*"):
        shutil.copyfile(events, fresh / events.name)
    names = [
        write_tensors(fresh / STATE, f"layer-{number}", weights_of(layer), {}).name
        for number, layer in enumerate(run.encoder.layers, 1)
    ]
    position = Position(len(names) + 1, 0, tuple(names), mark_of(fresh, record), 1)
    save_position(fresh / STATE, key_of(record), position, {})
    write_sealed(fresh / RECORD, record)
    fresh.rename(inner)
    flush_directory(run.path)


def _take_over(inner: Path, path: Path) -> None:
    """Each file takes its place; what was moved before a process died is there already."""
    for name in (f"{TABLE}.json", f"{TABLE}.txt"):
        (path / name).unlink(missing_ok=True)
    config = f"{ENCODER}/{CONFIG}"
    if checksum(inner / config) == read_record(inner)["files"][config]["checksum"]:
        exchange(inner / ENCODER, path / ENCODER)
    moved = [inner / STEPS, *inner.glob(f"{EVENTS}*"), inner / RECORD]  # the record last
    for source in moved:
        if source.exists():
            source.replace(path / source.name)
    flush_directory(path)
    shutil.rmtree(inner)
