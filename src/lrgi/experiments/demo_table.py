"""`table:demo`: does each method learn, that is, beat its own untrained encoder?"""

from __future__ import annotations

from pathlib import Path

from lrgi.experiments.cells import Table, load_table
from lrgi.experiments.measure import UNTRAINED
from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import (
    Grid,
    Records,
    current_records,
    machines,
    main_metric,
    missing_lines,
    own_score,
    percent,
    reasons,
)
from lrgi.experiments.run import run_table
from lrgi.report.tables import Column

TABLE = "demo"


def reproduce(request: Request) -> Outcome:
    """Run what is not on record, and print the table."""
    table = load_table(TABLE)
    missing = run_table(table, request)
    grid = gains(table, current_records(table, request.results))
    text = "\n".join([*table.remarks, "", grid.plain()])
    return Outcome(text, {"rows": [list(row) for row in grid.rows]}, missing)


def blocks(results: Path) -> dict[str, str]:
    """The table as Markdown, from records alone."""
    table = load_table(TABLE)
    records = current_records(table, results)
    missing = missing_lines(reasons(table, results))
    lines = [*(f"- {remark}" for remark in table.remarks), "", gains(table, records).markdown(), ""]
    lines += [f"Measured on: {machines(records)}."]
    lines += ["", "Missing:", "", *(f"- {line}" for line in missing)] if missing else []
    return {f"table:{TABLE}": "\n".join(lines)}


def gains(table: Table, records: Records) -> Grid:
    """A row per method: its score, that of its untrained encoder, and what that says."""
    (graph,) = table.graphs
    columns = (
        Column("", text=True),
        Column("test"),
        Column("untrained"),
        Column("gain"),
        Column("", text=True),
    )
    rows = []
    for row in table.rows:
        record = records.get(f"{graph.name}/{row}")
        own = own_score(record)
        before = None if record is None else record.mean_and_spread(UNTRAINED, main_metric(record))
        gain, verdict = "-", ""
        if own is not None and before is not None:
            gain = f"{100 * (own[0] - before[0]):+.2f}"
            verdict = "learns" if own[0] > before[0] + own[1] + before[1] else "does not learn here"
        rows.append((table.titles[row], percent(own), percent(before), gain, verdict))
    return Grid(columns, tuple(rows))
