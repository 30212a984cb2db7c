"""What a data set's field does to its features before anything is fitted, as named steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, SparseTable, Table
from lrgi.graph.graph import Graph

_Rows = npt.NDArray[np.float32]


def prepared(graph: Graph, steps: Sequence[str]) -> Graph:
    """The graph with its features changed, step by step (STEPS)."""
    check_steps(steps)
    table = graph.features
    for step in steps:
        table = STEPS[step](table)
    return graph if not steps else replace(graph, features=table)


def check_steps(steps: Sequence[str]) -> None:
    """Raise InputError for a name that is no step."""
    for step in steps:
        if step not in STEPS:
            raise InputError(
                f"a step of features must be one of {', '.join(STEPS)}, got {step!r}; choose one"
            )


def _binary(table: Table) -> Table:
    return _by_value(table, lambda values: (values != 0).astype(np.float32))


def _row_normalised(table: Table) -> Table:
    return _by_row(table, lambda values: np.abs(values))


def _row_length(table: Table) -> Table:
    return _by_row(table, np.square, root=True)


def _by_value(table: Table, change: Callable[[_Rows], _Rows]) -> Table:
    if isinstance(table, SparseTable):
        return SparseTable(table.indptr, table.indices, change(table.data), table.columns)
    return DenseTable(change(table.array))


def _by_row(table: Table, size: Callable[[_Rows], _Rows], *, root: bool = False) -> Table:
    """Rows divided by the sum of the sizes of their values (or by its root); a row of zeros stays."""
    if isinstance(table, SparseTable):
        owner = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        total = np.bincount(owner, weights=size(table.data), minlength=table.shape[0])
    else:
        total = size(table.array).sum(1, dtype=np.float64)
    divisor = np.where(total > 0, np.sqrt(total) if root else total, 1.0)
    if isinstance(table, SparseTable):
        data = (table.data / divisor[owner]).astype(np.float32)
        return SparseTable(table.indptr, table.indices, data, table.columns)
    return DenseTable((table.array / divisor[:, None]).astype(np.float32))


STEPS: dict[str, Callable[[Table], Table]] = {
    "binary": _binary,  # what is not zero is one
    "row-normalised": _row_normalised,  # rows sum to one: the field's usual for bags of words
    "row-length": _row_length,  # rows have length one
}
