"""Standardised rows for matrix products: a few at a time, kept when they fit, sparse when they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lrgi.errors import InputError
from lrgi.graph.features import SparseTable, Table
from lrgi.probe.data import Part

_CHUNK_BYTES = 16 << 20


@dataclass(frozen=True, eq=False)
class Scale:
    """Standardisation x -> (x - mean) / deviation, per column, float64[d] each."""

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]


class Block(Protocol):
    """Some standardised rows X, float32[n, d], as far as a linear model needs them."""

    def times(self, weights: Tensor) -> Tensor:
        """weights @ X.T, [r, n]."""

    def onto(self, gradient: Tensor) -> Tensor:
        """gradient @ X, [r, d]."""


class DenseBlock:
    """Rows that are dense anyway: copied once, standardised in place."""

    def __init__(self, rows: npt.NDArray[np.float32], scale: Scale) -> None:
        rows -= scale.mean.astype(np.float32)
        rows /= scale.deviation.astype(np.float32)
        self._rows = torch.from_numpy(rows)

    def times(self, weights: Tensor) -> Tensor:
        """weights @ X.T, [r, n]."""
        return weights @ self._rows.T

    def onto(self, gradient: Tensor) -> Tensor:
        """gradient @ X, [r, d]."""
        return gradient @ self._rows


class SparseBlock:
    """Rows that stay sparse: W (x - mean) / deviation = (W / deviation) x - W (mean / deviation)."""

    def __init__(self, rows: SparseTable, scale: Scale) -> None:
        self._rows = _csr(rows.indptr, rows.indices, rows.data, rows.shape)
        owner = np.repeat(np.arange(rows.shape[0], dtype=np.int32), np.diff(rows.indptr))
        order = np.argsort(rows.indices, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows.indices, minlength=rows.columns))])
        self._columns = _csr(starts, owner[order], rows.data[order], rows.shape[::-1])
        self._inverse = torch.from_numpy((1 / scale.deviation).astype(np.float32))
        self._shift = torch.from_numpy((scale.mean / scale.deviation).astype(np.float32))

    def times(self, weights: Tensor) -> Tensor:
        """weights @ X.T, [r, n]."""
        product = self._rows @ (weights * self._inverse).T
        return product.T.contiguous().sub_((weights @ self._shift)[:, None])

    def onto(self, gradient: Tensor) -> Tensor:
        """gradient @ X, [r, d]."""
        product = (self._columns @ gradient.T).T * self._inverse
        return product.addr_(gradient.sum(1), self._shift, alpha=-1)


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of one part in chunks: read anew on every pass, or kept from the first on."""

    part: Part
    scale: Scale
    kept: list[tuple[Block, slice]] | None

    def __iter__(self) -> Iterator[tuple[Block, slice]]:
        """Blocks and the range of the part's rows that each holds."""
        return iter(self.kept) if self.kept is not None else _read(self.part, self.scale)


def open_source(part: Part, scale: Scale, budget: int) -> Source:
    """A source that keeps its blocks if they take at most `budget` bytes."""
    fits = source_bytes(part) <= budget
    return Source(part, scale, list(_read(part, scale)) if fits else None)


def source_bytes(part: Part) -> int:
    """Bytes that the blocks of a part take together."""
    if isinstance(part.table, SparseTable):
        return 24 * stored_values(part) + 16 * part.table.columns
    return 4 * stored_values(part)


def stored_values(part: Part) -> int:
    """Values that the part's rows hold: all of a dense table's, the written ones of a sparse table's."""
    if isinstance(part.table, SparseTable):
        return int((part.table.indptr[part.rows + 1] - part.table.indptr[part.rows]).sum())
    return len(part.rows) * part.table.shape[1]


def measure_scale(part: Part, *, standardize: bool = True) -> Scale:
    """Mean and population deviation of the part's rows, in float64; a constant column gets deviation 1."""
    columns = part.table.shape[1]
    if not standardize:
        return Scale(np.zeros(columns), np.ones(columns))
    seen, mean, square = 0, np.zeros(columns), np.zeros(columns)
    for span in _spans(part):
        count = span.stop - span.start
        chunk_mean, chunk_square = _moments(part.table, part.rows[span])
        step = chunk_mean - mean
        square += chunk_square + step**2 * (seen * count / (seen + count))
        mean += step * (count / (seen + count))
        seen += count
    if not np.isfinite(square).all():
        column = int(np.argmin(np.isfinite(square)))
        raise InputError(
            f"embeddings must be finite, got another value in column {column}; look at the fit that made them"
        )
    deviation = np.sqrt(square / seen)
    constant = deviation <= 1e-7 * np.abs(mean)
    return Scale(mean, np.where(constant | (deviation == 0), 1.0, deviation))


def _moments(
    table: Table, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mean, and sum of squared distances from it, of each column."""
    if not isinstance(table, SparseTable):
        with np.errstate(invalid="ignore", over="ignore"):
            dense = table.rows(rows).astype(np.float64)
            mean = dense.mean(0)
            return mean, np.square(dense - mean).sum(0)
    part, count = table.take(rows), len(rows)
    owner = np.repeat(np.arange(count, dtype=np.int64), np.diff(part.indptr))
    # A column named twice in a row counts as the sum, so equal places are merged before squaring.
    places, entry = np.unique(owner * part.columns + part.indices, return_inverse=True)
    values = np.bincount(entry, weights=part.data, minlength=len(places))
    column = places % part.columns
    mean = np.bincount(column, weights=values, minlength=part.columns) / count
    filled = np.bincount(column, minlength=part.columns)
    square = np.bincount(column, weights=(values - mean[column]) ** 2, minlength=part.columns)
    return mean, square + (count - filled) * mean**2


def _read(part: Part, scale: Scale) -> Iterator[tuple[Block, slice]]:
    for span in _spans(part):
        rows = part.rows[span]
        if isinstance(part.table, SparseTable):
            yield SparseBlock(part.table.take(rows), scale), span
        else:
            yield DenseBlock(part.table.rows(rows), scale), span


def _spans(part: Part) -> Iterator[slice]:
    """Ranges of rows of about 16 MB."""
    count = len(part.rows)
    step = max(1, count * _CHUNK_BYTES // max(1, source_bytes(part)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def _csr(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    data: npt.NDArray[np.float32],
    shape: tuple[int, ...],
) -> Tensor:
    arrays = (torch.tensor(indptr), torch.tensor(indices, dtype=torch.int64), torch.tensor(data))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(*arrays, size=shape, check_invariants=False)
