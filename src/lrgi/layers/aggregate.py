"""Aggregation over one hop, differentiable: compiled on the CPU, plain torch elsewhere.

`attend` aggregates sources that are projected already, and has a gradient with respect to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrgi.compute.threads import run_tasks, weighted_tasks
from lrgi.layers import _kernels, sparse_sums, twin
from lrgi.layers.rows import NO_NODES, frozen
from lrgi.sampling.block import Hop

_NO_SCALE = np.empty(0, np.float32)
_WORTH_A_TASK = 2048  # edges and rows: fewer take less time than a lane's call


def attend(p: Tensor, s_source: Tensor, s_row: Tensor, hop: Hop, slope: float) -> Tensor:
    """[R, H, C]: the attention-weighted mean of projected sources p [S, H, C].

    The logit of edge j -> r is leaky_relu(s_source[j] + s_row[r]), with s_source [S, H], s_row [R, H].
    """
    if p.device.type != "cpu":
        return twin.attend(p, s_source, s_row, hop, slope)
    result: Tensor = _Attend.apply(p, s_source, s_row, hop, slope)  # type: ignore[no-untyped-call]
    return result


def scaled_sum(
    x: Tensor, hop: Hop, row_scale: Tensor | None = None, source_scale: Tensor | None = None
) -> Tensor:
    """[R, D]: row_scale[r] * sum of source_scale[j] * x[j] over r's neighbours; a missing scale is 1."""
    if x.device.type != "cpu":
        return sparse_sums.scaled_sum(x, hop, row_scale, source_scale)
    result: Tensor = _ScaledSum.apply(x, hop, row_scale, source_scale)  # type: ignore[no-untyped-call]
    return result


def neighbour_mean(x: Tensor, hop: Hop) -> Tensor:
    """[R, D]: the plain mean over each row's neighbours, the row itself not among them; 0 if it has none."""
    inverse = torch.from_numpy(1.0 / np.maximum(hop.degrees, 1)).to(x.device, x.dtype)
    return scaled_sum(x, hop, row_scale=inverse)


def targets_and_mean(x: Tensor, hop: Hop) -> tuple[Tensor, Tensor]:
    """(x of the hop's rows, `neighbour_mean`): both views of a batch, for a hop whose rows come first."""
    if x.device.type != "cpu":
        return x[: hop.num_rows], neighbour_mean(x, hop)
    both: tuple[Tensor, Tensor] = _TargetsAndMean.apply(x, hop)  # type: ignore[no-untyped-call]
    return both


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, s_source: Tensor, s_row: Tensor, hop: Hop, slope: float) -> Tensor:
        p = p.contiguous()
        out = torch.empty(hop.num_rows, *p.shape[1:], dtype=p.dtype)
        alpha = np.empty((hop.num_rows + hop.num_edges, p.shape[1]), out.numpy().dtype)
        values, reading, result = frozen(p), _hop_arrays(hop), out.numpy()
        scores = (frozen(s_source.contiguous()), frozen(s_row.contiguous()))
        flat = alpha.dtype.type(slope)
        _over_rows(
            hop.indptr,
            lambda a, b: _kernels.attend(values, scores, reading, flat, (a, b), result, alpha),
        )
        ctx.save_for_backward(p)
        ctx.hop, ctx.alpha, ctx.slope = hop, alpha, slope
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (p,) = ctx.saved_tensors
        hop, alpha = ctx.hop, frozen(ctx.alpha)
        reading, values, d_out = _hop_arrays(hop), frozen(p), frozen(grad.contiguous())
        d_logit, flat = np.empty(alpha.shape, alpha.dtype), alpha.dtype.type(ctx.slope)
        d_row = torch.empty(hop.num_rows, p.shape[1], dtype=p.dtype)
        d_row_out = d_row.numpy()
        backward_rows = _kernels.attend_backward_rows
        _over_rows(
            hop.indptr,
            lambda a, b: backward_rows(values, reading, flat, (a, b), d_out, alpha, d_logit, d_row_out),
        )
        d_p, d_source = torch.empty_like(p), torch.empty(*p.shape[:2], dtype=p.dtype)
        results, edge_values = (d_p.numpy(), d_source.numpy()), (alpha, frozen(d_logit))
        transposed = tuple(frozen(a) for a in hop.transposed)
        backward_sources = _kernels.attend_backward_sources
        _over_rows(
            hop.transposed[0],
            lambda a, b: backward_sources(transposed, reading, (a, b), d_out, edge_values, *results),
        )
        return d_p, d_source, d_row, None, None


class _ScaledSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, hop: Hop, row_scale: Tensor | None, source_scale: Tensor | None
    ) -> Tensor:
        ctx.hop, ctx.scales = hop, (row_scale, source_scale)
        return _sum_over((hop.indptr, hop.indices), x, row_scale, source_scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        row_scale, source_scale = ctx.scales
        starts, rows, _ = ctx.hop.transposed
        return _sum_over((starts, rows), grad, source_scale, row_scale), None, None, None


class _TargetsAndMean(torch.autograd.Function):
    """One gradient for both, since autograd would add two tables that are zero almost everywhere."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hop: Hop) -> tuple[Tensor, Tensor]:
        ctx.hop = hop
        inverse = torch.from_numpy(1.0 / np.maximum(hop.degrees, 1)).to(x.dtype)
        ctx.inverse = inverse
        return x[: hop.num_rows].clone(), _sum_over((hop.indptr, hop.indices), x, inverse, None)

    @staticmethod
    def backward(ctx: Any, d_targets: Tensor, d_mean: Tensor) -> tuple[Tensor, None]:
        starts, rows, _ = ctx.hop.transposed
        d_x = _sum_over((starts, rows), d_mean, None, ctx.inverse)
        d_x[: ctx.hop.num_rows] += d_targets
        return d_x, None


def _sum_over(
    adjacency: tuple[np.ndarray, np.ndarray], x: Tensor, row_scale: Tensor | None, source_scale: Tensor | None
) -> Tensor:
    out = torch.empty(len(adjacency[0]) - 1, x.shape[1], dtype=x.dtype)
    values, result = frozen(x.contiguous()), out.numpy()
    none = _NO_SCALE.astype(values.dtype)
    scales = tuple(frozen(none if s is None else s.contiguous()) for s in (row_scale, source_scale))
    reading, nodes = tuple(frozen(a) for a in adjacency), frozen(NO_NODES)
    _over_rows(
        adjacency[0],
        lambda a, b: _kernels.scaled_sum(values, nodes, reading, scales, (a, b), result),
    )
    return out


def _hop_arrays(hop: Hop) -> tuple[np.ndarray, np.ndarray, int]:
    return frozen(hop.indptr), frozen(hop.indices), hop.first


def _over_rows(cumulative: np.ndarray, kernel: Callable[[int, int], None]) -> None:
    """Call `kernel(start, stop)` for ranges of rows of about equal numbers of edges."""
    spans = weighted_tasks(cumulative, _WORTH_A_TASK)
    run_tasks(lambda i: kernel(*spans[i]), len(spans))
