"""Every benchmark runs in its quick form, and measures what it says."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from lrgi.report.record import read_record

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import embed  # noqa: E402
import page  # noqa: E402
import question  # noqa: E402

import sampling  # noqa: E402

NAMES = page.NAMES


@pytest.mark.parametrize("name", NAMES)
def test_quick_run_leaves_a_whole_record(name, tmp_path, capsys, restore_threads):
    asked = importlib.import_module(name).QUESTION
    asked.main(["--quick", "--json", str(tmp_path / "record.json")])
    record = read_record(tmp_path / "record.json")
    assert record.cell == name and record.settings["seed"] == 0
    ratios = record.measures["ratios"]
    assert ratios and set(ratios) <= set(asked.better)
    assert all(np.isfinite(value) and value > 0 for value in ratios.values())
    assert set(asked.demands) <= set(asked.better)
    printed = capsys.readouterr().out
    assert all(f"{ratio.replace('_', ' ')}: " in printed for ratio in ratios)


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_record_is_not_of_the_quick_form(name):
    asked, record = importlib.import_module(name).QUESTION, question.kept(name)
    assert record is not None and record.cell == name
    compiled = {"lrgi_to_torch_sparse"}  # only where somebody has compiled torch-sparse
    assert set(asked.demands) - compiled <= set(record.measures["ratios"])
    assert all(record.settings[key] != value for key, value in asked.quick.items() if key != "rounds")


def test_a_demand_can_be_missed():
    assert question.Demand(5, "high").met(5) and not question.Demand(5, "high").met(4.9)
    assert question.Demand(1.05, "low").met(1.05) and not question.Demand(1.05, "low").met(1.06)


def test_bytes_of_an_embedding_by_hand():
    s = embed.Settings(width=8, heads=2)
    gat, sage = (embed.bytes_of(kind, s, nodes=10, edges=100) for kind in ("gat", "sage"))
    assert gat == {"gathered": 100 * (32 + 8 + 4), "streamed": 10 * (64 + (32 + 16) + 32)}
    assert sage == {"gathered": 100 * (32 + 4), "streamed": 10 * (64 + 32 + 32)}


def test_a_sampled_batch_counts_the_edges_that_were_written(restore_threads):
    s = sampling.Settings(nodes=2_000, mean_degree=12.0, batch=100)
    graph = sampling.products_training(s.nodes, s.mean_degree, seed=s.seed)
    draws = [sampling.our_draws(graph, s, stream) for stream in range(2)]
    most = 100 * 10 + 100 * 10 * 5
    counts = [draws[0]() for _ in range(5)]
    assert all(100 < count <= most for count in counts)
    seconds, edges, batches = sampling.timed(draws, 3)
    assert seconds > 0 and batches == 6 and 600 < edges <= 6 * most
