"""Scores of predictions, in numpy: accuracy, micro-averaged F1, area under the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError


def accuracy(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Share of rows whose predicted class, int[n], is their label, int[n]."""
    truth, guess = _alike(labels, predicted)
    return float((truth == guess).mean())


def micro_f1(labels: npt.ArrayLike, logits: npt.ArrayLike) -> float:
    """F1 over all (row, class) pairs at once; a class is predicted where its logit is above 0.

    Both are [n, C], labels 0 or 1. It is 2 tp / (2 tp + fp + fn), and 0 when nothing is true or predicted.
    """
    truth, score = _alike(labels, logits)
    true, guess = truth > 0, score > 0
    hits = int(np.count_nonzero(true & guess))
    marked = int(np.count_nonzero(true)) + int(np.count_nonzero(guess))
    return 2 * hits / marked if marked else 0.0


def roc_auc(labels: npt.ArrayLike, values: npt.ArrayLike) -> float:
    """Chance that a positive row, label 1 in [n], has a higher value than a negative; a tie counts half."""
    truth, score = _alike(labels, values)
    positive = truth > 0
    count, others = int(positive.sum()), int((~positive).sum())
    if not count or not others:
        raise InputError(
            f"labels must hold both classes, got {count} positive and {others} negative rows; "
            "score rows of both kinds"
        )
    _, place, ties = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(ties)
    rank = (last - (ties - 1) / 2)[place.reshape(-1)]  # tied values share their mean rank, from 1
    return float((rank[positive].sum() - count * (count + 1) / 2) / (count * others))


def _alike(labels: npt.ArrayLike, values: npt.ArrayLike) -> tuple[npt.NDArray[Any], ...]:
    truth, other = np.asarray(labels), np.asarray(values)
    if truth.shape != other.shape or truth.size == 0:
        raise InputError(
            f"labels and predictions must have the same, non-empty shape, got {truth.shape} and "
            f"{other.shape}; predict every labelled row once"
        )
    return truth, other
