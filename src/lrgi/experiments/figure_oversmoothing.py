"""`lrgi reproduce figure:oversmoothing`: MAD of every hidden layer of RGI and LRGI, for several depths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lrgi.experiments.depth import EXPERIMENT, measure_points, points, settings
from lrgi.experiments.drawn import figure_block, keep_figure
from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import Grid, machines
from lrgi.report.figures import Figure, Line, Panel
from lrgi.report.record import RunRecord, records_of
from lrgi.report.tables import Column

NAME = "oversmoothing"
_TITLES = {"rgi": "RGI", "lrgi": "LRGI"}


def reproduce(request: Request) -> Outcome:
    """Fit what is missing of one width (the points are those of figure:depth-width), and draw."""
    missing = measure_points(points((settings()["smoothing_width"],)), request)
    records = _records(request.results)
    where = keep_figure(figure_of(records), NAME, request)
    rows = {name: dict(record.measures) for name, record in records.items()}
    return Outcome(f"{_grid(records).plain()}\n\n{_how(records)}\n{where}", rows, missing)


def blocks(results: Path) -> dict[str, str]:
    """The figure, and its numbers as a table."""
    records = _records(results)
    return {"figure:oversmoothing": figure_block(figure_of(records), NAME, _grid(records), _how(records))}


def figure_of(records: Mapping[str, RunRecord]) -> Figure:
    """A panel per method, a line per depth."""
    panels = []
    for method in settings()["methods"]:
        lines = []
        for style, depth in enumerate(settings()["depths"]):
            record = _fitted(records, method, depth)
            if record is not None:
                mads = tuple(float(value) for value in record.measures["mad"])
                layers = tuple(float(layer) for layer in range(1, depth + 1))
                lines.append(Line(f"L {depth}", layers, mads, style=style))
        panels.append(Panel(_TITLES[method], "layer", "MAD", tuple(lines)))
    graph = ", ".join(sorted({str(r.settings["graph"]) for r in records.values()})) or "-"
    width = settings()["smoothing_width"]
    return Figure(f"MAD of the layers' outputs, D {width}, {graph}", tuple(panels))


def _records(results: Path) -> dict[str, RunRecord]:
    wanted = {point.name for point in points((settings()["smoothing_width"],))}
    return {name: r for name, r in records_of(results, EXPERIMENT).items() if name in wanted}


def _fitted(records: Mapping[str, RunRecord], method: str, depth: int) -> RunRecord | None:
    record = records.get(f"{method}-l{depth}-d{settings()['smoothing_width']}")
    return None if record is None or record.measures["out_of_memory"] else record


def _grid(records: Mapping[str, RunRecord]) -> Grid:
    depths = settings()["depths"]
    columns = (Column("", text=True), Column("first layer"), Column("lowest"), Column("last layer"))
    rows = []
    for method in settings()["methods"]:
        for depth in depths:
            record = _fitted(records, method, depth)
            found = None if record is None else record.measures["mad"]
            cells = (
                ("-",) * 3 if found is None else tuple(f"{v:.3f}" for v in (found[0], min(found), found[-1]))
            )
            rows.append((f"{_TITLES[method]}, L {depth}", *cells))
    return Grid(columns, tuple(rows))


def _how(records: Mapping[str, RunRecord]) -> str:
    return (
        "MAD: mean cosine distance between neighbours, 0 when they are alike (on 200,000 sampled edges of "
        f"all graphs). The fits are those of figure:depth-width with D {settings()['smoothing_width']}. "
        f"Measured on: {machines(records)}."
    )
