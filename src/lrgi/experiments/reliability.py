"""What runs survived and what readers were handed, from the records of `make torture` and `make fuzz`.

Those live with the tests, whose broken disks and damaged files they use; this shows what they found.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import Grid, machines
from lrgi.report.record import RunRecord, records_of
from lrgi.report.tables import Column

EXPERIMENT = "table:reliability"
CELLS = {"kills": "make torture", "faults": "make torture", "damage": "make torture", "fuzz": "make fuzz"}

_PHASES = ("training", "snapshot", "embedding", "export", "elsewhere")


def reproduce(request: Request) -> Outcome:
    """What is on record; the rest is made from the source tree."""
    records = records_of(request.results, EXPERIMENT)
    text = "\n\n".join(_grid(name, records[name].measures).plain() for name in CELLS if name in records)
    missing = {name: f"run `{how}` in the source tree" for name, how in CELLS.items() if name not in records}
    return Outcome(text, {name: dict(record.measures) for name, record in records.items()}, missing)


def blocks(results: Path) -> dict[str, str]:
    """A table for each of the four."""
    records = records_of(results, EXPERIMENT)
    return {f"{EXPERIMENT}:{name}": _block(name, records.get(name)) for name in CELLS}


def _block(name: str, record: RunRecord | None) -> str:
    if record is None:
        return f"Not on record yet: `{CELLS[name]}`."
    said = ", ".join(f"{key} {value}" for key, value in record.settings.items())
    where = f"With {said}; {record.measures['seconds']:,} seconds on {machines({name: record})}."
    return f"{_grid(name, record.measures).markdown()}\n\n{where}"


def _grid(name: str, measures: Mapping[str, Any]) -> Grid:
    return {"kills": _kills, "faults": _faults, "damage": _damage, "fuzz": _fuzz}[name](measures)


def _kills(measures: Mapping[str, Any]) -> Grid:
    columns = (
        Column("threads"),
        Column("kills survived"),
        *(Column(f"in {p}") for p in _PHASES),
        Column("runs"),
    )
    rows = []
    for row in measures["rows"]:
        phases = [row["kills"].get(phase, 0) for phase in _PHASES]
        rows.append(tuple(map(_n, (row["threads"], sum(phases), *phases, row["runs"]))))
    return Grid(columns, tuple(rows))


def _faults(measures: Mapping[str, Any]) -> Grid:
    columns = (Column("command", text=True), *(Column(fault) for fault in measures["faults"]))
    rows = [
        (name, *(_n(row.get(f, 0)) for f in measures["faults"])) for name, row in measures["rows"].items()
    ]
    return Grid(columns, tuple(rows))


def _damage(measures: Mapping[str, Any]) -> Grid:
    columns = (
        Column("directory", text=True),
        Column("files"),
        Column("damages, all named"),
        Column("uses after"),
    )
    rows = [(n, _n(r["files"]), _n(r["damages"]), _n(r["commands"])) for n, r in measures["rows"].items()]
    return Grid(columns, (*rows, ("together", *(_n(sum(r[key] for r in measures["rows"].values()))
                                                for key in ("files", "damages", "commands")))))  # fmt: skip


def _fuzz(measures: Mapping[str, Any]) -> Grid:
    columns = (Column("reader", text=True), Column("inputs"), Column("refused with a sentence"),
               Column("slowest, s"))  # fmt: skip
    rows = [
        (r["reader"], _n(r["inputs"]), _n(r["refused"]), f"{r['slowest_seconds']:.2f}")
        for r in measures["readers"]
    ]
    total = [_n(sum(r[key] for r in measures["readers"])) for key in ("inputs", "refused")]
    slowest = max(r["slowest_seconds"] for r in measures["readers"])
    return Grid(columns, (*rows, ("together", *total, f"{slowest:.2f}")))


def _n(value: int) -> str:
    return f"{value:,}"
