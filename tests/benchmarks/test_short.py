"""`make bench` can fail, and the page of benchmarks is that of its records."""

import sys
from pathlib import Path

import pytest

from lrgi.report.figures import drawn_digest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import growth  # noqa: E402
import page  # noqa: E402
import question  # noqa: E402
import short  # noqa: E402

from lrgi.experiments.pages import with_blocks  # noqa: E402

BEFORE = {
    "sampling": {"threads_to_one": 1.8, "edges_to_id_reads": 0.4},
    "depth": {"peak_of_deep_to_shallow": 1.0},
    "step": {"step_to_floor": 1.4},
}


def test_what_got_worse_is_named_whichever_way_is_better():
    now = {
        "sampling": {"threads_to_one": 1.0, "edges_to_id_reads": 0.5, "lrgi_to_torch_sparse": 20.0},
        "depth": {"peak_of_deep_to_shallow": 1.04},
        "step": {"step_to_floor": 2.1},
    }
    slower = short.worse(BEFORE, now)
    assert slower == {
        "sampling: threads_to_one": pytest.approx(1.8),
        "depth: peak_of_deep_to_shallow": pytest.approx(1.04),
        "step: step_to_floor": pytest.approx(1.5),
    }
    assert short.verdict(slower, True).startswith("Slower: sampling: threads to one (1.80 times); ")
    table = short.compared(BEFORE, now)
    assert "1.25 times better" in table and "new" in table
    assert short.worse(BEFORE, BEFORE) == {}
    assert short.verdict({}, True) == "Nothing got slower."
    assert "Nothing is on record" in short.verdict({}, False)


def test_a_second_look_takes_the_better_of_two():
    now = {"sampling": {"threads_to_one": 1.0, "edges_to_id_reads": 0.4}, "step": {"step_to_floor": 1.4}}
    asked = []

    def again(name):
        asked.append(name)
        return {"threads_to_one": 1.7, "edges_to_id_reads": 0.2}

    found = short.confirmed(BEFORE, now, again)
    assert asked == ["sampling"]
    assert found["sampling"] == {"threads_to_one": 1.7, "edges_to_id_reads": 0.4}
    assert short.worse(BEFORE, found) == {}


def test_the_command_compares_with_the_record_and_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(question, "RESULTS", tmp_path)
    monkeypatch.setattr(short, "RESULTS", tmp_path)
    ratios = {"peak_of_deep_to_shallow": 1.0}
    monkeypatch.setattr(short, "measured", lambda name: dict(ratios))
    assert short.main(["--only", "depth"]) == 0
    assert "Nothing is on record" in capsys.readouterr().out
    assert short.main(["--only", "depth", "--keep"]) == 0
    assert short.main(["--only", "depth"]) == 0
    assert "Nothing got slower." in capsys.readouterr().out
    ratios["peak_of_deep_to_shallow"] = 1.2
    assert short.main(["--only", "depth"]) == 1
    assert "Slower: depth: peak of deep to shallow (1.20 times)." in capsys.readouterr().out


def test_every_ratio_on_record_is_one_that_is_measured():
    on_record = short.on_record()
    assert set(on_record) <= {"step", *page.NAMES}
    for name, ratios in on_record.items():
        assert ratios
        for ratio in ratios:
            assert short.better_of(name, ratio) in ("high", "low")


def test_the_page_agrees_with_the_records():
    text = page.PAGE.read_text(encoding="utf-8")
    assert with_blocks(text, page.blocks()) == text, "run `make tables`"


def test_the_figure_is_drawn_from_the_record():
    record = question.kept("growth")
    assert record is not None
    assert drawn_digest(page.FIGURE.with_suffix(".svg")) == growth.figure_of(record).digest, (
        "run `make tables`"
    )
    assert page.FIGURE.with_suffix(".png").is_file()


def test_an_exponent_is_that_of_a_power_law():
    assert growth.exponent([[x, 3e-3 * x**0.7] for x in (10, 100, 1000)]) == pytest.approx(0.7)
