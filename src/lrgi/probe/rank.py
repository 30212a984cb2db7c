"""How many dimensions a table really uses, without labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.seed import stream

_CHUNK_BYTES = 16 << 20
_MOST_COLUMNS = 2048

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CovarianceReport:
    """What a collapse shows in: dimensions that stand still, or dimensions that say the same."""

    smallest_variance: float
    largest_variance: float
    mean_squared_correlation: float  # over pairs of different columns; a column that stands still counts 0


def effective_rank(table: Table, *, seed: int = 0) -> float:
    """exp(entropy of the normalised singular values) of the centred table: from 1 to its columns.

    It is RankMe (Garrido et al. 2023) with the mean taken away, which would count as a dimension.
    A table whose rows are all alike has effective rank 0. Over 2,048 columns (bags of words) it is
    taken over at most 2,048 rows, a random sample fixed by the seed.
    """
    _check(table)
    if table.shape[1] > _MOST_COLUMNS:
        squares = _sampled_gram(table, seed)
    else:
        squares = covariance(table)
    values = np.sqrt(np.clip(np.linalg.eigvalsh(squares), 0.0, None))
    if not values.sum() > 0:
        return 0.0
    share = values / values.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def covariance_report(table: Table) -> CovarianceReport:
    """The smallest and largest variance of a column, and how alike the columns are."""
    _check(table)
    if table.shape[1] > _MOST_COLUMNS:
        raise InputError(
            f"a covariance report must have at most {_MOST_COLUMNS} columns, got {table.shape[1]}; "
            "report on embeddings instead of on raw features"
        )
    product = covariance(table)
    variance = np.diag(product)
    alive = variance > 0
    inverse = np.where(alive, 1 / np.sqrt(np.where(alive, variance, 1.0)), 0.0)
    squared = (product * inverse[:, None] * inverse) ** 2
    columns = len(variance)
    pairs = columns * (columns - 1)
    between = float(squared.sum() - np.diag(squared).sum())
    return CovarianceReport(float(variance.min()), float(variance.max()), between / pairs if pairs else 0.0)


def covariance(table: Table) -> Matrix:
    """Covariance of the columns, float64[d, d], divided by N; read in chunks, in two passes."""
    rows, columns = table.shape
    step = max(1, _CHUNK_BYTES // (8 * max(1, columns)))
    chunks = [np.arange(start, min(start + step, rows)) for start in range(0, rows, step)]
    mean = sum((table.rows(ids).sum(0, dtype=np.float64) for ids in chunks), np.zeros(columns)) / rows
    total = np.zeros((columns, columns))
    for ids in chunks:
        centred = table.rows(ids) - mean
        total += centred.T @ centred
    return total / rows


def _sampled_gram(table: Table, seed: int) -> Matrix:
    """Inner products of a sample of centred rows: they have the singular values of the sample."""
    ids = np.arange(table.shape[0])
    if len(ids) > _MOST_COLUMNS:
        ids = np.sort(stream(seed, "probe", "rank").choice(ids, _MOST_COLUMNS, replace=False))
    rows = table.rows(ids).astype(np.float64)
    rows -= rows.mean(0)
    gram: Matrix = rows @ rows.T
    return gram


def _check(table: Table) -> None:
    if table.shape[0] < 2 or table.shape[1] < 1:
        raise InputError(
            f"a table must have at least 2 rows and 1 column to have a covariance, got {table.shape}; "
            "embed a larger graph"
        )
