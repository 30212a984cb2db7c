"""benchmarks/step.py measures what it says: the same step twice, and the work it needs."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import floor  # noqa: E402
import step  # noqa: E402
import step_page  # noqa: E402

from lrgi.graph.features import DenseTable  # noqa: E402
from lrgi.graph.synthetic import products_training  # noqa: E402


@pytest.fixture(scope="module")
def small():
    settings = step.Settings(**step.QUICK, expansion=2)
    graph = products_training(settings.nodes, settings.mean_degree, classes=5)
    table = DenseTable(np.random.default_rng(0).standard_normal((graph.num_nodes, 128), np.float32))
    ours, ordinary = step.Ours(table, settings), step.Ordinary(table, settings)
    ordinary.copy_weights(ours.layer, ours.predictors)
    return ours, ordinary, step.Blocks(graph, settings)


def test_both_ways_take_the_same_step(small):
    ours, ordinary, blocks = small
    for _ in range(3):
        block = next(blocks)
        losses = []
        for who in (ours, ordinary):
            loss = who.loss(block)
            who.optimizer.zero_grad()
            loss.backward()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-5)
        for mine, theirs in ordinary.pairs(ours.layer, ours.predictors):
            torch.testing.assert_close(mine.grad, theirs.grad.view_as(mine), rtol=1e-3, atol=1e-5)
        for who in (ours, ordinary):
            who.optimizer.step()


def test_flops_by_hand():
    flops = floor.flops_of(step.Settings(), rows=5000)
    predictors = sum(count for part, count in flops.items() if part.startswith("predictors"))
    assert predictors == 2 * 2 * 3 * 2 * 512 * 128 * 1024 == 1_610_612_736
    assert sum(count for part, count in flops.items() if part.startswith("heads")) == 3 * 2 * 5000 * 128 * 128
    assert sum(count for part, count in flops.items() if part.startswith("skip")) == 2 * 2 * 5000 * 128 * 128
    assert (
        sum(count for part, count in flops.items() if part.startswith("cov")) == 2 * 2 * 2 * 512 * 128 * 128
    )


def test_bytes_by_hand():
    traffic = floor.bytes_of(step.Settings(), nodes=1000, parameters=10)
    assert traffic == {
        "table rows, forward": 512_000, "table rows, backward": 512_000, "optimizer": 280,
    }  # fmt: skip


def test_quick_run_writes_a_whole_record(tmp_path, capsys, restore_threads):
    step.main(["--quick", "--json", str(tmp_path / "step.json")])
    record = json.loads((tmp_path / "step.json").read_text())
    assert record["settings"]["seed"] == 0
    assert torch.__version__.startswith(record["machine"]["torch"].split("+")[0])
    numbers = [
        *(
            seconds
            for steps in (record["seconds"], record["ppi"])
            for who in steps.values()
            for part in who.values()
            for seconds in part.values()
        ),
        *record["rates"].values(),
        *(seconds for floor in record["floors"].values() for seconds in floor["seconds"].values()),
        *(ratio for when in record["ratios"].values() for ratio in when.values()),
    ]
    assert len(numbers) == (3 * 6 + 5 + 2 * 5) * 2 + 5 + 3 * 4 + 2 * 12
    assert all(np.isfinite(numbers)) and min(numbers) > 0
    assert "the ordinary way / networks" in capsys.readouterr().out


def test_the_page_says_what_the_record_says():
    record = json.loads((ROOT / "benchmarks" / "results" / "step.json").read_text())
    text = (ROOT / "docs" / "scale.md").read_text()
    assert text.split(step_page.BEGIN)[1].split(step_page.END)[0] == step_page.tables(record)
    for kind in record.get("floors", ()):
        assert record["floors"][kind]["seconds"]["fastest"] < record["seconds"][kind]["step"]["median"]


def test_flops_of_closed_predictors_by_hand():
    flops = floor.flops_of(step.Settings(), rows=5000, closed=True)
    batch, square = 512 * 128 * 128, 128**3
    assert sum(flops.values()) == 2 * (5 * 5000 * 128 * 128 + 7 * batch + 2 * square)
