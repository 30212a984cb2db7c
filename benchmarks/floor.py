"""The least that a step needs, and how long this machine takes for it at its best.

The time of the step's multiply-adds at the fastest rate of a matrix product seen in the run, plus the time
of its unavoidable memory traffic. Attention's own arithmetic and everything elementwise are free.
"""

from __future__ import annotations

from typing import Any


def shapes_of(s: Any, rows: int, closed: bool = False) -> dict[str, tuple[int, tuple[int, int, int]]]:
    """part: (how many products of (m, k, n) a step does at least). Two predictors, two views, H heads."""
    d, b, c = s.width, s.batch, s.width // s.heads
    shared = {
        "heads, forward": (s.heads, (rows, d, c)),
        "heads, gradient of the aggregates": (s.heads, (rows, c, d)),
        "heads, gradient of the weights": (s.heads, (c, rows, d)),
        "skip, forward": (1, (rows, d, d)),
        "skip, gradient of the weight": (1, (d, rows, d)),
        "covariance, forward": (2, (d, b, d)),
        "covariance, backward": (2, (b, d, d)),
    }
    if closed:
        return shared | {
            "regressions, cross covariance": (1, (d, b, d)),
            "regressions, solutions": (2, (d, d, d)),
            "regressions, gradient of the views": (2, (b, d, d)),
        }
    hidden = s.expansion * d
    return {
        "predictors, first layer forward": (2, (b, d, hidden)),
        "predictors, second layer forward": (2, (b, hidden, d)),
        "predictors, gradient of the hidden layer": (2, (b, d, hidden)),
        "predictors, gradient of the views": (2, (b, hidden, d)),
        "predictors, gradient of the first weight": (2, (hidden, b, d)),
        "predictors, gradient of the second weight": (2, (d, b, hidden)),
        **shared,
    }


def flops_of(s: Any, rows: int, closed: bool = False) -> dict[str, int]:
    """Floating point operations of every part; a multiply-add is two."""
    return {part: 2 * times * m * k * n for part, (times, (m, k, n)) in shapes_of(s, rows, closed).items()}


def bytes_of(s: Any, nodes: float, parameters: int) -> dict[str, float]:
    """Traffic of every part: each sampled row once per pass; p, m, v, gradient read and p, m, v written."""
    return {
        "table rows, forward": nodes * s.width * 4,
        "table rows, backward": nodes * s.width * 4,
        "optimizer": 7 * 4 * parameters,
    }


def floor_seconds(
    flops: dict[str, int], traffic: dict[str, float], product: float, rates: dict[str, float]
) -> float:
    gathered = traffic["table rows, forward"] + traffic["table rows, backward"]
    return sum(flops.values()) / product + gathered / rates["gather"] + traffic["optimizer"] / rates["stream"]
