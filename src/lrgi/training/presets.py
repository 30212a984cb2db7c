"""The paper's settings (its tables of hyperparameters; docs/decisions/ where it is silent)."""

from __future__ import annotations

from typing import Any

from lrgi.errors import InputError
from lrgi.training.plan import EVERY, WHOLE, FitPlan

_PAPER: dict[str, Any] = {
    "heads": 4,
    "layer": "gat",
    "inputs": "given",
    "predictors": "network",
    "ridge": 0.01,
    "learning_rate": 1e-4,
    "weight_decay": 1e-5,
    "schedule": "constant",
    "warmup": 0.0,
    "expansion": 8,
}

PRESETS: dict[str, dict[str, Any]] = {
    "ppi": {
        **_PAPER, "layers": 3, "width": 1024, "batch_size": WHOLE, "neighbours": EVERY,
        "next_neighbours": EVERY, "epochs": 1000, "reconstruction": 25.0, "variance": 25.0,
        "covariance": 20.0, "fit_on": "train+validation",
    },
    "reddit": {
        **_PAPER, "layers": 2, "width": 512, "batch_size": 128, "neighbours": 10,
        "next_neighbours": 5, "epochs": 100, "reconstruction": 50.0, "variance": 25.0,
        "covariance": 10.0, "fit_on": "train",
    },
    "products": {
        **_PAPER, "layers": 3, "width": 128, "batch_size": 512, "neighbours": 10,
        "next_neighbours": 5, "epochs": 100, "reconstruction": 25.0, "variance": 10.0,
        "covariance": 1.0, "fit_on": "train",
    },
}  # fmt: skip


def preset(name: str) -> FitPlan:
    """The plan called `name`."""
    if name not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}; choose one or none")
    return FitPlan.from_mapping(PRESETS[name])
