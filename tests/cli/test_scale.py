"""The commands that say what a fit will need."""

from reference.tiny import SMALL


def test_plan_says_what_a_fit_needs(lrgi, place):
    answer = lrgi("plan", place / "graph", *SMALL)
    assert answer.code == 0
    assert all(word in answer.out for word in ("memory", "disk", "an epoch", "It fits."))
    found = lrgi("plan", place / "graph", *SMALL, "--memory-gib", "0.01", "--json").json
    assert found["fits"] is False
    assert "memory for this fit must be at most 10 MiB" in found["remedy"]
    assert found["needs"]["memory"] > 10 << 20


def test_a_fit_that_cannot_be_is_refused_before_anything_is_written(lrgi, place, tmp_path, monkeypatch):
    monkeypatch.setattr("lrgi.cli.needs.disk_bound", lambda out: 1000)
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "run", *SMALL)
    assert (answer.code, answer.out) == (2, "")
    assert "disk space for this fit must be at most the 0 MiB that are free" in answer.err
    assert not (tmp_path / "run").exists()


def test_plan_refuses_a_method_that_fits_nothing(lrgi, place):
    answer = lrgi("plan", place / "graph", "--method", "raw")
    assert answer.code == 2
    assert "method must fit something, got 'raw'; there is nothing to plan" in answer.err
