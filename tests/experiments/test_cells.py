"""The experiments as data: every file is read, every setting has a source, mistakes are one sentence."""

import shutil
from pathlib import Path

import pytest

from lrgi.baselines.methods import METHODS
from lrgi.errors import FormatError, InputError
from lrgi.experiments.cells import FOLDER, difference, load_table, setting_defaults

PAPER = {  # the paper's table Classification accuracy, typed a second time
    "raw": (42.20, 58.50, 50.90), "random": (62.60, 93.30, 39.91), "dgi": (63.80, 94.00, 58.25),
    "gbt": (74.13, 94.93, 69.47), "graphmae": (74.50, 96.08, None), "rgi": (82.40, 95.82, 69.32),
    "lrgi": (79.74, 95.44, 70.77),
}  # fmt: skip


@pytest.mark.parametrize("name", ["results", "real-graphs", "demo"])
def test_every_cell_can_be_fitted_and_every_file_belongs_to_one(name):
    table = load_table(name)
    assert len(table.cells) == len(table.rows) * len(table.graphs)
    for cell in table.cells:
        assert cell.method in METHODS
        assert cell.fit_plan(3).seed == 3
        assert cell.identity()["plan"]["width"] == cell.plan["width"]
    used = {FOLDER / name / "table.toml", *(FOLDER / name / f"{row}.toml" for row in table.rows)}
    used |= {FOLDER / name / graph.name / f"{row}.toml" for graph in table.graphs for row in table.rows}
    assert {*(FOLDER / name).rglob("*.toml")} <= used


def test_the_papers_table_has_one_file_per_cell_and_a_source_for_each_number():
    table = load_table("results")
    assert tuple(graph.name for graph in table.graphs) == ("ppi", "reddit", "ogbn-products")
    assert tuple(table.rows) == tuple(PAPER)
    for cell in table.cells:
        path = FOLDER / "results" / cell.data.name / f"{cell.row}.toml"
        assert path.exists()
        for setting in (*cell.plan, *cell.settings):
            assert cell.sources.get(setting), f"{path}: {setting} must have a source"
        expected = PAPER[cell.row][[g.name for g in table.graphs].index(cell.data.name)]
        assert (cell.paper and cell.paper.score) == expected
        assert cell.paper is None or cell.paper.source
    written = set(table.cell("ppi", "lrgi").plan)
    assert written >= {
        "layers", "width", "layer", "heads", "fit_on", "batch_size", "neighbours", "next_neighbours",
        "epochs", "learning_rate", "weight_decay", "warmup", "schedule", "reconstruction", "variance",
        "covariance", "predictors", "expansion", "precision",
    }  # fmt: skip


def test_all_real_graphs_are_fitted_at_one_width_by_every_method():
    table = load_table("real-graphs")
    assert {cell.plan["width"] for cell in table.cells} == {256}
    assert {cell.method for cell in table.cells} == set(METHODS)
    assert {cell.row for cell in table.cells if cell.readouts == "all"} == {
        "random", "propagate", "whiten", "rgi", "lrgi", "lrgi-default",
    }  # fmt: skip
    physics = table.cell("coauthor_physics", "cca-ssg")
    assert physics.data.features == ("binary", "row-normalised")
    assert physics.settings == {"edges": 0.5, "columns": 0.5}
    assert table.cell("amazon_computers", "bgrl").paper.score == 90.34


def test_the_demo_has_every_method_on_the_demos_graph():
    table = load_table("demo")
    assert {cell.method for cell in table.cells} == set(METHODS)
    assert all(cell.untrained and cell.data.generated["nodes"] == 5000 for cell in table.cells)


def test_a_row_may_leave_the_tables_plan_aside():
    cell = load_table("real-graphs").cell("cora", "lrgi-default")
    assert cell.plan == {"width": 256}


def test_settings_that_changed_are_named_and_new_ones_count_with_their_default():
    cell = load_table("real-graphs").cell("cora", "gbt")
    now, defaults = cell.identity(), setting_defaults(cell)
    assert difference(now, now, defaults) is None
    changed = {**now, "plan": {**now["plan"], "updates": 7}}
    assert difference(changed, now, defaults) == f"plan.updates was 7, is {now['plan']['updates']}"
    older = {**now, "plan": {k: v for k, v in now["plan"].items() if k != "warmup"}}
    assert difference(older, now, defaults) is None
    older = {**now, "plan": {k: v for k, v in now["plan"].items() if k != "inputs"}}
    assert difference(older, now, defaults) is None  # features were taken as given before there was a choice
    older = {**now, "plan": {k: v for k, v in now["plan"].items() if k != "layer"}}
    assert difference(older, now, defaults) == "plan.layer is new, and 'plain-gcn'"


def test_names_that_are_not_there_are_refused():
    table = load_table("real-graphs")
    with pytest.raises(InputError, match=r"a data set of this table must be one of .*, got 'corra'; choose"):
        table.chosen(("corra",))
    with pytest.raises(InputError, match=r"a method of this table must be one of raw, .*, got 'svd'; choose"):
        table.chosen((), ("svd",))
    assert [cell.name for cell in table.chosen(("cora",), ("raw", "lrgi"))] == ["cora/raw", "cora/lrgi"]


@pytest.mark.parametrize(
    ("file", "before", "after", "sentence"),
    [
        (
            "lrgi.toml",
            "[plan]",
            "[plan]\nlayerz = 2",
            r"lrgi\.toml: on .*: a setting must be .*'layerz'",
        ),
        ("lrgi.toml", "title", "titel", r"lrgi\.toml: keys of a row must be among .*, got 'titel'; correct"),
        ("lrgi.toml", "title", "= title", r"lrgi\.toml: an experiment must be a TOML file, got "),
        ("gbt.toml", "columns", "colums", r"gbt\.toml: on .*colums"),
        ("table.toml", '"transductive"', '"both"', r"protocol must be one of transductive, inductive, got"),
        ("table.toml", '"binary"', '"binry"', r"a step of features must be one of binary, .*, got 'binry'"),
    ],
)
def test_mistakes_in_a_file_are_told_with_its_name(tmp_path, file, before, after, sentence):
    shutil.copytree(FOLDER / "real-graphs", tmp_path / "real-graphs")
    path: Path = tmp_path / "real-graphs" / file
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(FormatError, match=sentence):
        load_table("real-graphs", tmp_path)
