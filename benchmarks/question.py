"""What the benchmarks share: settings, a record, and a command line.

Each benchmark answers one question. It measures, in one run and in turns, LRGI and whatever it is compared
with: another way of doing the same, or the machine's own rates. What it is judged by are `ratios` of these,
which mean something on another machine too; `better` says of each whether it should be high or low.

    python benchmarks/NAME.py [--quick | --short] [--json PATH] [--SETTING VALUE ...]

`--quick` only shows that it runs; `--short` is what `make bench` runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from lrgi.directory import write_json
from lrgi.report.record import RunRecord, read_record
from lrgi.report.tables import Column

RESULTS = Path(__file__).parent / "results"
EXPERIMENT = "benchmark"

Better = Literal["high", "low"]


@dataclass(frozen=True)
class Demand:
    """A ratio that the project promised: at least, or at most, so much."""

    bound: float
    better: Better

    def met(self, value: float) -> bool:
        return value >= self.bound if self.better == "high" else value <= self.bound

    def __str__(self) -> str:
        return f"at {'least' if self.better == 'high' else 'most'} {self.bound:g}"


@dataclass(frozen=True)
class Question:
    """One benchmark. `table` makes of its record columns, rows and a sentence on how to read them."""

    name: str
    title: str
    settings: Callable[..., Any]
    measure: Callable[[Any], dict[str, Any]]
    table: Callable[[RunRecord], tuple[tuple[Column, ...], list[tuple[Any, ...]], str]]
    better: Mapping[str, Better]
    quick: Mapping[str, Any] = field(default_factory=dict)
    short: Mapping[str, Any] = field(default_factory=dict)
    demands: Mapping[str, Demand] = field(default_factory=dict)

    def ask(self, settings: Any, command: str = "") -> RunRecord:
        """Measure, and put it on record."""
        found = self.measure(settings)
        unknown = set(found["ratios"]) - set(self.better)
        if unknown:
            raise ValueError(f"every ratio must say what is better, got none for {sorted(unknown)}")
        said = {key: str(v) if isinstance(v, Path) else v for key, v in asdict(settings).items()}
        return RunRecord(EXPERIMENT, self.name, said, measures=found, command=command)

    def main(self, argv: list[str] | None = None) -> RunRecord:
        """The command line."""
        parser = argparse.ArgumentParser(description=self.title)
        parser.add_argument("--json", type=Path, help="write the record here")
        parser.add_argument("--quick", action="store_true", help="tiny: does it run?")
        parser.add_argument("--short", action="store_true", help="the form of `make bench`")
        for entry in fields(self.settings):
            flag = f"--{entry.name.replace('_', '-')}"
            many = isinstance(entry.default, tuple)
            kind = type(entry.default[0]) if many else type(entry.default)
            parser.add_argument(flag, type=kind, nargs="+" if many else None)
        given = vars(parser.parse_args(argv))
        place, quick, short = (given.pop(key) for key in ("json", "quick", "short"))
        changes = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items() if v is not None}
        form = self.quick if quick else self.short if short else {}
        record = self.ask(self.settings(**{**form, **changes}), _command(self.name, argv))
        print(self.show(record))
        if place:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_json(place, record.to_json())
        return record

    def show(self, record: RunRecord) -> str:
        """As a person reads it."""
        from lrgi.report.tables import plain_table

        columns, rows, how = self.table(record)
        return "\n".join([plain_table(columns, rows), "", how, *self.verdicts(record)])

    def verdicts(self, record: RunRecord) -> list[str]:
        """A line per ratio, with what was promised of it."""
        lines = []
        for name, value in record.measures["ratios"].items():
            demand = self.demands.get(name)
            said = (
                "" if demand is None else f" (demanded {demand}: {'met' if demand.met(value) else 'missed'})"
            )
            lines.append(f"{name.replace('_', ' ')}: {value:.3g}{said}")
        return lines


def kept(name: str) -> RunRecord | None:
    """The committed record of a benchmark, if there is one."""
    path = RESULTS / f"{name}.json"
    return read_record(path) if path.is_file() else None


def _command(name: str, argv: list[str] | None) -> str:
    return " ".join(["python", f"benchmarks/{name}.py", *(sys.argv[1:] if argv is None else argv)])
