"""Attention over rows of a frozen table, with skip and ELU: one call each way, no gradient to the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lrgi.compute._vector_kernels import HEADS
from lrgi.compute.products import bf16_products, precision_of
from lrgi.compute.threads import run_tasks, weighted_tasks
from lrgi.graph.features import DenseTable
from lrgi.layers import _attention_kernels
from lrgi.layers.rows import Rows, frozen
from lrgi.sampling.block import Hop

_CACHE_FLOATS = 1 << 17  # of z at a time: half a megabyte, so that z and its gradient fit a core's cache
_LEAST_ROWS = 64


class AttentionWeights(NamedTuple):
    """What a layer is made of: weight and skip [D, d], source and target [H, D / H], bias [D]."""

    weight: Tensor
    skip: Tensor
    source: Tensor
    target: Tensor
    bias: Tensor


def attend_table(rows: Rows, hop: Hop, weights: AttentionWeights, slope: float) -> Tensor:
    """u [R, D]: ELU of the attention-weighted mean of table rows projected, the skip and the bias.

    Aggregate first: attention is linear in its values, sum_j a_ij W x_j = W sum_j a_ij x_j, and a logit
    needs only x_j . (W^T a). So a step gathers no copy of its inputs, writes no message per edge, and
    projects only the rows it needs. Logits are in full precision under a bf16 autocast too.
    """
    how = (rows, hop, slope, precision_of(bf16_products("cpu")))
    result: Tensor = _AttendTable.apply(how, *weights)  # type: ignore[no-untyped-call]
    return result


class _AttendTable(torch.autograd.Function):
    """Rows go through the layer a few at a time: what is between stays in a core's cache, both ways."""

    @staticmethod
    def forward(ctx: Any, how: tuple[Rows, Hop, float, int], *given: Tensor) -> Tensor:
        rows, hop, slope, precision = how
        weights = AttentionWeights(*(frozen(w) for w in given))  # type: ignore[arg-type]
        out = torch.empty(hop.num_rows, len(given[0]), dtype=given[0].dtype)
        per_head, queries = _per_head(weights), _queries(weights)
        groups = queries.shape[1] // HEADS
        alpha = np.empty((groups, hop.num_rows + hop.num_edges, HEADS), queries.dtype)
        reading, few = _reading(rows, hop, alpha.dtype), _few(queries)
        own, result = (frozen(per_head), weights.skip, weights.bias), out.numpy()
        spans, flat = weighted_tasks(hop.indptr) or [(0, 0)], alpha.dtype.type(slope)

        def task(i: int) -> None:
            kernel = _attention_kernels.layer_forward
            kernel(reading, frozen(queries), own, (flat, precision), spans[i], few, result, alpha)

        run_tasks(task, len(spans))
        ctx.save_for_backward(*given, out)
        ctx.given = (reading, spans, (flat, precision), few, alpha)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *given, out = ctx.saved_tensors
        reading, spans, how, few, alpha = ctx.given
        weights = AttentionWeights(*(frozen(w) for w in given))  # type: ignore[arg-type]
        per_head, padded, dtype = _per_head(weights), alpha.shape[0] * HEADS, alpha.dtype
        shapes = ((2, padded, per_head.shape[2]), per_head.shape, given[1].shape, given[4].shape)
        sums = [tuple(np.zeros(shape, dtype) for shape in shapes) for _ in spans]
        own, results = (frozen(per_head), weights.skip), (frozen(out), frozen(grad.contiguous()))

        def task(i: int) -> None:
            _attention_kernels.layer_backward(
                reading, own, how, spans[i], few, results, sums[i], frozen(alpha)
            )

        run_tasks(task, len(spans))
        d_queries, d_weight, d_skip, d_bias = (_add_up(parts) for parts in zip(*sums, strict=True))
        d_source, d_target = d_queries[:, : len(per_head)]
        d_weight += (
            weights.source[..., None] * d_source[:, None] + weights.target[..., None] * d_target[:, None]
        )
        d_attention = (np.einsum("hcd,hd->hc", per_head, d) for d in (d_source, d_target))
        d_all = (d_weight.reshape(given[0].shape), d_skip, *d_attention, d_bias)
        return None, *(torch.from_numpy(d) for d in d_all)


def _per_head(weights: AttentionWeights) -> np.ndarray:
    heads, columns = weights.source.shape
    per_head: np.ndarray = weights.weight.reshape(heads, columns, -1)  # type: ignore[assignment]
    return per_head


def _queries(weights: AttentionWeights) -> np.ndarray:
    """[2, H, d]: what x_j and x_i are multiplied with in a logit; zero for heads that fill up a vector."""
    per_head, heads = _per_head(weights), len(weights.source)
    queries = np.zeros((2, -(-heads // HEADS) * HEADS, per_head.shape[2]), per_head.dtype)
    for i, attention in enumerate((weights.source, weights.target)):
        queries[i, :heads] = np.einsum("hcd,hc->hd", per_head, attention)
    return queries


def _few(queries: np.ndarray) -> int:
    """Rows in hand at a time."""
    return max(_LEAST_ROWS, _CACHE_FLOATS // int(queries.shape[1] * queries.shape[2]))


def _reading(rows: Rows, hop: Hop, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    assert isinstance(rows.table, DenseTable)
    nodes = np.arange(rows.count, dtype=np.int32) if rows.nodes is None else rows.nodes
    arrays = frozen(hop.indptr), frozen(hop.indices), hop.first
    return frozen(np.asarray(rows.table.array, dtype)), frozen(nodes), arrays


def _add_up(parts: tuple[np.ndarray, ...]) -> np.ndarray:
    """In the order of the tasks."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total
