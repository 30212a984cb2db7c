"""`table:results`: the paper's table, ours beside it."""

from __future__ import annotations

from pathlib import Path

from lrgi.experiments.cells import load_table
from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import (
    beside_published,
    current_records,
    details,
    machines,
    missing_lines,
    reasons,
)
from lrgi.experiments.run import run_table

TABLE = "results"


def reproduce(request: Request) -> Outcome:
    """Run what can run, and print the paper's table with our column beside each of theirs."""
    table = load_table(TABLE)
    missing = run_table(table, request)
    grid = beside_published(table, current_records(table, request.results))
    text = "\n".join([table.title, *table.remarks, "", grid.plain()])
    rows = [dict(zip([c.title or "method" for c in grid.columns], row, strict=True)) for row in grid.rows]
    return Outcome(text, {"rows": rows}, missing)


def blocks(results: Path) -> dict[str, str]:
    """The table as Markdown and LaTeX, from records alone."""
    table = load_table(TABLE)
    records = current_records(table, results)
    grid = beside_published(table, records)
    missing = missing_lines(reasons(table, results))
    lines = [*table.remarks, "", grid.markdown(), "", f"Measured on: {machines(records)}.", ""]
    lines += ["Missing:", "", *(f"- {line}" for line in missing), ""] if missing else []
    return {f"table:{TABLE}": "\n".join([*lines, details("As LaTeX", grid.latex(), "latex")])}
