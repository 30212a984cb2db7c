"""Aggregation over one hop, differentiable: compiled on the CPU, plain torch elsewhere.

`attend_table` aggregates rows of a frozen table before they are projected: attention is linear in its
values, sum_j a_ij W x_j = W sum_j a_ij x_j, and a logit needs only x_j . (W^T a). So a step gathers no
copy of its inputs, writes no message per edge, and projects only the rows it needs.
`attend` aggregates sources that are projected already, and has a gradient with respect to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrgi.compute.threads import run_tasks, weighted_tasks
from lrgi.graph.features import DenseTable
from lrgi.layers import _kernels, twin
from lrgi.layers.rows import NO_NODES, Rows, frozen
from lrgi.sampling.block import Hop

_CACHE_FLOATS = 1 << 17  # of z at a time: half a megabyte, so that z and its gradient fit a core's cache
_LEAST_ROWS = 64
_NO_SCALE = np.empty(0, np.float32)


def attend_table(
    rows: Rows, hop: Hop, weight: Tensor, queries: tuple[Tensor, Tensor], slope: float
) -> Tensor:
    """[R, H * C]: per head, the attention-weighted mean z of table rows, times weight[h] [C, d] transposed.

    The logit of edge j -> r in head h is leaky_relu(x_j . q_source[h] + x_r . q_row[h]), queries both [H, d].
    All of it is in full precision, under a bf16 autocast too: it waits for memory, not for products.
    """
    how = (rows, hop, slope)
    result: Tensor = _AttendTable.apply(weight, *queries, how)  # type: ignore[no-untyped-call]
    return result


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
        return twin.scaled_sum(x, hop, row_scale, source_scale)
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


class _AttendTable(torch.autograd.Function):
    """Rows go through attention and projection a few at a time: z stays in a core's cache, both ways."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, q_source: Tensor, q_row: Tensor, how: tuple[Rows, Hop, float]
    ) -> Tensor:
        rows, hop, slope = how
        heads, width, _ = weight.shape
        out = torch.empty(hop.num_rows, heads * width, dtype=weight.dtype)
        alpha = np.empty((hop.num_rows + hop.num_edges, heads), out.numpy().dtype)
        reading, flat = _table_arrays(rows, hop, alpha.dtype), alpha.dtype.type(slope)
        queries, result = (frozen(q_source), frozen(q_row)), out.numpy()
        weight_t = frozen(weight.transpose(1, 2).contiguous())

        def task(start: int, stop: int) -> None:
            z = _z_buffer(weight)
            for a, b in _few_rows(start, stop, z):
                _kernels.attend_table(*reading, queries, flat, (a, b), z, alpha)
                _kernels.project(z, weight_t, (a, b), result)

        _over_rows(hop.indptr, task)
        ctx.save_for_backward(weight)
        ctx.given = (rows, hop, flat, alpha)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        rows, hop, flat, alpha = ctx.given
        heads, _, in_dim = weight.shape
        reading, alpha = _table_arrays(rows, hop, alpha.dtype), frozen(alpha)
        spans = weighted_tasks(hop.indptr)
        d_queries = np.zeros((len(spans), 2, heads, in_dim), alpha.dtype)
        d_weights = np.zeros((len(spans), *weight.shape), alpha.dtype)
        d_out, values = frozen(grad.contiguous()), frozen(weight)

        def task(i: int) -> None:
            both_z, sums = (_z_buffer(weight), _z_buffer(weight)), (d_queries[i, 0], d_queries[i, 1])
            z, d_z = both_z
            for a, b in _few_rows(*spans[i], z):
                _kernels.project_backward_z(d_out, values, (a, b), d_z)
                _kernels.attend_table_backward(*reading, flat, (a, b), both_z, alpha, sums)
                _kernels.project_backward_weight(d_out, z, (a, b), d_weights[i])

        run_tasks(task, len(spans))
        total = torch.from_numpy(d_queries.sum(axis=0))
        return torch.from_numpy(d_weights.sum(axis=0)), total[0], total[1], None


def _z_buffer(weight: Tensor) -> np.ndarray:
    heads, _, in_dim = weight.shape
    few = max(_LEAST_ROWS, _CACHE_FLOATS // (heads * in_dim))
    return torch.empty(heads, few, in_dim, dtype=weight.dtype).numpy()  # torch aligns it to cache lines


def _few_rows(start: int, stop: int, z: np.ndarray) -> list[tuple[int, int]]:
    few = z.shape[1]
    return [(a, min(a + few, stop)) for a in range(start, stop, few)]


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


def _table_arrays(rows: Rows, hop: Hop, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    assert isinstance(rows.table, DenseTable)
    nodes = np.arange(rows.count, dtype=np.int32) if rows.nodes is None else rows.nodes
    return frozen(np.asarray(rows.table.array, dtype)), frozen(nodes), _hop_arrays(hop)


def _over_rows(cumulative: np.ndarray, kernel: Callable[[int, int], None]) -> None:
    """Call `kernel(start, stop)` for ranges of rows of about equal numbers of edges."""
    spans = weighted_tasks(cumulative)
    run_tasks(lambda i: kernel(*spans[i]), len(spans))
