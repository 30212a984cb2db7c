"""Attention that nobody will differentiate: what an embedding aggregates with."""

from __future__ import annotations

import torch
from torch import Tensor

from lrgi.compute.threads import run_tasks, weighted_tasks
from lrgi.layers import _embed_kernels, twin
from lrgi.layers.rows import frozen
from lrgi.sampling.block import Hop


def attend_frozen(p: Tensor, s_source: Tensor, s_row: Tensor, hop: Hop, slope: float) -> Tensor:
    """As `aggregate.attend`, [R, H, C] from p [S, H, C], without a gradient, keeping nothing per edge."""
    if p.device.type != "cpu":
        return twin.attend(p, s_source, s_row, hop, slope)
    out = torch.empty(hop.num_rows, p.shape[1] * p.shape[2], dtype=p.dtype)
    result = out.numpy()
    values, scores = frozen(p.flatten(1)), (frozen(s_source.contiguous()), frozen(s_row.contiguous()))
    reading = (frozen(hop.indptr), frozen(hop.indices), hop.first)
    flat, spans = values.dtype.type(slope), weighted_tasks(hop.indptr)
    run_tasks(
        lambda i: _embed_kernels.attend_frozen(values, scores, reading, flat, spans[i], result), len(spans)
    )
    return out.view(hop.num_rows, *p.shape[1:])
