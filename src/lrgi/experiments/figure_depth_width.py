"""`lrgi reproduce figure:depth-width`: probe score and peak memory of RGI and LRGI over depth and width."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lrgi.experiments.depth import EXPERIMENT, measure_points, points, settings, shown_score
from lrgi.experiments.drawn import figure_block, keep_figure
from lrgi.experiments.registry import Outcome, Request
from lrgi.experiments.render import Grid, machines
from lrgi.report.figures import Figure, Line, Panel
from lrgi.report.record import RunRecord, records_of
from lrgi.report.tables import Column

NAME = "depth-width"
_TITLES = {"rgi": "RGI", "lrgi": "LRGI"}


def reproduce(request: Request) -> Outcome:
    """Fit what is missing, and draw what there is."""
    missing = measure_points(points(), request)
    records = records_of(request.results, EXPERIMENT)
    where = keep_figure(figure_of(records), NAME, request)
    rows = {name: dict(record.measures) for name, record in records.items()}
    return Outcome(f"{_grid(records).plain()}\n\n{_how(records)}\n{where}", rows, missing)


def blocks(results: Path) -> dict[str, str]:
    """The figure, and its numbers as a table."""
    records = records_of(results, EXPERIMENT)
    return {EXPERIMENT: figure_block(figure_of(records), NAME, _grid(records), _how(records))}


def figure_of(records: Mapping[str, RunRecord]) -> Figure:
    """A panel of scores and one of memory; crosses are fits that would not stay within the limit."""
    scores, memory = [], []
    for style, width in enumerate(settings()["widths"]):
        for method in settings()["methods"]:
            found = [records.get(p.name) for p in points((width,)) if p.method == method]
            there = sorted((r for r in found if r is not None), key=lambda r: r.settings["plan"]["layers"])
            fitted = [r for r in there if not r.measures["out_of_memory"]]
            broken = tuple(float(r.settings["plan"]["layers"]) for r in there if r.measures["out_of_memory"])
            depths = tuple(float(r.settings["plan"]["layers"]) for r in fitted)
            label = f"{_TITLES[method]}, D {width}"
            look = 2 * style + (method == "lrgi")
            test = tuple(shown_score(r.measures)[1] for r in fitted)
            peak = tuple(r.measures["peak_bytes"] / 2**20 for r in fitted)
            scores.append(Line(label, depths, test, broken, look))
            memory.append(Line(label, depths, peak, broken, look))
    limit = settings()["memory_limit_gib"]
    graph = ", ".join(sorted({str(r.settings["graph"]) for r in records.values()})) or "-"
    return Figure(
        f"RGI and LRGI over depth and width, {graph}",
        (
            Panel("linear probe", "layers L", f"test {metric_of(records)}", tuple(scores)),
            Panel("peak memory of the fit", "layers L", "MiB", tuple(memory), log_y=True),
        ),
        f"crosses at the lower edge: out of memory under a limit of {limit:g} GiB",
    )


def metric_of(records: Mapping[str, RunRecord]) -> str:
    """What the shown scores are."""
    names = {shown_score(r.measures)[0] for r in records.values() if not r.measures["out_of_memory"]}
    return " or ".join(sorted(names)) or "score"


def _grid(records: Mapping[str, RunRecord]) -> Grid:
    columns = [Column("", text=True), *(Column(f"L {depth}") for depth in settings()["depths"])]
    rows = []
    for method in settings()["methods"]:
        for width in settings()["widths"]:
            cells = sorted(p for p in points((width,)) if p.method == method)
            rows.append((f"{_TITLES[method]}, D {width}", *(_cell(records.get(p.name)) for p in cells)))
    return Grid(tuple(columns), tuple(rows))


def _cell(record: RunRecord | None) -> str:
    if record is None:
        return "-"
    m = record.measures
    if m["out_of_memory"]:
        return f"out of memory ({m['needed_bytes'] / 2**20:,.0f} MiB)"
    return f"{100 * shown_score(m)[1]:.1f} ({m['peak_bytes'] / 2**20:,.0f} MiB)"


def _how(records: Mapping[str, RunRecord]) -> str:
    plan, limit = settings()["plan"], settings()["memory_limit_gib"]
    return (
        f"Test {metric_of(records)} of a linear probe in percent, inductive, one seed, with the fit's peak "
        f"memory beside the graph. {plan['updates']} updates per layer (RGI: in all) on whole graphs: far "
        f"shorter than the paper's fits. A layer-wise fit gives all depths of a width. "
        f"Out of memory: more than {limit:g} GiB would be held. "
        f"Measured on: {machines(records)}."
    )
