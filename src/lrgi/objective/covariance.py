"""The two covariance terms of Eq. 1, which keep embeddings from collapsing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lrgi.compute.products import by_rows, gram


def covariance(x: Tensor) -> Tensor:
    """The sample covariance [D, D] of x [B, D], divided by B - 1."""
    centred = x - x.mean(0)
    with torch.autocast(x.device.type, enabled=False):
        return centred.t() @ centred / (len(x) - 1)


def variance_term(c: Tensor) -> Tensor:
    """(1 / D) sum_n (1 - C_nn)^2."""
    return (1 - c.diagonal()).square().mean()


def covariance_term(c: Tensor) -> Tensor:
    """(1 / D) sum_n sum_(m != n) C_nm^2."""
    return (c.square().sum() - c.diagonal().square().sum()) / len(c)


def spread_terms(x: Tensor) -> tuple[Tensor, Tensor]:
    """(variance_term, covariance_term) of x's covariance, in one pass with the gradient written out.

    With G = dL/dC, symmetric, and x centred, dL/dx = 2 x G / (B - 1), whose columns sum to zero already.
    A dozen small operations of autograd would cost more than the products do.
    """
    variance, covariance_ = _SpreadTerms.apply(x)  # type: ignore[no-untyped-call]
    return variance, covariance_


class _SpreadTerms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        centred = x - x.mean(0)
        c = gram(centred).div_(len(x) - 1)
        ctx.save_for_backward(centred, c)
        return variance_term(c), covariance_term(c)

    @staticmethod
    def backward(ctx: Any, d_variance: Tensor, d_covariance: Tensor) -> Tensor:
        centred, c = ctx.saved_tensors
        d_c = c * d_covariance
        d_c.diagonal().copy_((c.diagonal() - 1) * d_variance)
        return by_rows(centred, d_c.mul_(4 / len(c) / (len(centred) - 1)))
