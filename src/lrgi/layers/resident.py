"""Frozen tables on an accelerator: copied there once, and kept while they are among the latest used."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lrgi.graph.features import SparseTable

_MOST = 4  # tables: a fit reads one, and a data set of many graphs a few in turn
_kept: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()


def dense_on(tensor: Tensor, device: str) -> Tensor:
    """A CPU tensor over a frozen table's rows, there."""
    key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), device)
    copy: Tensor = _once(key, tensor, lambda: tensor.to(device))
    return copy


def sparse_on(table: SparseTable, device: str) -> tuple[Tensor, Tensor]:
    """The table and its transpose as CSR tensors, there."""
    key = (table.data.ctypes.data, len(table.data), table.shape, device)
    both: tuple[Tensor, Tensor] = _once(key, table, lambda: _both_ways(table, device))
    return both


def sparse_product(table: SparseTable, weight: Tensor) -> Tensor:
    """table [N, d] times weight [D, d] transposed: [N, D], differentiable by the weight."""
    y: Tensor = _SparseOn.apply(weight, sparse_on(table, str(weight.device)))  # type: ignore[no-untyped-call]
    return y


class _SparseOn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, both: tuple[Tensor, Tensor]) -> Tensor:
        ctx.transposed = both[1]
        with torch.autocast(weight.device.type, enabled=False):
            return torch.mm(both[0], weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with torch.autocast(grad.device.type, enabled=False):
            return torch.mm(ctx.transposed, grad.contiguous()).t(), None


def _both_ways(table: SparseTable, device: str) -> tuple[Tensor, Tensor]:
    rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    places = torch.from_numpy(np.stack([rows, table.indices.astype(np.int64)])).to(device)
    values = torch.from_numpy(np.array(table.data)).to(device)
    whole = torch.sparse_coo_tensor(places, values, table.shape, device=device, check_invariants=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return whole.to_sparse_csr(), whole.t().to_sparse_csr()


def _once(key: Any, owner: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives, made once while `key` is in use; `owner` is kept, so that its address is its own."""
    if key in _kept:
        _kept.move_to_end(key)
    else:
        _kept[key] = (owner, make())
        while len(_kept) > _MOST:
            _kept.popitem(last=False)
    return _kept[key][1]
