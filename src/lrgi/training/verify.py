"""Whether every byte of a run directory is as it was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lrgi.directory import check_seal, checksum
from lrgi.encoder import CONFIG, WEIGHTS, verify_encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.sinks import LOG, problems_of_tables
from lrgi.training.checkpoint import STATE, is_snapshot_name, read_tensors, snapshots
from lrgi.training.events import digest_at
from lrgi.training.plan import FitPlan
from lrgi.training.run import ENCODER, FINISHED, GROWING, GROWN, RECORD, is_run_directory, read_record
from lrgi.training.writer import STEPS


def problems_of_run(path: Path) -> Iterator[str]:
    """A sentence for everything in a run directory that is not as it was written; nothing is changed."""
    try:
        record = read_record(path)
        check_seal(path / RECORD, required=True)
        FitPlan.from_mapping(record["plan"])
    except (InputError, KeyError, TypeError) as error:
        yield str(error) if isinstance(error, InputError) else f"{path / RECORD} must hold a plan, got none"
        return
    if record.get("status") == FINISHED:
        yield from _finished(path, record)
    elif (path / STATE).is_dir():
        yield from _state(path)
    for inner in (path / GROWING, path / GROWN):
        if is_run_directory(inner):
            yield from problems_of_run(inner)


def _finished(path: Path, record: dict[str, Any]) -> Iterator[str]:
    files = record.get("files")
    if not isinstance(files, dict):
        yield f"{path / RECORD} must list the files of the run, got none; fit again with --overwrite"
        return
    for name in {*files, STEPS, f"{ENCODER}/{CONFIG}", f"{ENCODER}/{WEIGHTS}"}:
        file, entry = path / name, files.get(name)
        if not _within(path, file):
            yield f"{path / RECORD} must name files inside its directory, got {name!r}; do not use it"
        elif not file.is_file():
            yield f"{file} must be there, got no such file; take it from a copy, or fit again"
        elif (
            not isinstance(entry, dict)
            or file.stat().st_size != entry.get("bytes")
            or checksum(file) != entry.get("checksum")
        ):
            yield f"{file} must be as lrgi wrote it, got other bytes; take it from a copy, or make it again"
    try:
        verify_encoder(path / ENCODER)
    except FormatError as error:
        yield str(error)


def _state(path: Path) -> Iterator[str]:
    """Of an unfinished run: what it would go on from. Damage there costs time, never the result."""
    newest: dict[str, Any] | None = None
    for file in sorted((path / STATE).iterdir()):
        if is_snapshot_name(file.name):
            try:
                read_tensors(file)
            except FormatError as error:
                yield str(error)
    for _, file in snapshots(path / STATE):
        try:
            newest = read_tensors(file)[1]
            break
        except FormatError:
            continue
    yield from problems_of_tables(path / STATE / "tables")
    if newest is not None:
        yield from _steps(path, newest)
        if int(newest.get("step", 0)) and int(newest.get("layer", 1)) > 1:
            yield from _complete(path / STATE / "tables" / f"U_{int(newest['layer']) - 1}{LOG}")


def _complete(log: Path) -> Iterator[str]:
    """A layer that takes steps reads a whole table."""
    if not log.is_file():
        return  # in another folder, or lost: it is made again
    try:
        head, *lines = log.read_text(encoding="utf-8", errors="replace").splitlines(True)
        words = [line.split(" ") for line in lines if line.endswith("\n")]
        rows = sum(int(stop) - int(start) for start, stop, _ in words)
        whole = rows == int(json.loads(head)["shape"][0])
    except (ValueError, KeyError, TypeError, IndexError):
        whole = False
    if not whole:
        yield f"{log} must name every row of its table, got fewer; fit again to make them again"


def _steps(path: Path, about: dict[str, Any]) -> Iterator[str]:
    events = (about.get("mark") or {}).get("events") or {}
    if events and digest_at(path / Path(str(events["file"])).name, events) is None:
        yield f"{path / str(events['file'])} must be as lrgi wrote it, got other bytes; its curves begin anew"
    part = next((p for p in (path / f"{STEPS}.part", path / STEPS) if p.is_file()), path / f"{STEPS}.part")
    try:
        mark = about["mark"]
        data = part.read_bytes()[: int(mark["steps"])]
        whole = blake2b(data, digest_size=16).hexdigest() == mark["steps_digest"]
        for line in data.splitlines():
            json.loads(line)
    except (OSError, KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        yield f"{part} must be as lrgi wrote it, got other bytes; start again with --overwrite"


def _within(path: Path, file: Path) -> bool:
    return file.resolve().is_relative_to(path.resolve())
