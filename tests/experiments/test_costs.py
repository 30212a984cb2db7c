"""The tables and figures of cost: their data, a measured cell, a measured point, and what is drawn."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lrgi.baselines.methods import METHODS
from lrgi.experiments import cost_tables, depth, figure_depth_width, figure_oversmoothing
from lrgi.experiments.cost_tables import CostCell, cost_table, hours, measure_cell
from lrgi.experiments.depth import Point, fits_for, identity, points
from lrgi.experiments.depth_fits import measure_fit
from lrgi.graph.assign import split_by_graph
from lrgi.graph.inductive import disjoint_union
from lrgi.graph.products import write_products
from lrgi.graph.store import save_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.report.figures import draw, drawn_digest
from lrgi.report.record import RunRecord, records_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["complexity", "batch"])
def test_tables_are_whole_and_cite_the_paper(name):
    table = cost_table(name)
    assert "Pina and Vilaplana" in table.source
    for cell in table.cells:
        assert cell.method in METHODS
        cell.identity("g", "cpu")  # its plan is valid
    published = {cell.name: cell.paper for cell in table.cells if cell.paper}
    assert published.pop("lrgi" if name == "complexity" else "b512") == {
        "nodes": 23_769, "edges": 28_727, "minutes": 60,
    }  # fmt: skip
    assert len(published) == 3


def test_a_cell_is_measured_on_the_training_part(tmp_path, monkeypatch):
    monkeypatch.setattr(cost_tables, "STEPS", 2)
    monkeypatch.setattr(cost_tables, "SECONDS", 0.0)
    write_products(tmp_path / "products", 0.004)
    plan = {"batch_size": 64, "width": 16}
    one, two = (
        measure_cell(CostCell("gbt", "G-BT", "gbt", plan, copies=c), tmp_path / "products", "cpu")["measures"]
        for c in (1, 2)
    )
    assert two["nodes"] == pytest.approx(2 * one["nodes"], rel=0.05)
    assert one["steps_measured"] == 2
    assert one["steps_total"] == 100 * 12  # 786 training nodes
    assert one["seconds"] == pytest.approx(one["steps_total"] * one["step_seconds"][0])


def test_a_table_without_records_shows_the_published_figures():
    table = cost_table("complexity")
    text = table.grid({}).plain()
    assert all(figure in text for figure in ("129,200", "834,140", "01h24m", "28,727"))


def test_hours_are_written_as_the_paper_writes_them():
    assert [hours(s) for s in (60 * 75, 3600, 59 * 60 + 31)] == ["01h15m", "01h00m", "01h00m"]


@pytest.fixture
def small(monkeypatch):
    given = json.loads(json.dumps(depth.settings()))
    given |= {"depths": [1, 2], "widths": [8], "smoothing_width": 8, "probe_epochs": 10}
    given["plan"]["updates"] = 2
    monkeypatch.setattr(depth, "settings", lambda: given)
    monkeypatch.setattr(figure_depth_width, "settings", lambda: given)
    monkeypatch.setattr(figure_oversmoothing, "settings", lambda: given)
    return given


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "ppi"
    graph = disjoint_union([planted_communities(200, 2000, 2, 8, seed) for seed in range(4)])
    save_graph(replace(graph, split=split_by_graph(graph.offsets, 0)), path)
    return path


def measured(path, *asked):
    return [
        found["measures"] for _, fit in fits_for(list(asked)) for found in measure_fit(fit, path).values()
    ]


@pytest.mark.parametrize("method", ["rgi", "lrgi"])
def test_a_point_has_a_score_a_distance_per_layer_and_a_peak(small, many, method):
    found = measured(many, Point(method, 2, 8))[0]
    assert 0 <= found["test"] <= 1
    assert len(found["mad"]) == 2
    assert found["out_of_memory"] is False
    assert found["peak_bytes"] >= 0


def test_one_layerwise_fit_gives_what_a_fit_of_each_depth_gives(small, many):
    both, alone = [Point("lrgi", 1, 8), Point("lrgi", 2, 8)], [Point("lrgi", 1, 8)]
    assert len(fits_for(both)) == 1
    assert len(fits_for([Point("rgi", 1, 8), Point("rgi", 2, 8)])) == 2
    together, one = measured(many, *both), measured(many, *alone)
    for key in ("test", "validation", "mad", "roc_auc"):
        assert together[0][key] == one[0][key]
    assert len(together[1]["mad"]) == 2
    assert together[1]["mad"][0] == one[0]["mad"][0]
    assert together[1]["peak_bytes"] >= together[0]["peak_bytes"]


def test_a_point_beyond_the_limit_is_not_fitted(small, many):
    small["memory_limit_gib"] = 0.0
    found = measured(many, Point("rgi", 2, 64))[0]
    assert found["out_of_memory"] is True
    assert found["needed_bytes"] > 0
    assert "test" not in found


def recorded(out_of_memory=()):
    made = {}
    for point in points():
        measures = {"metric": "accuracy", "test": 0.5 + 0.01 * point.depth, "mad": [0.1] * point.depth,
                    "peak_bytes": 2**20, "needed_bytes": 2**30,
                    "out_of_memory": point.name in out_of_memory}  # fmt: skip
        made[point.name] = RunRecord(
            depth.EXPERIMENT, point.name, identity(point, "g", "cpu"), measures=measures
        )
    return made


def test_a_record_stands_under_any_limit_that_would_have_done_the_same(small):
    fitted = recorded()["rgi-l2-d8"]  # held 1 MiB
    broken = recorded(out_of_memory=("rgi-l2-d8",))["rgi-l2-d8"]  # would have held 1 GiB
    for limit, stands in ((0.0001, (False, True)), (0.5, (True, True)), (2.0, (True, False))):
        asked = {**identity(Point("rgi", 2, 8), "g", "cuda"), "memory_limit_gib": limit}
        assert (depth._stands(fitted, asked), depth._stands(broken, asked)) == stands
    other = {**identity(Point("rgi", 2, 8), "g", "cpu"), "graph": "h"}
    assert not depth._stands(fitted, other)


def test_figures_show_every_point_and_cross_out_what_does_not_fit(small):
    records = recorded(out_of_memory=("rgi-l2-d8",))
    figure = figure_depth_width.figure_of(records)
    rgi, lrgi = figure.panels[0].lines
    assert (rgi.x, rgi.crosses) == ((1.0,), (2.0,))
    assert (lrgi.x, lrgi.crosses) == ((1.0, 2.0), ())
    assert "out of memory (1,024 MiB)" in figure_depth_width._grid(records).plain()
    smooth = figure_oversmoothing.figure_of(records)
    assert [len(panel.lines) for panel in smooth.panels] == [1, 2]


def test_a_drawing_says_what_it_was_drawn_from(small, tmp_path):
    pytest.importorskip("matplotlib")
    figure = figure_depth_width.figure_of(recorded())
    svg, png = draw(figure, tmp_path / "one")
    again, _ = draw(figure, tmp_path / "two")
    assert svg.read_bytes() == again.read_bytes()
    assert drawn_digest(svg) == figure.digest
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "fill: #ffffff" in svg.read_text()  # readable on a dark page
    other = figure_depth_width.figure_of(recorded(out_of_memory=("rgi-l2-d8",)))
    assert other.digest != figure.digest


@pytest.mark.parametrize("module", [figure_depth_width, figure_oversmoothing])
def test_committed_figures_are_those_of_the_records(module):
    if not records_of(ROOT / "results", depth.EXPERIMENT):
        pytest.skip("no point is on record")
    drawn = drawn_digest(ROOT / "results" / "figures" / f"{module.NAME}.svg")
    assert drawn == _figure(module).digest, "run lrgi reproduce figure:" + module.NAME


def _figure(module):
    records = records_of(ROOT / "results", depth.EXPERIMENT)
    if module is figure_oversmoothing:
        records = module._records(ROOT / "results")
    return module.figure_of(records)
