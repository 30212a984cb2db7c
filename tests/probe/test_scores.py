"""Scores against slow twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrgi.errors import InputError
from lrgi.probe.scores import accuracy, micro_f1, roc_auc


def slow_auc(labels, values):
    pairs = [
        (p, n)
        for p, a in zip(values, labels, strict=True)
        if a
        for n, b in zip(values, labels, strict=True)
        if not b
    ]
    return sum(1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs) / len(pairs)


def slow_f1(labels, logits):
    tp = fp = fn = 0
    for truth, score in zip(labels.reshape(-1), logits.reshape(-1), strict=True):
        tp += truth == 1 and score > 0
        fp += truth == 0 and score > 0
        fn += truth == 1 and score <= 0
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


def test_accuracy_is_the_share_that_is_right():
    assert accuracy([0, 1, 2, 2], [0, 1, 1, 2]) == 0.75


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30))
def test_auc_equals_counting_pairs(rows):
    labels, values = zip(*rows, strict=True)
    if len(set(labels)) == 2:
        assert roc_auc(labels, values) == pytest.approx(slow_auc(labels, values))


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 5))
def test_micro_f1_equals_counting(seed, rows, classes):
    rng = np.random.default_rng(seed)
    labels, logits = rng.integers(0, 2, (rows, classes)), rng.integers(-2, 3, (rows, classes))
    assert micro_f1(labels, logits) == pytest.approx(slow_f1(labels, logits))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: accuracy([0, 1], [0]), "same, non-empty shape, got (2,) and (1,); predict every"),
        (lambda: accuracy([], []), "same, non-empty shape"),
        (lambda: roc_auc([1, 1], [0.1, 0.2]), "hold both classes, got 2 positive and 0 negative rows; score"),
    ],
)
def test_what_cannot_be_scored_is_said(call, sentence):
    with pytest.raises(InputError) as caught:
        call()
    assert sentence in str(caught.value)
