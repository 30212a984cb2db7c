"""The drawn graph and the whole graph: their benchmarks run, and the page says what the records say."""

import sys
from pathlib import Path

import pytest

from lrgi.experiments.pages import with_blocks
from lrgi.report.record import read_record

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import products  # noqa: E402
import scale_page  # noqa: E402
import whole_graph  # noqa: E402
from question import kept  # noqa: E402


@pytest.mark.parametrize("module", [products, whole_graph])
def test_quick_run_leaves_a_whole_record(module, tmp_path, capsys, restore_threads):
    asked = module.QUESTION
    asked.main(["--quick", "--json", str(tmp_path / "record.json")])
    record = read_record(tmp_path / "record.json")
    assert set(asked.better) >= set(record.measures["ratios"])
    assert all(value > 0 for value in record.measures["ratios"].values())
    assert scale_page.markdown_table(*asked.table(record)[:2]).count("\n") > 1
    assert "1 of" in capsys.readouterr().out  # epochs


def test_the_page_says_what_the_records_say():
    page = scale_page.PAGE.read_text(encoding="utf-8")
    assert with_blocks(page, scale_page.blocks()) == page, "run python benchmarks/scale_page.py"


def test_the_drawn_graph_on_record_is_of_the_full_size_and_meets_its_targets():
    record = kept("products")
    if record is None:
        pytest.skip("not on record")
    counts = record.measures["counts"]
    assert counts == products.COUNTS
    assert record.measures["ratios"]["farthest_batch_size"] <= 1.05


def test_all_epochs_are_the_steps_taken_again_and_the_rest_once():
    row = {
        "fit": {"steps": [10, 10], "mean_step_seconds": [0.1, 0.2], "seconds": 8.0, "stepping_seconds": 5.0}
    }
    found = whole_graph._derived(row, whole_graph.Settings(epochs=2))
    assert found["seconds_of_all_epochs"] == pytest.approx(3.0 * 50 + 3.0)
