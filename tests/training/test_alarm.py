"""The collapse alarm hears each kind of collapse, is silent without one, and costs next to nothing."""

import math
import re
import time

import numpy as np
import pytest
import torch

from lrgi.errors import CollapsedError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities
from lrgi.probe.rank import covariance_report, effective_rank
from lrgi.training.alarm import CollapseAlarm, Look
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal, Listener
from lrgi.training.plan import FitPlan
from lrgi.training.run import fit_run

GRAPH = planted_communities(400, 6000, classes=4, features=16)
PLAN = FitPlan(
    width=16, layers=1, batch_size=100, updates=60, expansion=2, predictors="network", inputs="given",
    reconstruction=25.0, learning_rate=1e-3,
)  # fmt: skip


def looked_at(plan, graph=GRAPH, **how):
    alarm = CollapseAlarm(
        lambda sentence: None, clock=lambda: 0.0, **how
    )  # a look costs nothing: at every step
    fit_encoder(graph, plan, Journal(alarm))
    return alarm.told


def test_a_healthy_fit_is_silent():
    assert looked_at(PLAN) == []
    assert looked_at(PLAN.with_settings(layers=3, predictors="closed")) == []


def test_a_look_agrees_with_the_measures_of_the_probe():
    random = np.random.default_rng(0)
    u = (random.normal(size=(200, 6)) @ random.normal(size=(6, 6))).astype(np.float32)
    v = random.normal(size=(200, 6)).astype(np.float32)
    look, report = Look.at(torch.from_numpy(u), torch.from_numpy(v)), covariance_report(DenseTable(u))
    assert look.rank == pytest.approx(effective_rank(DenseTable(u)), rel=1e-5)
    assert look.alike == pytest.approx(report.mean_squared_correlation, rel=1e-4)
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    assert look.distance == pytest.approx(1 - cosines.mean(), rel=1e-4)
    assert look.still == 0
    dead = u.copy()
    dead[:, 2] = 3.0
    assert Look.at(torch.from_numpy(dead), None).still == 1
    assert math.isnan(Look.at(torch.from_numpy(dead), None).distance)
    nothing = Look.at(torch.ones(10, 3), None)
    assert (nothing.still, nothing.rank) == (3, 0.0)


def test_without_its_variance_terms_a_fit_collapses_and_is_heard():
    told = looked_at(
        PLAN.with_settings(layer="plain-gcn", variance=0.0, covariance=0.0, updates=480, learning_rate=2e-2)
    )
    assert any(re.search(r"the effective rank must last, got [\d.]+ after [\d.]+ of 16 dim", s) for s in told)
    assert any(
        "nodes must differ from their neighbours, got a mean cosine distance of 0.0" in s for s in told
    )
    assert all(re.search(r" at layer 1, epoch \d+, step \d+ of 480 \(likely .*\); ", s) for s in told)


def test_constant_columns_are_heard_at_once():
    x = np.ones((400, 16), np.float32)
    x[:, 0] = np.arange(400) / 400
    told = looked_at(
        PLAN.with_settings(variance=0.0, covariance=0.0),
        Graph(GRAPH.indptr, GRAPH.indices, DenseTable(x)),
    )
    assert any("mean squared correlation of" in s or "stand still" in s for s in told), told


def test_a_smoothed_graph_is_heard():
    rows = np.repeat(np.eye(4, dtype=np.float32)[np.zeros(400, int)], 1, axis=0) + 5
    rows += 0.01 * np.random.default_rng(0).normal(size=rows.shape).astype(np.float32)
    plan = PLAN.with_settings(variance=0.0, covariance=0.0)
    told = looked_at(plan, Graph(GRAPH.indptr, GRAPH.indices, DenseTable(rows)))
    assert any(
        "nodes must differ from their neighbours, got a mean cosine distance of 0.0" in s for s in told
    )


def test_a_loss_that_rises_is_heard():
    told = looked_at(PLAN.with_settings(learning_rate=3.0, schedule="constant", updates=100))
    assert any(s.startswith("the loss must fall, got") and "lower --learning-rate" in s for s in told), told


def test_it_stops_the_run_if_asked_and_the_record_knows(tmp_path):
    bad = PLAN.with_settings(learning_rate=3.0, schedule="constant", updates=100)
    told = []
    run = fit_run(GRAPH, bad, tmp_path / "told", tell=told.append)
    assert run.record["alarms"]
    assert told == [f"warning: {sentence}" for sentence in run.record["alarms"]]
    with pytest.raises(CollapsedError, match=r"at layer 1, epoch \d+, step \d+ of .* \(likely"):
        fit_run(GRAPH, bad, tmp_path / "stopped", stop_on_collapse=True)


def test_looking_takes_two_hundredths_of_the_time():
    """Counted, not timed: by a clock on which a look takes 0.4 and a step 1."""

    class Clock(Listener):
        now = 0.0

        def step_taken(self, record):
            self.now += 1.0

    clock, looks = Clock(), []

    class Counts(CollapseAlarm):
        def _look(self, block):
            looks.append(clock.now)
            clock.now += 0.4
            return super()._look(block)

    alarm = Counts(lambda sentence: None, clock=lambda: clock.now)
    fit_encoder(GRAPH, PLAN.with_settings(updates=400), Journal(clock, alarm))
    assert 0.4 * (len(looks) - 1) <= 0.021 * clock.now
    assert len(looks) > 10


def test_its_share_of_a_real_fit_is_small():
    spent = []

    class Timed(CollapseAlarm):
        def step_taken(self, record):
            begun = time.perf_counter()
            super().step_taken(record)
            spent.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    fit_encoder(GRAPH, PLAN.with_settings(updates=600, width=64), Journal(Timed(lambda sentence: None)))
    assert sum(sorted(spent)[:-2]) < 0.04 * (time.perf_counter() - begun)  # two looks are of a busy machine
