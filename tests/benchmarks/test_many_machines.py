"""The paper calculation of many machines: the page says what it says, and some of it by hand."""

import json
import sys
from pathlib import Path

import pytest

from lrgi.experiments.pages import with_blocks

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import many_machines as paper  # noqa: E402

WORLD = json.loads((paper.RESULTS / "world.json").read_text())


def test_the_page_is_what_is_computed():
    page = paper.PAGE.read_text(encoding="utf-8")
    assert with_blocks(page, paper.blocks()) == page, "run `make tables`"


def test_by_hand():
    setting = paper.Setting()
    assert setting.table_bytes == 111_059_956 * 512
    assert setting.structure_bytes == 8 * 111_059_957 + 4 * 2 * 1_615_685_872
    sent = paper.traffic("networks", 2, setting)
    layer, predictors = 2 * 128 * 128 + 3 * 128, 2 * (128 * 1024 + 1024 + 1024 * 128 + 128)
    assert sent.layer == 4 * layer + 12
    assert sent.predictors == 4 * predictors
    assert sent.covariances == 4 * (2 * 128 * 128 + 2 * 257)
    assert paper.network_seconds(sent, 2, 10, setting) == pytest.approx(sent.total * 8e-10 + 4 * 30e-6)
    assert paper.held(1, setting) == (1, 1)
    assert paper.held(2, paper.Setting(edges=0)) == (pytest.approx(0.5), pytest.approx(0.5))


def test_seconds_go_through_the_measured_ones():
    setting = paper.Setting(cores=1)
    rows = {(r["predictors"], r["batch"]): r["step_ms"] / 1e3 for r in WORLD["rows"] if r["processes"] == 1}
    for kind, batch in (("network", 64), ("closed", 512), ("network", 2048)):
        assert paper.compute_seconds(WORLD, kind, batch, setting) == pytest.approx(rows[kind, batch])
    beyond = paper.compute_seconds(WORLD, "network", 3584, setting)
    assert beyond == pytest.approx(2 * rows["network", 2048] - rows["network", 512])


def test_the_record_of_two_processes_is_whole():
    """Made by benchmarks/world.py, whose counter and whose formula of bytes agree."""
    assert {(r["predictors"], r["batch"]) for r in WORLD["rows"] if r["processes"] == 2} == {
        (kind, batch) for kind in ("network", "network, bf16 gradients", "closed") for batch in (512, 2048)
    }
    for row in WORLD["rows"]:
        assert row["step_ms"] > row["waited_ms"] >= 0
        assert (row["sent"] > 0) == (row["processes"] == 2)
