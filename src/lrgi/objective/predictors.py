"""h_phi and h_psi: what predicts one view from the other. Fresh for each layer, gone after it.

The paper's are networks. Most of a step's arithmetic is theirs; the closed form does without them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lrgi.compute.products import add_up, bf16_products, linear, precision_of
from lrgi.compute.threads import run_tasks
from lrgi.layers.rows import frozen
from lrgi.objective import _kernels

_MOST_BLOCKS, _LEAST_UNITS = 4, 32  # of a network's hidden units: enough tasks for eight lanes


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
        parameters = (*self.u_from_v.parameters(), *self.v_from_u.parameters())
        both: tuple[Tensor, Tensor] = _Networks.apply(precision_of(bf16_products("cpu")), v, u, *parameters)  # type: ignore[no-untyped-call]
        return both


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
    """Both networks at once: a task takes a block of one network's hidden units all the way through, or back.

    Most of a step's arithmetic is here. Layer by layer it would stop at a barrier eight times, and cut by
    rows every task would add up a weight gradient of its own.
    """

    @staticmethod
    def forward(ctx: Any, precision: int, *given: Tensor) -> tuple[Tensor, ...]:
        inputs = [x.detach().contiguous() for x in given[:2]]
        arrays = [frozen(x) for x in inputs]
        weights = [[frozen(w) for w in given[at : at + 4]] for at in (2, 6)]
        jobs = _jobs(len(given[3]))
        parts = inputs[0].new_empty(len(jobs), *inputs[0].shape)
        hidden = [inputs[0].new_empty(len(inputs[0]), b - a) for _, (a, b) in jobs]

        def task(i: int) -> None:
            network, units = jobs[i]
            own = tuple(weights[network][:3])
            _kernels.network_forward(
                arrays[network], own, units, hidden[i].numpy(), parts[i].numpy(), precision
            )

        run_tasks(task, len(jobs))
        ctx.save_for_backward(*inputs, *given[2:])
        ctx.hidden, ctx.precision = hidden, precision
        return tuple(add_up(parts[network::2]) + given[at].detach() for network, at in ((0, 5), (1, 9)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, outer = ctx.saved_tensors, [grad.contiguous() for grad in grads]
        arrays, d_out = [frozen(x) for x in saved[:2]], [frozen(grad) for grad in outer]
        weights = [(frozen(saved[at]), frozen(saved[at + 2])) for at in (2, 6)]
        d_weights = [[torch.empty_like(w) for w in saved[at : at + 3]] for at in (2, 6)]
        written = [tuple(d.numpy() for d in network) for network in d_weights]
        jobs = _jobs(len(saved[3]))
        parts = saved[0].new_empty(len(jobs), *saved[0].shape)

        def task(i: int) -> None:
            network, units = jobs[i]
            both = (arrays[network], frozen(ctx.hidden[i]))
            part, own = parts[i].numpy(), weights[network]
            _kernels.network_backward(both, d_out[network], own, units, written[network], part, ctx.precision)

        run_tasks(task, len(jobs))
        d_inputs = (add_up(parts[network::2]) for network in (0, 1))
        return None, *d_inputs, *(d for i in (0, 1) for d in (*d_weights[i], outer[i].sum(0)))


def _jobs(hidden: int) -> list[tuple[int, tuple[int, int]]]:
    """(network, a block of its hidden units): the two networks in turn, equal blocks."""
    blocks = max(1, min(_MOST_BLOCKS, hidden // _LEAST_UNITS))
    borders = [hidden * i // blocks for i in range(blocks + 1)]
    return [(network, span) for span in pairwise(borders) for network in (0, 1)]
