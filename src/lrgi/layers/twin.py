"""The compiled aggregations once more in plain torch: for CUDA, and as their second implementation.

Every function takes the same arguments as its namesake in `aggregate.py`, and torch differentiates it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lrgi.sampling.block import Hop


def edges_of(hop: Hop, device: torch.device, *, own: bool) -> tuple[Tensor, Tensor]:
    """(source, row) of every edge, int64; with `own` each row's edge from itself first.

    Kept with the hop: a whole graph's is the same in every step.
    """
    key = ("edges", str(device), own)
    if key not in hop.kept:
        hop.kept[key] = _edges_of(hop, device, own=own)
    edges: tuple[Tensor, Tensor] = hop.kept[key]
    return edges


def _edges_of(hop: Hop, device: torch.device, *, own: bool) -> tuple[Tensor, Tensor]:
    rows = np.repeat(np.arange(hop.num_rows), hop.degrees)
    sources = hop.indices[hop.indptr[0] : hop.indptr[-1]].astype(np.int64)
    if own:
        itself = np.arange(hop.num_rows)
        rows = np.concatenate([itself, rows])
        sources = np.concatenate([itself + hop.first, sources])
    return torch.from_numpy(sources).to(device), torch.from_numpy(rows).to(device)


def attend(p: Tensor, s_source: Tensor, s_row: Tensor, hop: Hop, slope: float) -> Tensor:
    """Attention over projected sources p [S, H, C]: [R, H, C]."""
    sources, rows = edges_of(hop, p.device, own=True)
    logits = torch.nn.functional.leaky_relu(s_source[sources] + s_row[rows], slope)
    index = rows[:, None].expand_as(logits)
    top = torch.full_like(s_row, -torch.inf).scatter_reduce(0, index, logits.detach(), "amax")
    weights = torch.exp(logits - top[rows])
    total = torch.zeros_like(s_row).index_add(0, rows, weights)
    alpha = weights / total[rows]
    out = torch.zeros(hop.num_rows, *p.shape[1:], dtype=p.dtype, device=p.device)
    return out.index_add(0, rows, alpha[..., None] * p[sources])


def scaled_sum(
    x: Tensor, hop: Hop, row_scale: Tensor | None = None, source_scale: Tensor | None = None
) -> Tensor:
    """row_scale[r] * sum of source_scale[j] * x[j] over r's neighbours: [R, D]."""
    sources, rows = edges_of(hop, x.device, own=False)
    values = x[sources] if source_scale is None else x[sources] * source_scale[sources, None]
    out = torch.zeros(hop.num_rows, x.shape[1], dtype=x.dtype, device=x.device)
    out = out.index_add(0, rows, values)
    return out if row_scale is None else out * row_scale[:, None]
