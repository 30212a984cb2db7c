"""`table:real-graphs`: every method on eight small real graphs, and what that says of LRGI."""

from __future__ import annotations

from pathlib import Path

from lrgi.experiments.cells import DataSet, Table, load_table
from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import (
    Grid,
    Records,
    beside_published,
    chosen_readouts,
    chosen_score,
    current_records,
    details,
    machines,
    main_metric,
    missing_lines,
    own_score,
    percent,
    reasons,
    seconds,
)
from lrgi.experiments.run import run_table
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column

TABLE = "real-graphs"
OURS = ("lrgi", "rgi", "whiten")  # what this package brings; the read-out and the method by validation
WITHOUT_LEARNING = ("raw", "random", "propagate")


def reproduce(request: Request) -> Outcome:
    """Run what can run, and print the tables of all records."""
    table = load_table(TABLE)
    missing = run_table(table, request)
    records = current_records(table, request.results)
    parts = [(title, grid) for title, grid in _parts(table, records)]
    text = "\n\n".join([*table.remarks, *(f"{title}\n\n{grid.plain()}" for title, grid in parts)])
    rows = {title: [list(row) for row in grid.rows] for title, grid in parts}
    return Outcome(text, {"parts": rows}, missing)


def blocks(results: Path) -> dict[str, str]:
    """All of it as Markdown, the first table as LaTeX too, from records alone."""
    table = load_table(TABLE)
    records = current_records(table, results)
    parts = _parts(table, records)
    text = [*(f"- {remark}" for remark in table.remarks), ""]
    for title, grid in parts:
        text += [f"**{title}**", "", grid.markdown(), ""]
    text += [f"Measured on: {machines(records)}.", ""]
    missing = missing_lines(reasons(table, results))
    text += ["Missing:", "", *(f"- {line}" for line in missing), ""] if missing else []
    return {f"table:{TABLE}": "\n".join([*text, details("As LaTeX", parts[0][1].latex(), "latex")])}


_OWN = "Test score of each method's own read-out (the last layer's u), percent"
_CHOSEN = "Test score of the read-out with the best validation score (VIEW:LAYERS), percent"
_VERDICTS = "LRGI against what learns nothing, and the best of ours against the best published, percent"


def _parts(table: Table, records: Records) -> list[tuple[str, Grid]]:
    return [
        (_OWN, beside_published(table, records)),
        (_CHOSEN, chosen_readouts(table, records)),
        (_VERDICTS, verdicts(table, records)),
        ("Seconds of one fit", seconds(table, records)),
    ]


def verdicts(table: Table, records: Records) -> Grid:
    """A row per graph: LRGI beside what learns nothing, and the best of ours beside the best published."""
    titles = ["LRGI", "best of raw, random, propagated", "difference"]
    titles += ["best of ours by validation", "best published", "difference"]
    columns = (Column("", text=True), *(Column(title) for title in titles))
    rows = [(graph.title, *_verdict(graph, records)) for graph in table.graphs]
    return Grid(columns, tuple(rows))


def _verdict(graph: DataSet, records: Records) -> tuple[str, ...]:
    def at(*rows: str) -> list[RunRecord]:
        return [records[name] for row in rows if (name := f"{graph.name}/{row}") in records]

    lrgi = next(map(own_score, at("lrgi")), None)
    floor = max((score for record in at(*WITHOUT_LEARNING) if (score := own_score(record))), default=None)
    best = by_validation(at(*OURS))
    score, theirs = chosen_score(best), None if graph.best is None else (graph.best / 100, 0.0)
    which = "" if best is None else f" ({best.cell.partition('/')[2]}, {best.chosen})"
    return (
        percent(lrgi), percent(floor), _difference(lrgi, floor), percent(score) + which,
        "-" if graph.best is None else f"{graph.best:.2f}", _difference(score, theirs),
    )  # fmt: skip


def by_validation(records: list[RunRecord]) -> RunRecord | None:
    """The record whose chosen read-out has the best mean validation score."""

    def score(record: RunRecord) -> float:
        found = record.mean_and_spread(str(record.chosen), main_metric(record), "validation")
        return -1.0 if found is None else found[0]

    return max(records, key=score, default=None)


def _difference(ours: tuple[float, float] | None, other: tuple[float, float] | None) -> str:
    return "-" if ours is None or other is None else f"{100 * (ours[0] - other[0]):+.2f}"
