"""Eq. 1 of the paper, symmetrised: predict u from v and v from u, and keep both from collapsing.

L_u = l1 * mean |u - h_phi(v)|^2 + l2 / D * sum_n (1 - C_nn)^2 + l3 / D * sum_(n != m) C_nm^2, C = cov(u);
L = L_u + L_v. The first term is a mean over nodes and columns (docs/decisions/0001).
Functions of matrices: where the predictions come from is `predictors.py`'s affair.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from lrgi.objective.covariance import spread_terms


class Weights(NamedTuple):
    """lambda_1, lambda_2, lambda_3."""

    reconstruction: float
    variance: float
    covariance: float


class Terms(NamedTuple):
    """The three terms, each summed over both views; tensors, so that nothing waits for them."""

    reconstruction: Tensor
    variance: Tensor
    covariance: Tensor

    def total(self, weights: Weights) -> Tensor:
        """The weighted sum: the loss."""
        return (
            weights.reconstruction * self.reconstruction
            + weights.variance * self.variance
            + weights.covariance * self.covariance
        )


def infomax_terms(u: Tensor, v: Tensor, u_from_v: Tensor, v_from_u: Tensor) -> Terms:
    """The terms of the symmetrised loss for local views u and global views v, all [B, D]."""
    (variance_u, covariance_u), (variance_v, covariance_v) = spread_terms(u), spread_terms(v)
    return Terms(
        reconstruction=functional.mse_loss(u, u_from_v) + functional.mse_loss(v, v_from_u),
        variance=variance_u + variance_v,
        covariance=covariance_u + covariance_v,
    )
