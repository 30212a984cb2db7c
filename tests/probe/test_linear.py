"""The linear probe: its gradient and steps against autograd, its chunks, its sentences."""

import json

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, as_table
from lrgi.probe import blocks
from lrgi.probe.blocks import SparseBlock, measure_scale, open_source
from lrgi.probe.data import Part, ProbeData, random_split
from lrgi.probe.linear import ProbePlan, _gradient, _train, first_weights, linear_probe, pool_results

ROWS, COLUMNS, CLASSES = 300, 12, 4


def features(seed=0):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((ROWS, COLUMNS)) * rng.uniform(0.1, 10, COLUMNS) + rng.uniform(-5, 5, COLUMNS)
    table[rng.random(table.shape) < 0.5] = 0
    table[:, 3] = 0.1  # a column that stands still
    return table.astype(np.float32)


def labels(many, seed=1):
    rng = np.random.default_rng(seed)
    if many:
        return (features() @ rng.standard_normal((COLUMNS, CLASSES)) > 1).astype(np.uint8)
    return (features() @ rng.standard_normal((COLUMNS, CLASSES))).argmax(1)


def data(many=False, *, sparse=False):
    table = as_table(scipy.sparse.csr_matrix(features())) if sparse else DenseTable(features())
    return ProbeData.transductive(table, labels(many), random_split(ROWS, 0, train=0.5, validation=0.25))


def loss(inputs, weights, truth):
    logits = inputs @ weights[:, :-1].T + weights[:, -1]
    if truth.ndim == 2:
        return binary_cross_entropy_with_logits(logits, truth.to(logits.dtype))
    return cross_entropy(logits, truth)


def standardised(part):
    rows = part.table.rows(part.rows).astype(np.float64)
    deviation = rows.std(0)
    return torch.tensor((rows - rows.mean(0)) / np.where(deviation < 1e-6, 1, deviation))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_gradient_equals_autograd(many, sparse):
    given = data(many, sparse=sparse)
    weights = first_weights(COLUMNS, given.num_classes, (3, 4))
    scale = measure_scale(given.train)
    found = _gradient(open_source(given.train, scale, 1 << 30), weights, given)
    twin = weights.double().requires_grad_()
    inputs, truth = standardised(given.train), torch.tensor(given.train.labels)
    sum(loss(inputs, one, truth) for one in twin).backward()
    torch.testing.assert_close(found, twin.grad.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_steps_equal_torch_adam(many, decay):
    given = data(many)
    plan = ProbePlan(epochs=30, weight_decay=decay, seeds=(7,), evaluate_every=30)
    scale = measure_scale(given.train)
    best = _train(given, plan, *(open_source(p, scale, 1 << 30) for p in (given.train, given.validation)))
    weights = first_weights(COLUMNS, given.num_classes, (7,))[0].requires_grad_()
    adam = torch.optim.Adam([weights], lr=plan.learning_rate, weight_decay=decay)
    inputs, truth = standardised(given.train).float(), torch.tensor(given.train.labels)
    for _ in range(30):
        adam.zero_grad()
        loss(inputs, weights, truth).backward()
        adam.step()
    assert best.epochs.tolist() == [30]
    torch.testing.assert_close(best.weights[0], weights.detach(), rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("many", [False, True])
def test_streamed_and_sparse_equal_resident(many, monkeypatch):
    plan = ProbePlan(epochs=60, seeds=(0, 1))
    kept = linear_probe(data(many), plan)
    monkeypatch.setattr(blocks, "_CHUNK_BYTES", 1500)
    streamed = linear_probe(data(many), ProbePlan(epochs=60, seeds=(0, 1), resident_mb=0))
    sparse = linear_probe(data(many, sparse=True), plan)
    for other in (streamed, sparse):
        assert other.test_scores == pytest.approx(kept.test_scores, abs=0.02)
        assert other.validation_scores == pytest.approx(kept.validation_scores, abs=0.02)


def test_fits_rows_that_a_line_separates():
    given = data()
    own = ProbeData(given.train, given.train, given.test, "transductive")
    assert linear_probe(own, ProbePlan(epochs=3000)).validation_mean > 0.99


def test_result_is_repeatable_and_says_what_it_is():
    result = linear_probe(data(), ProbePlan(epochs=300))
    assert result.test_mean > 0.7  # the largest class alone would be 0.47
    again = linear_probe(data(), ProbePlan(epochs=300))
    assert again.test_scores == result.test_scores
    told = json.loads(json.dumps(result.to_dict()))
    assert told["metric"] == "accuracy"
    assert told["protocol"] == "transductive"
    assert told["seeds"] == [0, 1, 2]
    assert told["test_mean"] == pytest.approx(np.mean(told["test_scores"]))
    assert told["test_spread"] == pytest.approx(np.std(told["test_scores"]))
    assert all(epoch % 10 == 0 and 0 < epoch <= 300 for epoch in told["best_epochs"])
    assert linear_probe(data(many=True), ProbePlan(epochs=20)).metric == "micro_f1"


def test_scores_follow_the_seed_not_its_company():
    together = linear_probe(data(), ProbePlan(epochs=40, seeds=(0, 5)))
    alone = linear_probe(data(), ProbePlan(epochs=40, seeds=(5,)))
    assert alone.test_scores[0] == pytest.approx(together.test_scores[1], abs=0.02)
    pooled = pool_results([alone, together])
    assert pooled.seeds == (5, 0, 5)
    assert len(pooled.test_scores) == 3


def test_training_threads_are_given_back():
    before = torch.get_num_threads()
    linear_probe(data(), ProbePlan(epochs=1))
    assert torch.get_num_threads() == before


def test_scale_of_sparse_rows_equals_dense_even_with_a_column_named_twice():
    table = scipy.sparse.csr_matrix((np.float32([1, 2, 3, 4]), [0, 0, 2, 1], [0, 2, 3, 4]), shape=(3, 3))
    found = measure_scale(Part(as_table(table), np.arange(3), np.zeros(3, int)))
    dense = table.toarray().astype(float)
    np.testing.assert_allclose(found.mean, dense.mean(0))
    np.testing.assert_allclose(found.deviation, dense.std(0))
    block = SparseBlock(as_table(table), found)
    weights = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    expected = weights @ torch.tensor(((dense - dense.mean(0)) / dense.std(0)).T, dtype=torch.float32)
    torch.testing.assert_close(block.times(weights), expected)


def test_inductive_reads_training_rows_from_the_training_table():
    table, train_ids = DenseTable(features()), np.array([5, 2, 9, 4])
    own = DenseTable(np.arange(4 * COLUMNS).reshape(4, COLUMNS))
    split = np.full(ROWS, 3)
    split[[5, 2, 4]], split[[9, 10]] = 1, 2
    truth = np.arange(ROWS) % CLASSES
    found = ProbeData.inductive(own, train_ids, table, truth, split)
    assert found.protocol == "inductive"
    assert found.train.table is own
    assert found.train.rows.tolist() == [0, 1, 3]  # node 9 was fitted on, but is not a training node
    assert found.train.labels.tolist() == [1, 2, 0]
    assert found.validation.rows.tolist() == [9, 10]
    assert found.validation.table is table


def test_unknown_labels_are_left_out():
    part = Part(DenseTable(features()), np.arange(4), np.array([1, -1, 0, -1]))
    assert part.rows.tolist() == [0, 2]
    assert part.labels.tolist() == [1, 0]


def test_random_split_has_its_shares_and_follows_its_seed():
    split = random_split(np.where(np.arange(1000) < 100, -1, 0), 3)
    assert np.bincount(split).tolist() == [100, 90, 90, 720]
    assert (split[:100] == 0).all()
    assert np.array_equal(split, random_split(np.where(np.arange(1000) < 100, -1, 0), 3))
    assert not np.array_equal(random_split(1000, 3), random_split(1000, 4))


TABLE = DenseTable(np.ones((6, 2)))
SPLIT = [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ProbePlan(epochs=0), "epochs must be at least 1, got 0; raise it"),
        (lambda: ProbePlan(learning_rate=0), "learning_rate must be above 0, got 0; try 0.01"),
        (lambda: ProbePlan(weight_decay=-1), "weight_decay must be 0 or more, got -1; try 0"),
        (lambda: ProbePlan(seeds=(1, 1)), "seeds must be one or more different numbers, got (1, 1); try"),
        (
            lambda: ProbeData.transductive(TABLE, np.array([0, 1, 0, 1, 0, 1]), [1, 1, 1, 1, 3, 3]),
            "the validation part must have at least one labelled row, got none; give a split",
        ),
        (
            lambda: ProbeData.transductive(TABLE, np.array([2, 2, 0, 1, 0, 1]), SPLIT),
            "training labels must hold at least two classes, got only 2; label more rows",
        ),
        (
            lambda: ProbeData.transductive(TABLE, None, SPLIT),
            "the graph must have labels to be probed, got none; add them to the graph",
        ),
        (
            lambda: ProbeData.transductive(TABLE, np.zeros(5), SPLIT),
            "labels must have one entry per row of the table (6), got 5; embed the graph",
        ),
        (
            lambda: Part(TABLE, np.array([6]), np.array([0])),
            "rows must lie in 0 to 5, got 6 to 6; use the row ids of this table",
        ),
        (lambda: random_split(10, 0, train=0.9, validation=0.1), "must be above 0 and below 1 together"),
        (
            lambda: measure_scale(Part(DenseTable([[1, np.nan]]), np.array([0]), np.array([0]))),
            "embeddings must be finite, got another value in column 1; look at the fit",
        ),
        (lambda: pool_results([]), "results must share one metric and protocol, got []; pool"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(call, sentence):
    with pytest.raises(InputError) as caught:
        call()
    assert sentence in str(caught.value)
