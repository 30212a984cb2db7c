"""Aggregation over one hop, differentiable: compiled on the CPU, plain torch elsewhere.

`attend_table` aggregates rows of a frozen table before they are projected: attention is linear in its
values, sum_j a_ij W x_j = W sum_j a_ij x_j, and a logit needs only x_j . (W^T a). So a step gathers no
copy of its inputs, writes no message per edge, and projects only the rows it needs.
`attend` aggregates sources that are projected already, and has a gradient with respect to them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrgi.compute.threads import run_tasks, weighted_ranges
from lrgi.graph.features import DenseTable
from lrgi.layers import _kernels, twin
from lrgi.layers.rows import NO_NODES, Rows, frozen
from lrgi.sampling.block import Hop

_TASKS = 8  # per kernel call; more than any laptop's cores would gain little, fewer would unbalance
_NO_SCALE = np.empty(0, np.float32)


def attend_table(rows: Rows, hop: Hop, q_source: Tensor, q_row: Tensor, slope: float) -> Tensor:
    """z [H, R, d]: per head, the attention-weighted mean of each row's own and neighbours' table rows.

    The logit of edge j -> r in head h is leaky_relu(x_j . q_source[h] + x_r . q_row[h]).
    """
    result: Tensor = _AttendTable.apply(q_source, q_row, rows, hop, slope)  # type: ignore[no-untyped-call]
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


class _AttendTable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q_source: Tensor, q_row: Tensor, rows: Rows, hop: Hop, slope: float
    ) -> Tensor:
        heads, width = q_source.shape
        z = torch.empty(heads, hop.num_rows, width, dtype=q_source.dtype)
        alpha = np.empty((hop.num_rows + hop.num_edges, heads), z.numpy().dtype)
        reading = _table_arrays(rows, hop, alpha.dtype)
        queries, out, flat = (frozen(q_source), frozen(q_row)), z.numpy(), alpha.dtype.type(slope)
        _over_rows(hop, lambda span: _kernels.attend_table(*reading, queries, flat, span, out, alpha))
        ctx.rows, ctx.hop, ctx.slope, ctx.alpha, ctx.width = rows, hop, slope, alpha, width
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hop, alpha = ctx.hop, frozen(ctx.alpha)
        reading = _table_arrays(ctx.rows, hop, alpha.dtype)
        d_z, flat = frozen(grad.contiguous()), alpha.dtype.type(ctx.slope)
        # A partial sum per task, added in order: the same bits for any number of threads.
        parts = np.zeros((_TASKS, 2, alpha.shape[1], ctx.width), alpha.dtype)
        spans = weighted_ranges(hop.indptr, _TASKS)

        def task(i: int) -> None:
            d_queries = (parts[i, 0], parts[i, 1])
            _kernels.attend_table_backward(*reading, flat, spans[i], d_z, alpha, d_queries)

        run_tasks(task, len(spans))
        total = torch.from_numpy(parts.sum(axis=0))
        return total[0], total[1], None, None, None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, p: Tensor, s_source: Tensor, s_row: Tensor, hop: Hop, slope: float
    ) -> Tensor:
        p = p.contiguous()
        out = torch.empty(hop.num_rows, *p.shape[1:], dtype=p.dtype)
        alpha = np.empty((hop.num_rows + hop.num_edges, p.shape[1]), out.numpy().dtype)
        values, reading, result = frozen(p), _hop_arrays(hop), out.numpy()
        scores = (frozen(s_source.contiguous()), frozen(s_row.contiguous()))
        flat = alpha.dtype.type(slope)
        _over_rows(hop, lambda span: _kernels.attend(values, scores, reading, flat, span, result, alpha))
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
            hop, lambda span: backward_rows(values, reading, flat, span, d_out, alpha, d_logit, d_row_out)
        )
        d_p, d_source = torch.empty_like(p), torch.empty(*p.shape[:2], dtype=p.dtype)
        results, edge_values = (d_p.numpy(), d_source.numpy()), (alpha, frozen(d_logit))
        transposed = tuple(frozen(a) for a in hop.transposed)
        backward_sources = _kernels.attend_backward_sources
        spans = weighted_ranges(hop.transposed[0], _TASKS)
        run_tasks(
            lambda i: backward_sources(transposed, reading, spans[i], d_out, edge_values, *results),
            len(spans),
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


def _sum_over(
    adjacency: tuple[np.ndarray, np.ndarray], x: Tensor, row_scale: Tensor | None, source_scale: Tensor | None
) -> Tensor:
    out = torch.empty(len(adjacency[0]) - 1, x.shape[1], dtype=x.dtype)
    values, result = frozen(x.contiguous()), out.numpy()
    none = _NO_SCALE.astype(values.dtype)
    scales = tuple(frozen(none if s is None else s.contiguous()) for s in (row_scale, source_scale))
    reading, nodes = tuple(frozen(a) for a in adjacency), frozen(NO_NODES)
    spans = weighted_ranges(adjacency[0], _TASKS)
    run_tasks(
        lambda i: _kernels.scaled_sum(values, nodes, reading, scales, spans[i], result), len(spans)
    )
    return out


def _hop_arrays(hop: Hop) -> tuple[np.ndarray, np.ndarray, int]:
    return frozen(hop.indptr), frozen(hop.indices), hop.first


def _table_arrays(rows: Rows, hop: Hop, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    assert isinstance(rows.table, DenseTable)
    nodes = np.arange(rows.count, dtype=np.int32) if rows.nodes is None else rows.nodes
    return frozen(np.asarray(rows.table.array, dtype)), frozen(nodes), _hop_arrays(hop)


def _over_rows(hop: Hop, kernel: Any) -> None:
    """Call `kernel((start, stop))` for ranges of rows of about equal numbers of edges."""
    spans = weighted_ranges(hop.indptr, _TASKS)
    run_tasks(lambda i: kernel(spans[i]), len(spans))
