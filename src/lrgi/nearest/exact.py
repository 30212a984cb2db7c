"""Exact search: every row is compared, a part of the table at a time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]


def nearest_rows(queries: Floats, parts: Iterable[Floats], k: int, own: Places) -> tuple[Places, Floats]:
    """(rows int64[q, k], cosines float32[q, k]) of the k rows nearest to each query, nearest first.

    `parts` are the table's rows in order. Row own[i] is left out of the answer to query i (-1: none is). Of
    rows that are equally near the first ones count, and a row of zeros is at a cosine of 0 to all. Where the
    table has fewer rows, k is what there is.
    """
    unit = _unit(queries)
    rows = np.empty((len(unit), 0), dtype=np.int64)
    cosines = np.empty((len(unit), 0), dtype=np.float32)
    start = 0
    for part in parts:
        found = _cosines(unit, part)
        for query in np.flatnonzero((own >= start) & (own < start + len(part))):
            found[query, own[query] - start] = -np.inf
        best = np.stack([_first(values, k) for values in found])
        rows = np.concatenate([rows, best + start], axis=1)
        cosines = np.concatenate([cosines, np.take_along_axis(found, best, axis=1)], axis=1)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]  # parts come in order: so do equals
        rows, cosines = np.take_along_axis(rows, order, axis=1), np.take_along_axis(cosines, order, axis=1)
        start += len(part)
    return rows, cosines


def _unit(rows: Floats) -> Floats:
    length = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))[:, None]
    unit: Floats = (rows / np.where(length > 0, length, 1)).astype(np.float32)
    return unit


def _cosines(unit: Floats, part: Floats) -> Floats:
    """float32[q, n]; the part itself is not copied."""
    length = np.sqrt(np.einsum("nd,nd->n", part, part))
    cosines: Floats = unit @ part.T
    cosines /= np.where(length > 0, length, np.float32(1))
    return np.clip(cosines, -1, 1, out=cosines)


def _first(values: Floats, k: int) -> Places:
    """Places of the k largest values, largest first, of equal ones the first."""
    if k >= len(values):
        return np.argsort(-values, kind="stable")
    least = np.partition(values, len(values) - k)[len(values) - k]
    sure, tied = np.flatnonzero(values > least), np.flatnonzero(values == least)
    chosen = np.concatenate([sure, tied[: k - len(sure)]])
    return chosen[np.lexsort((chosen, -values[chosen]))]
