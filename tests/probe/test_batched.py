"""Many splits at once give what the probe gives for each alone."""

import numpy as np
import pytest
import torch

from lrgi.graph.features import DenseTable
from lrgi.probe import batched
from lrgi.probe.batched import Task, probe_tasks
from lrgi.probe.data import ProbeData, random_split
from lrgi.probe.linear import ProbePlan, linear_probe
from lrgi.probe.scores import roc_auc

ROWS, COLUMNS = 400, 10
PLAN = ProbePlan(epochs=60, seeds=(0,))


def made(classes, many=False, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((ROWS, COLUMNS)) * rng.uniform(0.1, 10, COLUMNS) + 3).astype(np.float32)
    x[:, 2] = 0.1
    logits = x @ rng.standard_normal((COLUMNS, classes)) + 8 * rng.standard_normal((ROWS, classes))
    return x, (logits > 0).astype(np.uint8) if many else logits.argmax(1)


def task_of(split, seed):
    return Task(*(np.flatnonzero(split == part) for part in (1, 2, 3)), seed)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("group", [1 << 28, 1])
def test_equals_one_probe_after_the_other(monkeypatch, many, group):
    monkeypatch.setitem(batched._BUDGET, "cpu", group)
    x, y = made(4, many)
    splits = [random_split(ROWS, i, train=0.3, validation=0.2) for i in (0, 1, 2)]
    splits.append(random_split(ROWS, 3, train=0.2, validation=0.3))
    tasks = [task_of(split, i % 2) for i, split in enumerate(splits)]
    table = torch.from_numpy(x)
    found = probe_tasks((table, table), (y, y), tasks, PLAN)
    for i, split in enumerate(splits):
        data = ProbeData.transductive(DenseTable(x), y, split)
        alone = linear_probe(data, ProbePlan(epochs=60, seeds=(i % 2,)))
        assert alone.metric == found.metric
        assert found.validation[i] == pytest.approx(alone.validation_scores[0], abs=0.006)
        assert found.test[i] == pytest.approx(alone.test_scores[0], abs=0.006)
    assert len(set(found.test)) > 1


def test_training_rows_may_come_from_another_table():
    x, y = made(3)
    split = random_split(ROWS, 0, train=0.3, validation=0.2)
    task = task_of(split, 0)
    rows = task.train
    seen = torch.from_numpy(x[rows])
    whole = torch.from_numpy(x)
    moved = Task(np.arange(len(rows)), task.validation, task.test)
    a = probe_tasks((seen, whole), (y[rows], y), [moved], PLAN)
    b = probe_tasks((whole, whole), (y, y), [task], PLAN)
    assert a == b


def test_area_under_the_curve_of_two_classes():
    x, y = made(2)
    task = task_of(random_split(ROWS, 0, train=0.3, validation=0.2), 0)
    table = torch.from_numpy(x)
    found = probe_tasks((table, table), (y, y), [task], PLAN, ["roc_auc"])
    validation, test = found.further["roc_auc"]
    assert 0.6 < test[0] <= 1
    assert 0.6 < validation[0] <= 1
    guess = np.array([0.1, 0.9, 0.4, 0.35])
    logits = torch.tensor(np.stack([np.zeros(4), guess]))
    truth = torch.tensor([0, 1, 1, 0])
    assert batched._area(logits, truth, np.arange(4)) == roc_auc(truth.numpy(), guess) == 1.0
    assert batched._area(logits, truth, np.array([1, 3])) == 1.0


def test_threads_are_given_back():
    x, y = made(2)
    before = torch.get_num_threads()
    table = torch.from_numpy(x)
    probe_tasks((table, table), (y, y), [task_of(random_split(ROWS, 0), 0)], PLAN)
    assert torch.get_num_threads() == before
