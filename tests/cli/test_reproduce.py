"""`lrgi reproduce`: lists, pages, runs, and its sentences."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lrgi.experiments.registry import REPRODUCTIONS
from reference.tiny import npz_arrays, tiny_graph

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"


def test_the_list_names_all(lrgi):
    answer = lrgi("reproduce", "--list")
    assert answer.code == 0
    assert all(name in answer.out for name in REPRODUCTIONS)
    assert set(lrgi("reproduce", "--list", "--json").json["experiments"]) == set(REPRODUCTIONS)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "an experiment must be named, got none; see `lrgi reproduce --list`"),
        (["table:none"], "an experiment must be one of table:results, "),
        (["table:results", "--seeds", "a"], "--seeds must be a whole number, got 'a'"),
        (["table:results", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["table:results", "--data-set", "cora"], "a data set of this table must be one of ppi, "),
        (["--pages", "no.md"], "the page must exist, got no.md"),
        (
            ["--pages", PAGE.parent / "tables.md"],
            "the page must be called one of reliability.md, results.md, scale.md, got tables.md",
        ),
    ],
)
def test_mistakes_are_one_sentence(lrgi, words, sentence):
    answer = lrgi("reproduce", *words)
    assert answer.code == 2
    assert sentence in answer.err


def test_without_the_graphs_the_papers_table_says_how_to_get_them(lrgi, tmp_path):
    answer = lrgi("reproduce", "table:results", "--data", tmp_path, "--results", tmp_path)
    assert answer.code == 0
    assert "79.74 ± 0.25" in answer.out
    assert "lrgi import ppi --root FOLDER --out DATA/ppi" in answer.out
    given = lrgi("reproduce", "table:results", "--data", tmp_path, "--results", tmp_path, "--json").json
    assert len(given["missing"]) == 21
    assert given["table"]["rows"][0]["PPI, published"] == "42.20"


def test_a_cell_is_run_recorded_shown_and_written_into_the_page(lrgi, tmp_path):
    """A graph that is called cora, and is none."""
    graph = tiny_graph()
    part = np.arange(240) % 4
    masks = {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part > 1}
    np.savez(tmp_path / "cora.npz", **npz_arrays(graph), **masks)
    places = ["--data", tmp_path, "--results", tmp_path / "results"]
    only = ["--data-set", "cora", "--method", "raw", "--seeds", "0", "--budget", "5", "--quiet"]
    answer = lrgi("reproduce", "table:real-graphs", *places, *only)
    assert answer.code == 0
    assert "Missing" not in answer.out
    record = json.loads((tmp_path / "results" / "real-graphs" / "cora" / "raw.json").read_text())
    score = f"{100 * record['scores'][0]['test'][0]:.2f} ± 0.00"
    assert score in answer.out
    page = tmp_path / PAGE.name
    shutil.copy(PAGE, page)
    again = ["reproduce", "--pages", page, "--results", tmp_path / "results"]
    assert "was written again" in lrgi(*again).out
    assert score in page.read_text()
    assert "agrees with the records" in lrgi(*again).out
