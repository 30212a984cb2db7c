"""h_phi and h_psi: what predicts one view from the other. Fresh for each layer, gone after it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from lrgi.compute.products import linear


class NetworkPredictors(nn.Module):
    """The paper's: two networks Linear(D, e D), ReLU, Linear(e D, D) with e = `expansion`."""

    def __init__(self, width: int, expansion: int, random: torch.Generator) -> None:
        super().__init__()
        self.u_from_v = _Network(width, expansion * width, random)
        self.v_from_u = _Network(width, expansion * width, random)

    def forward(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """(u predicted from v, v predicted from u)."""
        return self.u_from_v(v), self.v_from_u(u)


class _Network(nn.Module):
    def __init__(self, width: int, hidden: int, random: torch.Generator) -> None:
        super().__init__()
        self.weight_in = nn.Parameter(torch.empty(hidden, width))
        self.bias_in = nn.Parameter(torch.empty(hidden))
        self.weight_out = nn.Parameter(torch.empty(width, hidden))
        self.bias_out = nn.Parameter(torch.empty(width))
        with torch.no_grad():  # as torch.nn.Linear begins
            for parameter, fan_in in zip(self.parameters(), (width, width, hidden, hidden), strict=True):
                bound = 1 / math.sqrt(fan_in)
                parameter.uniform_(-bound, bound, generator=random)

    def forward(self, x: Tensor) -> Tensor:
        hidden = linear(x, self.weight_in, self.bias_in, activation="relu")
        return linear(hidden, self.weight_out, self.bias_out)
