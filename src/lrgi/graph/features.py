"""Tables: one row of float32 features per node, dense or sparse, in memory or memory-mapped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError

_CHUNK = 1 << 22  # values looked at in one go, so that a check of a mapped table needs little memory


@dataclass(frozen=True, slots=True, eq=False)
class DenseTable:
    """Rows in one float32 array [N, d]; other number types are converted, an array is never altered."""

    array: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        array = np.asarray(self.array)
        if array.ndim != 2:
            raise InputError(
                f"features must have two dimensions (nodes, columns), got shape {array.shape}; reshape them"
            )
        object.__setattr__(self, "array", read_only(_as_float32(array)))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dense_bytes(self) -> int:
        """Bytes the table takes when dense."""
        return 4 * self.shape[0] * self.shape[1]

    def rows(self, ids: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """A dense, writable copy of the rows `ids`, in that order."""
        return np.take(self.array, np.asarray(ids), axis=0)

    def take(self, ids: npt.ArrayLike) -> DenseTable:
        """A new table of the rows `ids`, in that order."""
        return DenseTable(self.rows(ids))

    def slice(self, start: int, stop: int) -> DenseTable:
        """Rows start..stop as a view."""
        return DenseTable(self.array[start:stop])

    def check(self) -> None:
        """Raise InputError that names the first value that is not finite."""
        step = max(1, _CHUNK // max(1, self.shape[1]))
        for start in range(0, self.shape[0], step):
            finite = np.isfinite(self.array[start : start + step])
            if not finite.all():
                row, column = np.unravel_index(int(np.argmin(finite)), finite.shape)
                raise _not_finite(self.array[start + row, column], start + int(row), int(column))


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable:
    """Rows in CSR form: indptr int64[N+1], indices int32[nnz], data float32[nnz], columns.

    Column ids within a row need no order; a column named twice in a row counts as the sum.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.float32]
    columns: int

    def __post_init__(self) -> None:
        indptr = np.ascontiguousarray(self.indptr, dtype=np.int64)
        data = _as_float32(np.asarray(self.data))
        indices = np.asarray(self.indices)
        if indptr.ndim != 1 or len(indptr) == 0 or indices.ndim != 1 or data.shape != indices.shape:
            raise InputError(
                "sparse features must be CSR arrays indptr [N+1], indices [nnz], data [nnz], "
                f"got shapes {indptr.shape}, {indices.shape}, {data.shape}; pass a scipy CSR matrix"
            )
        if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices):
            raise InputError(
                f"sparse features' indptr must run from 0 to the number of values {len(indices)}, "
                f"got {indptr[0]} to {indptr[-1]}; pass a scipy CSR matrix"
            )
        if not 0 <= int(self.columns) < 2**31:
            raise InputError(
                f"sparse features must have 0 to 2^31 - 1 columns, got {self.columns}; drop empty columns"
            )
        if indices.dtype != np.int32:
            indices = _column_ids(indices)
        object.__setattr__(self, "indptr", read_only(indptr))
        object.__setattr__(self, "indices", read_only(np.ascontiguousarray(indices)))
        object.__setattr__(self, "data", read_only(data))
        object.__setattr__(self, "columns", int(self.columns))

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.indptr) - 1, self.columns

    @property
    def dense_bytes(self) -> int:
        """Bytes the table would take when dense."""
        return 4 * self.shape[0] * self.shape[1]

    def rows(self, ids: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """A dense, writable copy of the rows `ids`, in that order."""
        part = self.take(ids)
        out = np.zeros(part.shape, dtype=np.float32)
        row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
        np.add.at(out.reshape(-1), row * self.columns + part.indices, part.data)
        return out

    def take(self, ids: npt.ArrayLike) -> SparseTable:
        """A new table of the rows `ids`, in that order."""
        indptr, positions = row_positions(self.indptr, np.asarray(ids))
        return SparseTable(indptr, self.indices[positions], self.data[positions], self.columns)

    def slice(self, start: int, stop: int) -> SparseTable:
        """Rows start..stop; the values are views."""
        start, stop, _ = slice(start, stop).indices(self.shape[0])
        indptr = self.indptr[start : max(start, stop) + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        return SparseTable(indptr - first, self.indices[first:last], self.data[first:last], self.columns)

    def check(self) -> None:
        """Raise InputError for row bounds that fall, column ids out of range, or values not finite."""
        if (np.diff(self.indptr) < 0).any():
            row = int(np.argmax(np.diff(self.indptr) < 0))
            raise InputError(
                f"sparse features' indptr must not fall, got a fall after row {row}; pass a scipy CSR matrix"
            )
        for start in range(0, len(self.indices), _CHUNK):
            column = self.indices[start : start + _CHUNK]
            outside = (column < 0) | (column >= self.columns)
            finite = np.isfinite(self.data[start : start + _CHUNK])
            if outside.any():
                at = int(np.argmax(outside))
                raise InputError(
                    f"sparse features' column ids must lie in 0 to {self.columns - 1}, "
                    f"got {column[at]} in row {self._row_of(start + at)}; correct the number of columns"
                )
            if not finite.all():
                at = int(np.argmin(finite))
                raise _not_finite(self.data[start + at], self._row_of(start + at), int(column[at]))

    def _row_of(self, position: int) -> int:
        return int(np.searchsorted(self.indptr, position, side="right")) - 1


Table = DenseTable | SparseTable


def as_table(features: Any) -> Table:
    """A table from a table, a scipy sparse matrix, or anything numpy reads as numbers [N, d]."""
    if isinstance(features, DenseTable | SparseTable):
        return features
    if hasattr(features, "tocsr"):
        csr = features.tocsr()
        return SparseTable(csr.indptr, csr.indices, csr.data, csr.shape[1])
    return DenseTable(np.asarray(features))


def row_positions(
    indptr: npt.NDArray[np.int64], rows: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For some rows of a CSR: the indptr of just those rows, and where their entries lie."""
    starts = indptr[rows]
    counts = indptr[rows + 1] - starts
    bounds = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds, np.repeat(starts - bounds[:-1], counts) + np.arange(bounds[-1])


def row_chunks(indptr: npt.NDArray[np.int64], most: int = _CHUNK) -> Iterator[tuple[int, int]]:
    """Consecutive row ranges (start, stop) of a CSR with at most `most` entries each (or one row)."""
    start, rows = 0, len(indptr) - 1
    while start < rows:
        stop = int(np.searchsorted(indptr, int(indptr[start]) + most, side="right")) - 1
        stop = min(max(stop, start + 1), start + most, rows)
        yield start, stop
        start = stop


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that refuses writing; the array itself keeps its flags."""
    view = array.view()
    view.setflags(write=False)
    return view


def _as_float32(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if array.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got dtype {array.dtype}; convert them to float32")
    with np.errstate(over="ignore"):  # becomes infinite, which the check then names
        return np.ascontiguousarray(array, dtype=np.float32)


def _column_ids(indices: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    if indices.dtype.kind not in "iu" and len(indices):
        raise InputError(
            f"sparse features' column ids must be integers, got dtype {indices.dtype}; convert them to int32"
        )
    if len(indices) and (int(indices.max()) >= 2**31 or int(indices.min()) < -(2**31)):
        raise InputError(
            f"sparse features' column ids must be below 2^31, got {indices.max()}; drop empty columns"
        )
    return indices.astype(np.int32)


def _not_finite(value: Any, row: int, column: int) -> InputError:
    return InputError(
        f"features must be finite, got {value} in row {row}, column {column}; "
        "replace that value or drop the node"
    )
