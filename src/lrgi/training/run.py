"""The run directory: everything that is known of one fit, readable by people and machines.

run.json                the record: plan, graph, versions, hardware, times, status; sealed, switched whole
encoder/                the fitted encoder (Encoder.load)
steps.jsonl             one line per step; called steps.jsonl.part while it grows
events.out.tfevents...  the same for TensorBoard, readable while it grows
table.json, table.txt   the final table, written by the command line
state/                  until the run is finished: what it goes on from (checkpoint.py)
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lrgi.compute.machine import hardware, versions
from lrgi.directory import SEAL, check_no_links, check_seal, checksum, is_free, locked, write_sealed
from lrgi.distributed.collectives import present
from lrgi.encoder import Encoder, is_encoder_directory
from lrgi.errors import FormatError, InputError
from lrgi.graph.fingerprint import described, sizes
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.training.alarm import CollapseAlarm
from lrgi.training.begin import Beginning
from lrgi.training.checkpoint import STATE, Checkpoint
from lrgi.training.fit import fit_encoder
from lrgi.training.identity import check_same, key_of
from lrgi.training.journal import Journal, Listener
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import protocol_of, resolve_fit_on
from lrgi.training.resources import Resources
from lrgi.training.stopping import stopping_gently
from lrgi.training.writer import EVENTS, STEPS, RunWriter

FORMAT, VERSION = "lrgi-run", 1
RECORD, ENCODER, TABLE = "run.json", "encoder", "table"
GROWING, GROWN = "growing", "grown"  # within a run: a longer one in the making, and one to take its place
FINISHED = "finished"


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
    method_settings: Mapping[str, Any] | None = None,
    fit: Callable[[Graph, FitPlan, Journal], Encoder] = fit_encoder,
    beginning: Beginning | None = None,
    resources: Resources | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
    source: str | None = None,
    stop_on_collapse: bool = False,
) -> Run:
    """Fit an encoder on the plan's nodes of a graph, and keep everything about it in a directory.

    Where an interrupted run of the same settings lies, it goes on; a finished one is opened as it is; either
    is said to `tell`. A fit that breaks off leaves its record, its steps and its state, with the status
    "interrupted" or "failed" (or "running", where it was killed), and no encoder. `method` and its settings
    are the name of what `fit` does, for the record, as is `source`, the path of the graph; `beginning` gives
    other weights to begin with. A collapse of the embeddings is told too, or with `stop_on_collapse` raised.
    Raises InputError before anything is written, where the place is taken.
    """
    final, fit_on = Path(path), resolve_fit_on(plan, graph)
    check_place(final)
    seen, _ = training_subgraph(graph, fit_on)
    wanted = {
        **_new_record(graph, seen, plan, fit_on, command),
        "method": method,
        "method_settings": dict(method_settings or {}),
        "from": None if beginning is None else beginning.record,
        "source": source,
    }
    alarm = CollapseAlarm(tell, stop=stop_on_collapse)
    final.mkdir(parents=True, exist_ok=True)
    with locked(final):
        record = None if overwrite else _to_go_on(final, wanted)
        if record is not None and record["status"] == FINISHED:
            tell(f"{final} is finished, with these very settings: nothing is fitted again")
            shutil.rmtree(final / STATE, ignore_errors=True)
            return open_run(final)
        if record is None:
            write_sealed(final / RECORD, wanted)  # so that what an earlier run left counts as unfinished
            _clear(final)
        how = (resources or Resources(), beginning, tell, alarm)
        with _recording(final, record or wanted, *how) as (writer, keeper):
            encoder = fit(seen, plan, Journal(writer, *listeners, alarm, keeper=keeper))
            writer.record |= {"processes": present().size, "sent_bytes": present().sent}
            about = ("method", "plan", "fit_on", "graph", "fitted_graph", "versions", "alarms")
            encoder.extra = {key: writer.record[key] for key in about}
            if seen.encoding is not None:
                encoder.extra["encoding"] = seen.encoding.to_json()
            encoder.save(final / ENCODER)
    return Run(final, writer.record, encoder)


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a finished run; FormatError for anything else, with what it is."""
    directory = Path(path)
    record = read_record(directory)
    if is_run_directory(directory / GROWN):
        raise FormatError(
            f"a run must be settled, got {directory}, whose longer run was taking its place when it was "
            "interrupted; give the same `lrgi grow` again"
        )
    if record.get("status") != FINISHED:
        raise FormatError(
            f"a run must be finished, got {directory}, which is {record.get('status')!r}; "
            "give the same `lrgi fit` again and it goes on"
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
            f"a run's version must be from 1 to {VERSION}, got {version!r} in {directory / RECORD}; "
            "upgrade lrgi to open what a newer lrgi wrote"
        )
    check_seal(directory / RECORD)
    kinds = {
        "plan": dict,
        "graph": dict,
        "fitted_graph": dict,
        "versions": dict,
        "hardware": dict,
        "layers": list,
        "method_settings": dict,
        "from": dict,
        "files": dict,
        "resumed": list,
        "alarms": list,
    }
    wrong = next(
        (key for key, kind in kinds.items() if not isinstance(record.get(key) or kind(), kind)), None
    )
    if wrong is not None:
        raise FormatError(
            f"{wrong} of a run must be a {kinds[wrong].__name__}, got {record[wrong]!r} in {directory}; "
            "take its record from a copy, or fit again"
        )
    return {key: value for key, value in record.items() if key != SEAL}


def is_run_directory(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory whose record says that it is a run, of whatever version."""
    return _peek(Path(path)) is not None


def check_place(final: Path) -> None:
    """Raise InputError unless there is nothing at `final`, or a run."""
    if is_free(final):
        return
    if _peek(final) is not None:
        check_no_links(final)
        return
    raise InputError(
        f"the place for a run must be free, got {final}, which holds something else; choose another path"
    )


def keep_scores(final: Path, table: Mapping[str, Any]) -> None:
    """The final table, JSON, into the encoder of a finished run: its card shows it."""
    encoder = Encoder.load(final / ENCODER)
    encoder.extra["table"] = dict(table)
    encoder.save(final / ENCODER)


def open_fitted(path: str | os.PathLike[str]) -> Run:
    """A finished run, or an encoder that somebody shared; FormatError for anything else."""
    directory = Path(path)
    if is_run_directory(directory) or not is_encoder_directory(directory):
        return open_run(directory)
    encoder = Encoder.load(directory)
    return Run(directory, {"fit_on": encoder.extra.get("fit_on", "all")}, encoder)


def seal_run(final: Path, record: dict[str, Any]) -> None:
    """Write the record of a finished run, with the size and checksum of every file that belongs to it."""
    names = [STEPS, f"{TABLE}.json", f"{TABLE}.txt", *(path.name for path in final.glob(f"{EVENTS}*"))]
    names += [f"{ENCODER}/{path.name}" for path in (final / ENCODER).iterdir()]
    record["files"] = {
        name: {"bytes": (final / name).stat().st_size, "checksum": checksum(final / name)}
        for name in sorted(names)
        if (final / name).is_file()
    }
    write_sealed(final / RECORD, record)


def check_files(final: Path, record: Mapping[str, Any], names: Iterable[str]) -> None:
    """FormatError that names the first file of a run which is not as its record says."""
    for name in names:
        entry, path = record.get("files", {}).get(name), final / name
        if entry is None or not path.is_file() or checksum(path) != entry["checksum"]:
            raise FormatError(
                f"{path} must be as lrgi wrote it, got a file that was changed, damaged or lost; "
                "take it from a copy, or make it again"
            )


@contextmanager
def _recording(
    final: Path,
    record: dict[str, Any],
    resources: Resources,
    beginning: Beginning | None,
    tell: Callable[[str], None],
    alarm: CollapseAlarm,
) -> Iterator[tuple[RunWriter, Checkpoint]]:
    """A writer and a keeper in a directory whose record always says what state it is in."""
    with stopping_gently() as stop:
        begin = None if beginning is None else beginning.put_into
        keeper = Checkpoint(final / STATE, resources, key_of(record), begin=begin, stop=stop)
        mark = keeper.position.mark or None
        if mark is None:
            _clear(final, but=STATE)
        else:
            where = keeper.position.words(final)
            tell(where)
            record.setdefault("resumed", []).append({"at": _now(), "where": where, "versions": versions()})
        writer = RunWriter(final, record, mark)
        record["alarms"] = alarm.told = list((mark or {}).get("alarms", []))
        keeper.mark = lambda: writer.mark() | {"alarms": list(alarm.told)}
        record.pop("error", None)
        status = "failed"
        try:
            write_sealed(final / RECORD, record | {"status": "running"})
            yield writer, keeper
            writer.finish()
            record |= {"status": FINISHED, "finished": _now(), "seconds": round(writer.seconds, 3)}
            seal_run(final, record)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                status = "interrupted"
            else:
                record["error"] = str(error)
            record |= {"status": status, "finished": _now(), "seconds": round(writer.seconds, 3)}
            with suppress(OSError):  # a full disk: the first error is the one to hear of
                write_sealed(final / RECORD, record)
            with suppress(OSError):
                writer.close()
            raise
        keeper.discard()


def _to_go_on(final: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of the run that lies there, if it is of these settings; None where there is none."""
    if _peek(final) is None:
        return None
    record = read_record(final)
    check_same(record, wanted, final)
    return record


def _new_record(graph: Graph, seen: Graph, plan: FitPlan, fit_on: str, command: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "status": "running",
        "command": command,
        "plan": plan.to_mapping(),
        "fit_on": fit_on,
        "protocol": protocol_of(fit_on),
        "graph": described(graph),
        "fitted_graph": sizes(seen),
        "versions": versions(),
        "hardware": hardware(),
        "started": _now(),
        "finished": None,
        "seconds": None,
        "layers": [],
    }


def _clear(final: Path, but: str = "") -> None:
    """Remove what an earlier run wrote, and nothing else."""
    for name in (STEPS, f"{STEPS}.part", f"{TABLE}.json", f"{TABLE}.txt"):
        (final / name).unlink(missing_ok=True)
    for path in final.glob(f"{EVENTS}*"):
        path.unlink()
    for folder in (ENCODER, STATE):
        if folder != but and (final / folder).is_dir():
            shutil.rmtree(final / folder)
    for left in final.glob(f".{ENCODER}.*"):  # of a process that was killed while it wrote
        shutil.rmtree(left, ignore_errors=True)


def _peek(directory: Path) -> dict[str, Any] | None:
    try:
        record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("format") == FORMAT else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
