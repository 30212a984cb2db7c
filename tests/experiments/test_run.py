"""Running cells: protocols, read-outs, records, and going on where it stopped."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lrgi.baselines.propagate import propagate
from lrgi.experiments import run as running
from lrgi.experiments.cells import Cell, DataSet, Table
from lrgi.experiments.measure import measure_seed, readouts
from lrgi.experiments.registry import Request
from lrgi.experiments.trials import find_graph, load_prepared, trial
from lrgi.experiments.workers import Done, work_through
from lrgi.graph.graph import Graph
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.report.record import records_of
from reference.tiny import npz_arrays, tiny_graph

PLAN = {"layers": 2, "width": 8, "heads": 2, "updates": 3, "batch_size": 0, "expansion": 2}
RANDOM = DataSet("tiny", "Tiny", "transductive", "random", splits=3)


def cell_of(data: DataSet = RANDOM, method: str = "lrgi", **more) -> Cell:
    return Cell("small", method, method.upper(), method, data, PLAN, seeds=(0, 1), readouts="all", **more)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return tiny_graph()


def test_random_splits_are_numbered_and_fits_are_by_seed(graph):
    cell = cell_of()
    a, b = trial(cell, graph, 0), trial(cell, graph, 1)
    assert a.seen is a.whole
    assert len(a.tasks) == 3
    for one, other in zip(a.tasks, b.tasks, strict=True):
        assert np.array_equal(one.test, other.test)
        assert (one.seed, other.seed) == (0, 1)
    assert not np.array_equal(a.tasks[0].test, a.tasks[1].test)
    supervised = trial(cell_of(method="supervised"), graph, 1)
    assert len(supervised.tasks) == 1
    assert np.array_equal(supervised.tasks[0].test, a.tasks[1].test)
    assert np.array_equal(np.flatnonzero(supervised.seen.split == TRAIN), supervised.tasks[0].train)


@pytest.mark.parametrize("fit_on", ["train", "train+validation"])
def test_inductive_fits_see_the_training_subgraph(graph, fit_on):
    cell = cell_of(DataSet("tiny", "Tiny", "inductive", "random", shares=(0.3, 0.2), fit_on=fit_on))
    given = trial(cell, graph, 4)
    (task,) = given.tasks
    parts = (TRAIN,) if fit_on == "train" else (TRAIN, VALIDATION)
    seen = np.flatnonzero(np.isin(given.whole.split, parts))
    assert given.seen.num_nodes == len(seen)
    assert np.array_equal(seen[task.train], np.flatnonzero(given.whole.split == TRAIN))
    assert np.array_equal(given.labels[0][task.train], graph.labels[given.whole.split == TRAIN])
    assert np.array_equal(task.test, np.flatnonzero(given.whole.split == TEST))


def test_read_outs_have_names_and_the_papers_is_the_first():
    names = ["u:2", "u:1", "u:1,2", "v:1", "v:2", "v:1,2", "both:1", "both:2", "both:1,2"]
    assert readouts(cell_of(), 2) == names
    assert readouts(cell_of(method="propagate"), 2) == ["u:2", "u:1"]
    assert readouts(cell_of(method="supervised"), 2) == ["u:2"]
    assert readouts(replace(cell_of(), readouts="main"), 2) == ["u:2"]
    assert readouts(cell_of(method="raw"), 0) == ["u:0"]


def test_scores_are_those_of_the_ordinary_probe(graph):
    data = DataSet("tiny", "Tiny", "inductive", "random", shares=(0.3, 0.2))
    cell = cell_of(data, "propagate")
    found = measure_seed(cell, graph, 2)
    split = trial(cell, graph, 2).whole.split
    views = Views.of(replace(graph, split=split), "train")
    for score, steps in zip(found["scores"], (2, 1), strict=True):
        tables = [propagate(g, g.features, steps) for g in (views.whole, views.seen)]
        expected = probe_table(views, *tables, ProbePlan(seeds=(2,)))
        assert score["validation"] == pytest.approx(expected.validation_scores, abs=0.02)
        assert score["test"] == pytest.approx(expected.test_scores, abs=0.02)
    assert found["cost"]["steps"] == 0


def test_the_untrained_encoder_is_that_of_the_fits_first_weights():
    data = DataSet("made", "Made", "transductive", generated={"nodes": 240, "edges": 2400, "classes": 4})
    graph = load_prepared(data, Path())
    assert (graph.num_nodes, find_graph(data, Path("nowhere"))) == (240, Path("nowhere"))
    cell = replace(cell_of(data), readouts="main", untrained=True)
    names = [score["readout"] for score in measure_seed(cell, graph, 1)["scores"]]
    assert names == ["u:2", "untrained"]
    untrained = measure_seed(replace(cell, method="random"), graph, 1)["scores"]
    assert [score["readout"] for score in untrained] == ["u:2"]
    before = measure_seed(cell, graph, 1)["scores"][1]
    assert before["test"] == untrained[0]["test"]


def table_of(*cells: Cell) -> Table:
    rows = tuple(dict.fromkeys(cell.row for cell in cells))
    return Table("small", "Small", rows, (cells[0].data,), cells)


@pytest.fixture
def request_at(tmp_path, graph) -> Request:
    np.savez(tmp_path / "tiny.npz", **npz_arrays(graph))
    return Request(data=tmp_path, results=tmp_path / "results")


def test_cells_are_recorded_once_and_again_when_their_settings_change(request_at):
    said: list[str] = []
    request = replace(request_at, tell=said.append)
    table = table_of(cell_of(method="random"))
    assert running.run_table(table, request) == {}
    record = records_of(request.results, "table:small")["tiny/random"]
    assert record.seeds == (0, 1)
    assert len(record.values("u:2", "accuracy")) == 6
    looked_at = {score.readout for score in record.scores if score.test}
    assert looked_at == {record.main, record.chosen}
    means = {s.readout: record.mean_and_spread(s.readout, "accuracy", "validation")[0] for s in record.scores}
    assert means[record.chosen] == max(means.values())
    assert record.hardware["device"] == "cpu"
    assert all(cost.peak_memory_mib > 10 for cost in record.costs)
    assert not any((request.results / running.SCRATCH / "small").iterdir())

    said.clear()
    assert running.run_table(table, request) == {}
    assert said == [], "nothing is run twice"
    other = table_of(replace(cell_of(method="random"), plan={**PLAN, "width": 4}))
    assert running.stale(other.cells[0], record) == (
        "its settings have changed since it was measured: plan.width was 8, is 4"
    )
    assert running.stale(table.cells[0], record, (0, 1, 5)) == "seeds [5] are not measured yet"


def test_seeds_that_are_done_are_kept_and_what_cannot_run_is_named(request_at, monkeypatch):
    cells = [cell_of(method=name) for name in ("random", "raw")]
    absent = replace(RANDOM, name="absent", how="lrgi import absent")
    table = replace(table_of(*cells), graphs=(RANDOM, absent))
    table = replace(table, cells=(*cells, replace(cells[0], data=absent)))
    calls = []

    def stops_after_three(work, tasks, **settings):
        for key, arguments in tasks[: 3 - len(calls)]:
            calls.append(key)
            yield Done(key, work(*arguments))

    monkeypatch.setattr(running, "work_through", stops_after_three)
    missing = running.run_table(table, request_at)
    assert missing["tiny/raw"] == "the budget was used up"
    assert "absent or ....npz (`lrgi import absent`)" in missing["absent/random"]
    assert "tiny/random" not in missing
    monkeypatch.setattr(
        running, "work_through", lambda work, tasks, **s: iter([Done(tasks[0][0], None, "why")])
    )
    assert running.run_table(table, request_at)["tiny/raw"] == "seed 1 failed: why"


def sleep_or_die(number: int) -> int:
    if number == 1:
        raise ValueError("of no use")
    if number == 2:
        os._exit(3)
    return os.getpid()


def test_workers_survive_errors_and_deaths():
    done = {d.key: d for d in work_through(sleep_or_die, [(n, (n,)) for n in range(5)], jobs=2, threads=1)}
    assert done[1].problem == "ValueError: of no use"
    assert done[2].problem == "its process died (exit code 3)"
    assert all(done[n].value != os.getpid() for n in (0, 3, 4))


def test_a_deadline_stops_workers():
    assert list(work_through(sleep_or_die, [(0, (0,))], jobs=1, threads=1, deadline=0.0)) == []


def test_records_are_json_that_a_person_can_read(request_at):
    running.run_table(table_of(cell_of(method="raw")), request_at)
    path: Path = request_at.results / "small" / "tiny" / "raw.json"
    assert json.loads(path.read_text())["settings"]["plan"]["width"] == 8
