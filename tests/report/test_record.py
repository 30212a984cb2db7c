"""Records: there and back, and every way in which one can be broken."""

import json

import pytest

from lrgi.errors import FormatError, InputError
from lrgi.report.record import Cost, RunRecord, Score, read_record, records_of, save_record

SCORES = (
    Score("u:2", "accuracy", 0, (0.5, 0.7), (0.4, 0.6)),
    Score("u:2", "accuracy", 1, (0.5, 0.7), (0.6, 0.8)),
    Score("v:2", "accuracy", 0, (0.3, 0.3)),
)


def record(**changes) -> RunRecord:
    given = {"experiment": "table:t", "cell": "g/m", "settings": {"a": 1}, "scores": SCORES, "main": "u:2",
             "chosen": "u:2", "costs": (Cost(0, 5, 1, 0.1, 0.2, 30.0), Cost(1, 5, 3, 0.1, 0.2))}  # fmt: skip
    return RunRecord(**{**given, **changes})


def test_there_and_back(tmp_path):
    path = save_record(record(), tmp_path)
    assert path == tmp_path / "t" / "g" / "m.json"
    assert read_record(path) == record(made=read_record(path).made)
    assert set(records_of(tmp_path, "table:t")) == {"g/m"}
    assert records_of(tmp_path, "table:other") == {}


def test_means_are_over_seeds_and_splits():
    mean, spread = record().mean_and_spread("u:2", "accuracy")
    assert (mean, spread) == pytest.approx((0.6, 0.02**0.5))
    assert record().mean_and_spread("v:2", "accuracy") is None
    assert record().mean_and_spread("v:2", "accuracy", "validation") == pytest.approx((0.3, 0))
    assert record().seconds == 2.0
    assert record().seeds == (0, 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: r.update(format="x"), "a record must have the format 'lrgi-record'"),
        (lambda r: r.update(version=2), "a record's version must be 1, got 2"),
        (lambda r: r.update(more=1), "a RunRecord must have keys among"),
        (lambda r: r.pop("settings"), "a RunRecord must be complete"),
        (lambda r: r.update(settings=3), "settings of a record must be a dict, got 3"),
        (lambda r: r.update(measures={"a": [float("nan")]}), "numbers of a record must be finite"),
        (lambda r: r["scores"][0].update(test=[0.4, 1.6]), "scores must lie in 0 to 1"),
        (lambda r: r["scores"][0].update(test=[0.4]), "a score must have one value per split"),
        (lambda r: r["scores"][0].update(metric="f2"), "a metric must be one of accuracy"),
        (lambda r: r["scores"].__setitem__(0, 3), "a Score must have keys among"),
        (lambda r: r["costs"][0].pop("steps"), "a Cost must be complete"),
        (lambda r: r.update(main="v:2"), "the main read-out must have test scores, got none of 'v:2'"),
    ],
)
def test_what_a_hand_has_broken_is_refused_with_the_files_name(tmp_path, change, sentence):
    path = save_record(record(), tmp_path)
    given = json.loads(path.read_text())
    change(given)
    path.write_text(json.dumps(given))
    with pytest.raises(FormatError, match=f"m.json: {sentence}"):
        read_record(path)


def test_a_score_out_of_range_is_refused():
    with pytest.raises(InputError, match="scores must lie in 0 to 1"):
        Score("u:1", "accuracy", 0, (float("nan"),))
