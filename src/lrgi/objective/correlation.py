"""Correlation matrices between two views, as the objectives that compare views need them."""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST_VARIANCE = 1e-8  # a column that is constant in a batch stays finite, and so does its gradient


def standardised(x: Tensor) -> Tensor:
    """x [B, D] with columns of mean 0 and variance 1 over the batch (divided by B)."""
    centred = x - x.mean(0)
    return centred * torch.rsqrt(centred.square().mean(0) + _LEAST_VARIANCE)


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """The columns of a against those of b, both standardised [B, D]: [D, D], in full precision."""
    with torch.autocast(a.device.type, enabled=False):
        return a.t() @ b / len(a)


def off_diagonal(c: Tensor) -> Tensor:
    """The sum of squares beside the diagonal."""
    return c.square().sum() - c.diagonal().square().sum()
