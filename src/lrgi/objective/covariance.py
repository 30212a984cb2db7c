"""The two covariance terms of Eq. 1, which keep embeddings from collapsing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lrgi.compute.products import matmul


def covariance(x: Tensor) -> Tensor:
    """The sample covariance [D, D] of x [B, D], divided by B - 1; always a full-precision product."""
    result: Tensor = _Gram.apply(x - x.mean(0))  # type: ignore[no-untyped-call]
    return result / (len(x) - 1)


def variance_term(c: Tensor) -> Tensor:
    """(1 / D) sum_n (1 - C_nn)^2."""
    return (1 - c.diagonal()).square().mean()


def covariance_term(c: Tensor) -> Tensor:
    """(1 / D) sum_n sum_(m != n) C_nm^2."""
    return (c.square().sum() - c.diagonal().square().sum()) / len(c)


class _Gram(torch.autograd.Function):
    """x^T x, with the one product its gradient needs: x (G + G^T)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return matmul(x.t(), x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return matmul(x, grad + grad.t())
