"""The commands that say what a fit will need."""

from lrgi.encoder import Encoder
from reference.tiny import SMALL


def test_plan_says_what_a_fit_needs(lrgi, place):
    answer = lrgi("plan", place / "graph", *SMALL)
    assert answer.code == 0
    assert all(word in answer.out for word in ("memory", "disk", "an epoch", "It fits."))
    found = lrgi("plan", place / "graph", *SMALL, "--memory-gib", "0.01", "--json").json
    assert found["fits"] is False
    assert "memory for this fit must be at most 10 MiB" in found["remedy"]
    assert found["needs"]["memory"] > 10 << 20


def test_a_memory_bound_is_kept_by_the_measurement_too(lrgi, place, tmp_path, monkeypatch):
    folders = []
    made = Encoder.tables
    monkeypatch.setattr(Encoder, "tables", lambda self, graph, scratch=None: (
        folders.append(scratch) or made(self, graph, scratch)))  # fmt: skip
    bound = lrgi("fit", place / "graph", "--out", tmp_path / "a", *SMALL, "--memory-gib", "8")
    free = lrgi("fit", place / "graph", "--out", tmp_path / "b", *SMALL)
    assert (bound.code, free.code) == (0, 0)
    assert folders == [tmp_path / "a", None]
    assert "with --memory-gib" not in bound.err


def test_a_fit_beyond_its_memory_bound_is_refused(lrgi, place, tmp_path):
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "run", *SMALL, "--memory-gib", "0.01")
    assert (answer.code, answer.out) == (2, "")
    assert "memory for this fit must be at most 10 MiB, got a need of about" in answer.err
    assert not (tmp_path / "run").exists()


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
