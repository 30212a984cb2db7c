"""h_phi and h_psi: what predicts one view from the other. Fresh for each layer, gone after it.

The paper's are networks. Most of a step's arithmetic is theirs; the closed form does without them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lrgi.compute.products import add_up, bf16_products, linear, precision_of
from lrgi.compute.threads import run_each
from lrgi.layers.rows import frozen
from lrgi.objective.networks import Pass


class NetworkPredictors(nn.Module):
    """The paper's: two networks Linear(D, e D), ReLU, Linear(e D, D) with e = `expansion`."""

    def __init__(self, width: int, expansion: int, random: torch.Generator) -> None:
        super().__init__()
        self.u_from_v = _Network(width, expansion * width, random)
        self.v_from_u = _Network(width, expansion * width, random)

    def forward(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """(u predicted from v, v predicted from u)."""
        if u.device.type != "cpu":
            return self.u_from_v(v), self.v_from_u(u)
        both: tuple[Tensor, Tensor] = _Networks.apply(
            precision_of(bf16_products("cpu")), v, u, *self.weights()
        )  # type: ignore[no-untyped-call]
        return both

    def weights(self) -> tuple[nn.Parameter, ...]:
        """Of the network that reads v, and of that which reads u: W_in, b_in, W_out, b_out each."""
        return (*self.u_from_v.parameters(), *self.v_from_u.parameters())


class ClosedPredictors(nn.Module):
    """Ridge regressions of the batch, solved in every step and differentiated through: nothing is trained.

    u from v: mean(u) + (v - mean(v)) (C_vv + r I)^-1 C_vu, C the covariances divided by B - 1.
    """

    def __init__(self, ridge: float) -> None:
        super().__init__()
        self.ridge = ridge

    def forward(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """(u predicted from v, v predicted from u)."""
        with torch.autocast(u.device.type, enabled=False):
            mean_u, mean_v = u.mean(0), v.mean(0)
            centred_u, centred_v = u - mean_u, v - mean_v
            cross = centred_v.t() @ centred_u / (len(u) - 1)
            u_from_v = torch.addmm(mean_u, centred_v, self._solve(centred_v, cross))
            v_from_u = torch.addmm(mean_v, centred_u, self._solve(centred_u, cross.t()))
        return u_from_v, v_from_u

    def _solve(self, centred: Tensor, cross: Tensor) -> Tensor:
        c = centred.t() @ centred / (len(centred) - 1)
        c.diagonal().add_(self.ridge)
        return torch.cholesky_solve(cross, torch.linalg.cholesky(c))


Predictors = NetworkPredictors | ClosedPredictors


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


class _Networks(torch.autograd.Function):
    """(v, u) through the networks that read them."""

    @staticmethod
    def forward(ctx: Any, precision: int, *given: Tensor) -> tuple[Tensor, ...]:
        networks = Pass([frozen(x.contiguous()) for x in given[:2]], by_network(given[2:]), precision)
        run_each(networks.forward())
        ctx.save_for_backward(*given)
        ctx.networks = networks
        outputs = (torch.from_numpy(parts) for parts in networks.parts)
        return tuple(add_up(out) + given[at].detach() for out, at in zip(outputs, (5, 9), strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        networks, _ = ctx.networks, ctx.saved_tensors  # which says so if a weight was changed meanwhile
        run_each(networks.backward([frozen(grad.contiguous()) for grad in grads]))
        d_inputs = (add_up(torch.from_numpy(parts)) for parts in networks.parts)
        return None, *d_inputs, *(torch.from_numpy(d) for own in networks.d_weights for d in own)


def by_network(parameters: tuple[Tensor, ...]) -> list[list[np.ndarray]]:
    """Four arrays for each of the two networks."""
    return [[frozen(w.contiguous()) for w in parameters[at : at + 4]] for at in (0, 4)]
