"""The benchmark of imports: both ways give the same graph, and the page says what the record says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from lrgi.graph.store import open_graph

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import import_tables as benchmark  # noqa: E402


def test_pandas_and_lrgi_make_the_same_graph(tmp_path):
    pytest.importorskip("pandas")
    folder = tmp_path / "scratch"
    benchmark.make_tables(folder, 3000, 200)
    assert benchmark.with_lrgi(folder) == benchmark.with_pandas(folder)
    graph, other = open_graph(folder / "graph"), folder / "pandas"
    np.testing.assert_array_equal(graph.indptr, np.load(other / "indptr.npy"))
    np.testing.assert_array_equal(graph.indices, np.load(other / "indices.npy"))
    np.testing.assert_array_equal(graph.ids, np.load(other / "ids.npy"))
    np.testing.assert_allclose(graph.features.array, np.load(other / "features.npy"), rtol=1e-4, atol=1e-6)


def test_the_page_says_what_the_record_says():
    record = json.loads((ROOT / "benchmarks" / "results" / "import_tables.json").read_text())
    text = (ROOT / "docs" / "tables.md").read_text()
    table = text.split("<!-- import_tables: begin -->\n")[1].split("<!-- import_tables: end -->")[0]
    titles = {"lrgi": "`lrgi import`", "pandas": "pandas"}
    rows = [
        f"| {titles[row['who']]} | {row['edges']:,} | {row['nodes']:,} | {row['seconds']} | "
        f"{row['edges_per_second']:,} | {row['peak_gb']} GB |"
        for row in record["rows"]
    ]
    assert table.splitlines()[2:] == rows
    largest = record["rows"][0]
    assert (largest["who"], largest["edges"]) == ("lrgi", 100_000_000)
    assert largest["peak_gb"] < 4
