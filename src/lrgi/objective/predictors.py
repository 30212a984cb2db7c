"""h_phi and h_psi: what predicts one view from the other. Fresh for each layer, gone after it.

The paper's are networks. Most of a step's arithmetic is theirs; the closed form does without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lrgi.compute.products import activation_backward, add_up, bf16_products, chunks, linear, product_into
from lrgi.compute.threads import row_tasks, run_tasks


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
        both: tuple[Tensor, Tensor] = _Networks.apply(bf16_products("cpu"), v, u, *parameters)  # type: ignore[no-untyped-call]
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
    """Both networks at once, each task taking its rows of one of them all the way through and back.

    Most of a step's arithmetic is here, and layer by layer it would stop at a barrier eight times.
    """

    @staticmethod
    def forward(ctx: Any, bf16: bool, *given: Tensor) -> tuple[Tensor, ...]:
        inputs = [x.detach().contiguous() for x in given[:2]]
        weights = [_operands(given[at : at + 4], bf16) for at in (2, 6)]
        hidden = [x.new_empty(len(x), len(w[0])) for x, w in zip(inputs, weights, strict=True)]
        out = [torch.empty_like(x) for x in inputs]
        jobs = _jobs(len(inputs[0]))

        def task(i: int) -> None:
            network, (start, stop) = jobs[i]
            weight_in, bias_in, weight_out, bias_out = weights[network]
            for rows in chunks(start, stop):
                h, y = hidden[network][rows], out[network][rows]
                h.copy_(bias_in)
                product_into(h, inputs[network][rows], weight_in, b_transposed=True, add=True)
                y.copy_(bias_out)
                product_into(y, h.relu_(), weight_out, b_transposed=True, add=True)

        run_tasks(task, len(jobs))
        ctx.save_for_backward(*inputs, *hidden, *given[2:])
        ctx.bf16 = bf16
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, outer = ctx.saved_tensors, [grad.contiguous() for grad in grads]
        inputs, hidden = saved[:2], saved[2:4]
        weights = [_operands(saved[at : at + 4], ctx.bf16) for at in (4, 8)]
        jobs = _jobs(len(inputs[0]))
        d_inputs = [torch.empty_like(x) for x in inputs]
        parts = [[w.new_empty(len(jobs) // 2, *w.shape) for w in saved[at : at + 4]] for at in (4, 8)]

        def task(i: int) -> None:
            network, (start, stop) = jobs[i]
            sums = [part[i // 2].zero_() for part in parts[network]]
            weight_in, _, weight_out, _ = weights[network]
            for rows in chunks(start, stop):
                x, h, d_y = inputs[network][rows], hidden[network][rows], outer[network][rows]
                d_h = torch.empty_like(h)
                product_into(d_h, d_y, weight_out)
                activation_backward(d_h, h, "relu", d_h)
                product_into(d_inputs[network][rows], d_h, weight_in)
                product_into(sums[0], d_h, x.to(weight_in.dtype), transposed=True, add=True)
                product_into(sums[2], d_y, h.to(weight_in.dtype), transposed=True, add=True)
                sums[1] += d_h.sum(0)
                sums[3] += d_y.sum(0)

        run_tasks(task, len(jobs))
        return None, *d_inputs, *(add_up(part) for network in parts for part in network)


def _operands(weights: Sequence[Tensor], bf16: bool) -> list[Tensor]:
    """Detached, the matrices in the precision of products."""
    return [w.detach().bfloat16() if bf16 and w.dim() == 2 else w.detach() for w in weights]


def _jobs(rows: int) -> list[tuple[int, tuple[int, int]]]:
    """(network, its rows): the two networks in turn."""
    return [(network, span) for span in row_tasks(rows) for network in (0, 1)]
