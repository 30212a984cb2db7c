"""Sums over neighbours on an accelerator, as products of sparse matrices: no row per edge is written.

Twin in plain torch: `twin.scaled_sum`, which writes one and adds them up.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lrgi.layers import twin
from lrgi.sampling.block import Hop


def scaled_sum(
    x: Tensor, hop: Hop, row_scale: Tensor | None = None, source_scale: Tensor | None = None
) -> Tensor:
    """row_scale[r] * sum of source_scale[j] * x[j] over r's neighbours: [R, D]."""
    if x.dtype != torch.float32:
        return twin.scaled_sum(x, hop, row_scale, source_scale)
    values = x if source_scale is None else x * source_scale[:, None]
    out: Tensor = _Sum.apply(values, hop)  # type: ignore[no-untyped-call]
    return out if row_scale is None else out * row_scale[:, None]


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, hop: Hop) -> Tensor:
        ctx.hop = hop
        with torch.autocast(x.device.type, enabled=False):
            return torch.mm(_adjacency(hop, x.device), x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with torch.autocast(grad.device.type, enabled=False):
            return torch.mm(_transposed(ctx.hop, grad.device), grad.contiguous()), None


def _adjacency(hop: Hop, device: torch.device) -> Tensor:
    """[R, S], a one per edge; kept with the hop, since a whole graph's is the same in every step."""
    key = ("adjacency", str(device))
    if key not in hop.kept:
        first, last = int(hop.indptr[0]), int(hop.indptr[-1])
        starts = torch.from_numpy(hop.indptr - first).to(device)
        columns = torch.from_numpy(hop.indices[first:last].astype("int64")).to(device)
        hop.kept[key] = _ones(starts, columns, (hop.num_rows, hop.num_sources))
    matrix: Tensor = hop.kept[key]
    return matrix


def _transposed(hop: Hop, device: torch.device) -> Tensor:
    """[S, R]; each source's rows in order, so that its sum has one."""
    key = ("adjacency transposed", str(device))
    if key not in hop.kept:
        forth = _adjacency(hop, device)
        starts, columns = forth.crow_indices(), forth.col_indices()
        rows = torch.repeat_interleave(torch.arange(hop.num_rows, device=device), starts.diff())
        ends = torch.bincount(columns, minlength=hop.num_sources).cumsum(0)
        by_source = torch.cat([ends.new_zeros(1), ends])
        order = torch.argsort(columns, stable=True)
        hop.kept[key] = _ones(by_source, rows[order], (hop.num_sources, hop.num_rows))
    matrix: Tensor = hop.kept[key]
    return matrix


def _ones(starts: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    values = torch.ones(len(columns), device=columns.device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, values, size=shape, check_invariants=False)
