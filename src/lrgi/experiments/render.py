"""A table's records as text: scores in percent, the published ones beside them, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lrgi.experiments.cells import Cell, DataSet, Table
from lrgi.experiments.run import stale
from lrgi.report.record import RunRecord, records_of
from lrgi.report.tables import Column, latex_table, markdown_table, plain_table

Records = Mapping[str, RunRecord]
MAIN_METRIC = ("accuracy", "micro_f1")


@dataclass(frozen=True)
class Grid:
    """Columns and rows of text, to be shown in one of three ways."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def plain(self) -> str:
        """For a terminal."""
        return plain_table(self.columns, self.rows)

    def markdown(self) -> str:
        """For a page."""
        return markdown_table(self.columns, self.rows)

    def latex(self) -> str:
        """For a paper."""
        return latex_table(self.columns, self.rows)


def current_records(table: Table, results: Path) -> dict[str, RunRecord]:
    """The records that stand for the cells as they are now."""
    found = records_of(results, f"table:{table.name}")
    by_name = {cell.name: cell for cell in table.cells}
    return {n: r for n, r in found.items() if n in by_name and stale(by_name[n], r) is None}


def reasons(table: Table, results: Path) -> dict[str, str]:
    """Why cells have no score, by cell."""
    found = records_of(results, f"table:{table.name}")
    why = {cell.name: stale(cell, found.get(cell.name)) for cell in table.cells}
    return {name: reason for name, reason in why.items() if reason is not None}


def percent(score: tuple[float, float] | None) -> str:
    """Mean and spread, or a dash."""
    return "-" if score is None else f"{100 * score[0]:.2f} ± {100 * score[1]:.2f}"


def published(cell: Cell) -> str:
    """The published score, or a dash."""
    if cell.paper is None:
        return "-"
    spread = "" if cell.paper.spread is None else f" ± {cell.paper.spread:.2f}"
    return f"{cell.paper.score:.2f}{spread}"


def main_metric(record: RunRecord) -> str:
    """Accuracy or micro-F1."""
    return next(score.metric for score in record.scores if score.metric in MAIN_METRIC)


def own_score(record: RunRecord | None, metric: str | None = None) -> tuple[float, float] | None:
    """Test mean and spread of the method's own read-out."""
    if record is None or record.main is None:
        return None
    return record.mean_and_spread(record.main, metric or main_metric(record))


def chosen_score(record: RunRecord | None) -> tuple[float, float] | None:
    """Test mean and spread of the read-out with the best validation score."""
    if record is None or record.chosen is None:
        return None
    return record.mean_and_spread(record.chosen, main_metric(record))


def beside_published(table: Table, records: Records) -> Grid:
    """A row per method: of each graph the published score, where there are some, and ours."""
    columns, graphs = [Column("", text=True)], []
    for graph in table.graphs:
        has = any(cell.paper for cell in table.cells if cell.data.name == graph.name)
        graphs.append((graph, has))
        columns += [Column(f"{graph.title}, published")] if has else []
        columns += [Column(f"{graph.title}{', ours' if has else ''}")]
        columns += [Column(f"{graph.title}, {_metric_title(metric)}") for metric in graph.metrics]
    rows = []
    for row in table.rows:
        line = [table.titles[row]]
        for graph, has in graphs:
            cell = table.cell(graph.name, row)
            record = records.get(cell.name)
            line += [published(cell)] if has else []
            line += [percent(own_score(record))]
            line += [percent(own_score(record, metric)) for metric in graph.metrics]
        rows.append(tuple(line))
    return Grid(tuple(columns), tuple(rows))


def chosen_readouts(table: Table, records: Records) -> Grid:
    """A row per method: of each graph the score of the chosen read-out, and which that is."""
    columns = (Column("", text=True), *(Column(graph.title) for graph in table.graphs))
    rows = []
    for row in table.rows:
        line = [table.titles[row]]
        for graph in table.graphs:
            record = records.get(f"{graph.name}/{row}")
            score = percent(chosen_score(record))
            line.append(score if record is None else f"{score} ({record.chosen})")
        rows.append(tuple(line))
    return Grid(columns, tuple(rows))


def seconds(table: Table, records: Records) -> Grid:
    """A row per method: of each graph the mean seconds of a fit."""
    columns = (Column("", text=True), *(Column(graph.title) for graph in table.graphs))
    rows = []
    for row in table.rows:
        found = [records.get(f"{graph.name}/{row}") for graph in table.graphs]
        shown = ["-" if r is None or r.seconds is None else f"{r.seconds:.1f}" for r in found]
        rows.append((table.titles[row], *shown))
    return Grid(columns, tuple(rows))


def machines(records: Records) -> str:
    """Where the records were made, in one sentence."""
    found = sorted({_machine(record) for record in records.values()})
    return "; ".join(found) if found else "nowhere yet"


def missing_lines(missing: Mapping[str, str]) -> list[str]:
    """Reasons with their cells, one line per reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in missing.items():
        by_reason.setdefault(reason, []).append(name)
    return [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]


def details(title: str, text: str, language: str = "") -> str:
    """A part of a page that opens on a click."""
    return f"<details><summary>{title}</summary>\n\n```{language}\n{text}\n```\n\n</details>"


def graphs_called(table: Table, names: Sequence[str]) -> list[DataSet]:
    """The graphs of those names, in the table's order; none named: all."""
    return [graph for graph in table.graphs if not names or graph.name in names]


def _machine(record: RunRecord) -> str:
    at, on = record.hardware, record.hardware.get("device", "cpu")
    what = at.get("gpu") if str(on).startswith("cuda") else f"{at.get('cpu')}, {at.get('threads')} threads"
    return f"{what} (torch {record.versions.get('torch')})"


def _metric_title(metric: str) -> str:
    return {"roc_auc": "ROC area", "accuracy": "accuracy", "micro_f1": "micro-F1"}[metric]
