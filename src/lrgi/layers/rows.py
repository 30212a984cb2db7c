"""Rows of a frozen table: what a layer reads while it is fitted. No gradient flows to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrgi.compute.products import Activation, activate, linear
from lrgi.compute.threads import run_ranges, run_tasks
from lrgi.graph.features import DenseTable, SparseTable, Table
from lrgi.layers import _kernels, resident
from lrgi.sampling.block import Block

NO_NODES = np.empty(0, np.int32)  # in kernels: the rows in their own order

_ROWS_PER_TASK = 512
_BACKWARD_SLICES = 8
_RESIDENT_BYTES = 4 << 30  # a table up to here is copied to an accelerator whole


@dataclass(frozen=True)
class Rows:
    """The rows `nodes` of `table`, in that order; `nodes` None: all of it. Nothing is copied until asked.

    `kept`, float32[width] of 0 and 1, says which columns count; the others are zero.
    """

    table: Table
    nodes: np.ndarray | None = None
    device: str = "cpu"
    kept: np.ndarray | None = None

    @classmethod
    def of(cls, table: Table, block: Block, device: str = "cpu") -> Rows:
        """The rows that a block's nodes name; a whole graph's rows are a view of the table."""
        if block.span is not None:
            return cls(table.slice(*block.span), None, device)
        return cls(table, block.nodes, device)

    @property
    def count(self) -> int:
        """How many rows."""
        return self.table.shape[0] if self.nodes is None else len(self.nodes)

    @property
    def width(self) -> int:
        """Columns per row."""
        return self.table.shape[1]

    def range(self, start: int, stop: int) -> Rows:
        """The rows start..stop of these."""
        if self.nodes is None:
            return replace(self, table=self.table.slice(start, stop))
        return replace(self, nodes=self.nodes[start:stop])

    def dense(self) -> Tensor:
        """The rows as a tensor [count, width] on the device: a view where that is possible."""
        whole = self._all_columns()
        return whole if self.kept is None else whole * torch.from_numpy(self.kept).to(whole.device)

    def _all_columns(self) -> Tensor:
        if isinstance(self.table, DenseTable) and self.nodes is None:
            whole = as_tensor(self.table.array)
            return whole if self.device == "cpu" else resident.dense_on(whole, self.device)
        if isinstance(self.table, SparseTable) and self.nodes is None and self.device != "cpu":
            return resident.sparse_on(self.table, self.device)[0].to_dense()
        if self.nodes is not None and self._is_resident:
            at = torch.from_numpy(self.nodes).to(self.device)
            return resident.dense_on(as_tensor(self.table.array), self.device)[at]  # type: ignore[union-attr]
        if self.nodes is None or isinstance(self.table, SparseTable):
            ids = np.arange(self.count) if self.nodes is None else self.nodes
            return torch.from_numpy(self.table.rows(ids)).to(self.device)
        table, nodes = as_tensor(self.table.array), torch.from_numpy(self.nodes)
        out = torch.empty(self.count, self.width, dtype=table.dtype)

        def gather(start: int, stop: int) -> None:
            torch.index_select(table, 0, nodes[start:stop], out=out[start:stop])

        run_ranges(gather, self.count, _ROWS_PER_TASK)
        return out.to(self.device)

    def product(
        self,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        plus: Tensor | None = None,
        activation: Activation = "none",
    ) -> Tensor:
        """activation(rows W^T + bias + plus), W [D, width]: [count, D]; sparse rows are never made dense."""
        if self.kept is not None:  # a column that is zero is one whose weights are
            weight = weight * torch.from_numpy(self.kept).to(weight.device)
        if not isinstance(self.table, SparseTable):
            return linear(self._all_columns(), weight, bias, plus=plus, activation=activation)
        if weight.device.type != "cpu":
            y = self._sparse_on_device(self.table, weight)
        else:
            y = _SparseProduct.apply(weight.t().contiguous(), self)  # type: ignore[no-untyped-call]
        y = y if bias is None else y + bias
        return activate(y if plus is None else y + plus, activation)

    def _sparse_on_device(self, table: SparseTable, weight: Tensor) -> Tensor:
        if self.nodes is None:
            return resident.sparse_product(table, weight)
        if 2 * len(self.nodes) < table.shape[0]:
            return resident.sparse_product(table.take(self.nodes), weight)
        return resident.sparse_product(table, weight)[torch.from_numpy(self.nodes).to(weight.device)]

    @property
    def _is_resident(self) -> bool:
        """Whether the whole table is kept on an accelerator, to take rows from it there."""
        dense = isinstance(self.table, DenseTable)
        return dense and self.device != "cpu" and self.table.dense_bytes <= _RESIDENT_BYTES


class _SparseProduct(torch.autograd.Function):
    """CSR rows times weight_t [width, D]; the gradient is cut by columns of D, so sums keep their order."""

    @staticmethod
    def forward(ctx: Any, weight_t: Tensor, rows: Rows) -> Tensor:
        ctx.rows, ctx.shape = rows, weight_t.shape
        out = torch.empty(rows.count, weight_t.shape[1], dtype=weight_t.dtype)
        arrays, nodes = _sparse_arrays(rows)
        weight, result = frozen(weight_t), out.numpy()
        task = lambda a, b: _kernels.sparse_product(arrays, nodes, weight, (a, b), result)  # noqa: E731
        run_ranges(task, rows.count, _ROWS_PER_TASK)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        d_weight = torch.zeros(ctx.shape, dtype=grad.dtype)
        arrays, nodes = _sparse_arrays(ctx.rows)
        d_out, result = frozen(grad.contiguous()), d_weight.numpy()
        borders = np.linspace(0, ctx.shape[1], _BACKWARD_SLICES + 1).astype(int).tolist()

        def task(i: int) -> None:
            span = (borders[i], borders[i + 1])
            _kernels.sparse_product_backward(arrays, nodes, d_out, span, result)

        run_tasks(task, _BACKWARD_SLICES)
        return d_weight, None


def _sparse_arrays(rows: Rows) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    table = rows.table
    assert isinstance(table, SparseTable)
    nodes = NO_NODES if rows.nodes is None else rows.nodes
    return (frozen(table.indptr), frozen(table.indices), frozen(table.data)), frozen(nodes)


def frozen(values: np.ndarray | Tensor) -> np.ndarray:
    """A plain read-only view: kernels are compiled once for it, whatever the caller's array was."""
    array = values.detach().numpy() if isinstance(values, Tensor) else values
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def as_tensor(array: np.ndarray) -> Tensor:
    """A tensor over a read-only array, without a copy and without torch's warning; never written to."""
    return torch.from_numpy(np.asarray(_Borrowed(array)))


class _Borrowed:
    """Shows an array's memory as writable, which torch demands even of tensors that are only read."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # kept alive as long as the view of it
        self.__array_interface__ = dict(array.__array_interface__)
        self.__array_interface__["data"] = (array.__array_interface__["data"][0], False)
