"""RunRecord: what was measured, with which settings, on which machine; one JSON file each, committed.

Tables and figures of the documentation are made from records and from nothing else. A record is checked
when it is read, so that a table never shows what a hand has broken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.compute.machine import hardware, versions
from lrgi.directory import write_json
from lrgi.errors import FormatError, InputError

FORMAT, VERSION = "lrgi-record", 1
METRICS = ("accuracy", "micro_f1", "roc_auc")


@dataclass(frozen=True)
class Score:
    """One metric of one read-out for one seed: a value from 0 to 1 per split.

    `test` is empty where the test was not looked at.
    """

    readout: str
    metric: str
    seed: int
    validation: tuple[float, ...]
    test: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("validation", "test"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        if self.metric not in METRICS:
            raise InputError(f"a metric must be one of {', '.join(METRICS)}, got {self.metric!r}; correct it")
        if not all(0 <= value <= 1 for value in (*self.validation, *self.test)):
            raise InputError(
                f"scores must lie in 0 to 1, got {[*self.validation, *self.test]}; measure them again"
            )
        if not self.validation or len(self.test) not in (0, len(self.validation)):
            raise InputError(
                "a score must have one value per split, and as many for the test or none, "
                f"got {len(self.validation)} and {len(self.test)}; measure them again"
            )


@dataclass(frozen=True)
class Cost:
    """What one seed took; memory is the highest of the process, None where it could not be measured."""

    seed: int
    steps: int
    fit_seconds: float
    embed_seconds: float
    probe_seconds: float
    peak_memory_mib: float | None = None
    peak_device_mib: float | None = None


@dataclass(frozen=True)
class RunRecord:
    """One cell of a table, or one point of a figure.

    experiment  what it belongs to, such as "table:results"
    cell        its name there, such as "ppi/lrgi"; also the name of its file
    settings    everything that decides the result
    scores      one per read-out, metric and seed; `main` and `chosen` name read-outs among them: the
                method's own, and the one with the best mean validation score
    costs       one per seed
    measures    whatever else was measured, as JSON
    """

    experiment: str
    cell: str
    settings: Mapping[str, Any]
    scores: tuple[Score, ...] = ()
    costs: tuple[Cost, ...] = ()
    main: str | None = None
    chosen: str | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    hardware: Mapping[str, Any] = field(default_factory=hardware)
    command: str = ""
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def __post_init__(self) -> None:
        for name in ("scores", "costs"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("main", "chosen"):
            readout = getattr(self, name)
            if readout is not None and not any(s.readout == readout and s.test for s in self.scores):
                raise InputError(
                    f"the {name} read-out must have test scores, got none of {readout!r}; add them"
                )
        if not _is_finite(self.measures) or not _is_finite(self.settings):
            raise InputError("numbers of a record must be finite, got one that is not; measure them again")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every seed once, in order."""
        return tuple(dict.fromkeys([*(s.seed for s in self.scores), *(c.seed for c in self.costs)]))

    def values(self, readout: str, metric: str, part: str = "test") -> tuple[float, ...]:
        """All scores of a read-out, over seeds and splits."""
        return tuple(
            v for s in self.scores if (s.readout, s.metric) == (readout, metric) for v in getattr(s, part)
        )

    def mean_and_spread(self, readout: str, metric: str, part: str = "test") -> tuple[float, float] | None:
        """Over seeds and splits, the spread being the population deviation; None where there is no score."""
        found = self.values(readout, metric, part)
        return (float(np.mean(found)), float(np.std(found))) if found else None

    @property
    def seconds(self) -> float | None:
        """Mean over the seeds of the fit's seconds."""
        return float(np.mean([cost.fit_seconds for cost in self.costs])) if self.costs else None

    def to_json(self) -> dict[str, Any]:
        """One object."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, given: Any) -> RunRecord:
        """The record in an object that `to_json` made; InputError for anything else."""
        if not isinstance(given, dict) or given.get("format") != FORMAT:
            raise InputError(f"a record must have the format {FORMAT!r}, got something else; make it again")
        if given.get("version") != VERSION:
            raise InputError(
                f"a record's version must be {VERSION}, got {given.get('version')!r}; upgrade lrgi to read it"
            )
        values = {key: value for key, value in given.items() if key not in ("format", "version")}
        _check_shape(values)
        values["scores"] = tuple(_made(Score, score) for score in values.get("scores", ()))
        values["costs"] = tuple(_made(Cost, cost) for cost in values.get("costs", ()))
        record: RunRecord = _made(cls, values)
        return record


def record_path(results: Path, experiment: str, cell: str) -> Path:
    """Where a record lies: results/EXPERIMENT/CELL.json, without the part before the colon."""
    return results / experiment.partition(":")[2] / f"{cell}.json"


def save_record(record: RunRecord, results: Path) -> Path:
    """Write a record to its place, whole."""
    path = record_path(results, record.experiment, record.cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.to_json())
    return path


def read_record(path: Path) -> RunRecord:
    """Read and check one record; FormatError, with the file's name, for anything else."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise FormatError(f"{path}: a record must be JSON, got {error}; make it again") from error
    try:
        return RunRecord.from_json(given)
    except (InputError, TypeError, ValueError, ArithmeticError) as error:
        said = (
            str(error)
            if isinstance(error, InputError)
            else f"a record must be sound, got {error}; make it again"
        )
        raise FormatError(f"{path}: {said}") from error


def records_of(results: Path, experiment: str) -> dict[str, RunRecord]:
    """Every record of an experiment by its cell; none where there is no folder."""
    folder = results / experiment.partition(":")[2]
    found = (read_record(path) for path in sorted(folder.rglob("*.json")))
    return {record.cell: record for record in found if record.experiment == experiment}


def _made(kind: type[Any], values: Any) -> Any:
    known = {entry.name for entry in fields(kind)}
    if not isinstance(values, dict) or not set(values) <= known:
        extra = sorted(set(values) - known) if isinstance(values, dict) else values
        raise InputError(f"a {kind.__name__} must have keys among {sorted(known)}, got {extra}; correct it")
    try:
        return kind(**values)
    except TypeError as error:
        raise InputError(
            f"a {kind.__name__} must be complete, got {sorted(values)} ({error}); add it"
        ) from None


def _check_shape(values: dict[str, Any]) -> None:
    kinds = {"experiment": str, "cell": str, "command": str, "made": str, "settings": dict, "measures": dict,
             "versions": dict, "hardware": dict, "scores": list, "costs": list}  # fmt: skip
    for key, kind in kinds.items():
        if key in values and not isinstance(values[key], kind):
            raise InputError(f"{key} of a record must be a {kind.__name__}, got {values[key]!r}; correct it")


def _is_finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_finite(one) for one in value.values())
    if isinstance(value, list | tuple):
        return all(_is_finite(one) for one in value)
    return not isinstance(value, float) or math.isfinite(value)
