"""The run directory: everything that is known of one fit, readable by people and machines.

run.json                the record: plan, graph, versions, hardware, times, status; written whole, twice
encoder/                the fitted encoder (Encoder.load)
steps.jsonl             one line per step; called steps.jsonl.part while it grows
events.out.tfevents...  the same for TensorBoard, readable while it grows
table.json, table.txt   the final table, written by the command line
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import nn

from lrgi.compute.machine import hardware, versions
from lrgi.directory import flush_directory, write_json
from lrgi.distributed.collectives import present
from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.part import Part
from lrgi.training.events import EventWriter
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import protocol_of, resolve_fit_on

FORMAT, VERSION = "lrgi-run", 1
RECORD, ENCODER, STEPS, TABLE = "run.json", "encoder", "steps.jsonl", "table"

_EVENTS = "events.out.tfevents."
_MOST_EVENTS = 1000  # per layer: enough for any curve
_BUFFER = 256 << 10  # bytes of steps.jsonl between writes
_FLUSH_SECONDS = 5.0


@dataclass(frozen=True)
class Run:
    """A finished run: where it lies, what is on record of it, and its encoder."""

    path: Path
    record: dict[str, Any]
    encoder: Encoder

    @property
    def fit_on(self) -> str:
        """The nodes it was fitted on: "all", "train" or "train+validation"."""
        return str(self.record["fit_on"])


def fit_run(
    graph: Graph,
    plan: FitPlan,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    command: str = "fit_run",
    listeners: Sequence[Listener] = (),
    method: str = "lrgi",
    fit: Callable[[Graph, FitPlan, Journal], Encoder] = fit_encoder,
) -> Run:
    """Fit an encoder on the plan's nodes of a graph, and keep everything about it in a directory.

    `method` is the name of what `fit` does, for the record.

    Raises InputError before anything is written, where the place is taken. A fit that breaks off leaves
    its record and steps, with the status "interrupted" or "failed", and no encoder.
    """
    final = Path(path)
    fit_on = resolve_fit_on(plan, graph)
    check_place(final, overwrite)
    seen, _ = training_subgraph(graph, fit_on)
    record = {**_new_record(graph, seen, plan, fit_on, command), "method": method}
    with _recording(final, record) as writer:
        encoder = fit(seen, plan, Journal(writer, *listeners))
        record |= {"processes": present().size, "sent_bytes": present().sent}
        encoder.extra = {key: record[key] for key in ("method", "plan", "fit_on", "graph", "versions")}
        encoder.save(final / ENCODER)
    return Run(final, record, encoder)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a finished run; FormatError for anything else, with what it is."""
    directory = Path(path)
    record = read_record(directory)
    if record.get("status") != "finished":
        raise FormatError(
            f"a run must be finished, got {directory}, which is {record.get('status')!r}; "
            "fit it again with --overwrite"
        )
    return Run(directory, record, Encoder.load(directory / ENCODER))


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record of a run in whatever state; FormatError for anything else."""
    directory = Path(path)
    if not directory.exists():
        raise FormatError(f"a run directory must exist, got {directory}, which does not; check the path")
    record = _peek(directory)
    if record is None:
        raise FormatError(
            f"a run must be a directory with a {RECORD} of format {FORMAT!r}, got {directory}, "
            "which is something else; make one with `lrgi fit`"
        )
    version = record.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise FormatError(
            f"a run's version must be from 1 to {VERSION}, got {version!r} in {directory}; "
            "upgrade lrgi to open what a newer lrgi wrote"
        )
    return record


def is_run_directory(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory whose record says that it is a run, of whatever version."""
    return _peek(Path(path)) is not None


def check_place(final: Path, overwrite: bool) -> None:
    """Raise InputError unless a run may be written at `final`."""
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return
    record, rule = _peek(final), f"the place for a run must be free, got {final}, which holds"
    if record is None:
        raise InputError(f"{rule} something else; choose another path")
    if overwrite:
        return
    if record.get("status") == "finished":
        raise InputError(f"{rule} a finished run; choose another path or pass --overwrite")
    raise InputError(
        f"{rule} an unfinished run ({record.get('status')!r}), which cannot be resumed yet; "
        "choose another path or pass --overwrite to start again"
    )


class RunWriter(Listener):
    """Writes what it hears: a line and some scalars per step, and the seconds of every layer."""

    def __init__(self, directory: Path, record: dict[str, Any]) -> None:
        self.record = record
        self._part = directory / f"{STEPS}.part"
        self._steps = self._part.open("w", encoding="utf-8", buffering=_BUFFER)
        self._events = EventWriter(directory, time.time)
        self._plan, self._total, self._every, self._sent = FitPlan(), 0, 1, present().sent
        self._begun = self._last = self._flushed = time.perf_counter()

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Start its clock."""
        self._plan, self._every = plan, max(1, steps // _MOST_EVENTS)
        self._begun = self._last = time.perf_counter()

    def step_taken(self, record: StepRecord) -> None:
        """One line, and every so often one set of scalars."""
        now, place, block = time.perf_counter(), record.place, record.block
        terms = {name: float(term) for name, term in record.terms._asdict().items()}
        line = {
            "layer": place.layer,
            "epoch": place.epoch,
            "step": place.step,
            "loss": float(record.terms.total(self._plan.weights)),
            **terms,
            "learning_rate": record.learning_rate,
            "nodes": len(block.nodes),
            "edges": len(block.indices),
            "seconds": round(now - self._last, 6),
        }
        if record.sent:
            line["sent_bytes"], self._sent = record.sent - self._sent, record.sent
        self._steps.write(json.dumps(line) + "\n")
        self._total, self._last = self._total + 1, now
        if place.step % self._every == 0 or place.step == place.steps:
            names = ("loss", *terms, "learning_rate", "seconds")
            values = {f"{name}/layer {place.layer}": line[name] for name in names}
            self._events.scalars(place.step, values)
        if now - self._flushed > _FLUSH_SECONDS:
            self._flushed = now
            self._steps.flush()
            self._events.flush()

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """Its seconds, without embedding."""
        self.record["layers"].append(
            {"layer": layer, "steps": self._total, "fit_seconds": round(time.perf_counter() - self._begun, 3)}
        )
        self._total, self._last = 0, time.perf_counter()

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """The seconds of embedding with it."""
        self.record["layers"][-1]["embed_seconds"] = round(time.perf_counter() - self._last, 3)

    def close(self) -> None:
        """Everything to the disk; steps.jsonl gets its name."""
        self._steps.flush()
        os.fsync(self._steps.fileno())
        self._steps.close()
        self._events.close()
        self._part.replace(self._part.with_name(STEPS))
        flush_directory(self._part.parent)


@contextmanager
def _recording(final: Path, record: dict[str, Any]) -> Iterator[RunWriter]:
    """A writer into a directory whose record always says what state it is in."""
    final.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    write_json(final / RECORD, record)  # from here on, what an earlier run left counts as unfinished
    _clear(final)
    writer = RunWriter(final, record)
    status = "failed"
    try:
        yield writer
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    except Exception as error:
        record["error"] = str(error)
        raise
    finally:
        writer.close()
        record |= {"status": status, "finished": _now(), "seconds": round(time.perf_counter() - begun, 3)}
        write_json(final / RECORD, record)


def _new_record(graph: Graph, seen: Graph, plan: FitPlan, fit_on: str, command: str) -> dict[str, Any]:
    fingerprint: Callable[[Graph], dict[str, Any]] = lambda g: {  # noqa: E731
        "name": g.name,
        "nodes": g.whole_nodes if isinstance(g, Part) else g.num_nodes,
        "edges": g.whole_edges if isinstance(g, Part) else g.num_edges,
        "graphs": g.num_graphs,
        "columns": g.num_features,
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "status": "running",
        "command": command,
        "plan": plan.to_mapping(),
        "fit_on": fit_on,
        "protocol": protocol_of(fit_on),
        "graph": fingerprint(graph),
        "fitted_graph": fingerprint(seen),
        "versions": versions(),
        "hardware": hardware(),
        "started": _now(),
        "finished": None,
        "seconds": None,
        "layers": [],
    }


def _clear(final: Path) -> None:
    """Remove what an earlier run wrote, and nothing else."""
    for name in (STEPS, f"{STEPS}.part", f"{TABLE}.json", f"{TABLE}.txt"):
        (final / name).unlink(missing_ok=True)
    for path in final.glob(f"{_EVENTS}*"):
        path.unlink()
    if (final / ENCODER).is_dir():
        shutil.rmtree(final / ENCODER)


def _peek(directory: Path) -> dict[str, Any] | None:
    try:
        record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("format") == FORMAT else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
