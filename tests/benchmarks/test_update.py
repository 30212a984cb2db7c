"""The benchmark of updates: what it compares is the same, and the page says what the record says."""

import json
import sys
from pathlib import Path

import numpy as np

from lrgi.graph.synthetic import planted_communities

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import update as benchmark  # noqa: E402


def test_update_and_scratch_make_the_same_of_the_changed_graph(tmp_path):
    graph = planted_communities(300, 1200, classes=3, features=6)
    encoder = benchmark.drawn_encoder("gat", 6, 8, 2)
    old = benchmark.tables(encoder, graph, tmp_path, "old")
    row = benchmark.measured(encoder, graph, old, 0.01, 1)
    changed, change = benchmark.changed_graph(graph, 0.01, tmp_path / "again")
    assert row["changed_edges"] == 6 == (len(change.receivers) + len(change.gone)) // 2
    assert row["rows_with_other_neighbours"] == len(change.changed_rows(graph))
    assert not np.array_equal(changed.indices, graph.indices)
    shares = [layer["share"] for layer in row["layers"]]
    assert 0 < shares[0] < shares[1] < 1
    assert row["bits"] == "equal"


def test_the_page_says_what_the_record_says():
    record = json.loads((ROOT / "benchmarks" / "results" / "update.json").read_text())
    text = (ROOT / "docs" / "update.md").read_text()
    assert text.split(benchmark.BEGIN)[1].split(benchmark.END)[0] == benchmark.table_of(record)
    assert record["settings"]["nodes"] > 190_000
    assert {(row["layer"], row["changed"]) for row in record["rows"]} >= {("gat", 0.001), ("gat", 0.01)}
    assert all(row["bits"] == "equal" for row in record["rows"])
