"""The nodes nearest to some nodes: `nearest_nodes` of an embedding directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.compute.memory import available_memory
from lrgi.errors import InputError
from lrgi.interop.stored_vectors import StoredVectors
from lrgi.interop.usearch_index import build_index, bytes_to_build, index_is_fresh, search_index
from lrgi.nearest.exact import nearest_rows
from lrgi.outputs import verify_vectors

SEARCHES = ("auto", "exact", "index")
CHECKED = 1 << 30  # bytes of vectors that are read and checked although an index does not need them
INDEX_FROM = 2_000_000  # vectors; fewer are compared one by one in about a second


@dataclass(frozen=True)
class Nearest:
    """The nodes nearest to one node, nearest first; `rows` are places in the embedding."""

    id: Any
    row: int
    ids: tuple[Any, ...]
    rows: npt.NDArray[np.int64]
    cosines: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Found:
    """An answer for each node asked for, and how it was found: by "exact" search or by an "index"."""

    by: str
    answers: tuple[Nearest, ...]


def nearest_nodes(
    embedding: str | os.PathLike[str],
    ids: Sequence[Any],
    k: int = 10,
    *,
    search: str = "auto",
    index_from: int = INDEX_FROM,
    threads: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> Found:
    """The k nodes with the largest cosine to each of the nodes called `ids`, without the node itself.

    `search` is "exact" (all vectors are read, a part at a time), "index" (usearch's, made where there is
    none of these vectors, and kept beside them), or "auto": an index from `index_from` vectors on, where the
    memory suffices to make it. Raises InputError for an id that is not there.
    """
    if search not in SEARCHES:
        raise InputError(f"search must be one of {', '.join(SEARCHES)}, got {search!r}; choose one")
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}; raise it")
    vectors = StoredVectors(embedding)
    with_index = _with_index(vectors, search, index_from, tell)
    if not with_index or vectors.bytes <= CHECKED:
        verify_vectors(vectors.directory)
    names = list(dict.fromkeys(map(str, ids)))
    if not names:
        raise InputError("ids must be at least one, got none; name a node")
    own = vectors.places_of(names)
    queries, most = vectors.rows_at(own), min(k, vectors.count - 1)
    if with_index:
        by = "index"
        if not index_is_fresh(vectors.directory):
            tell(f"making an index of {vectors.count:,} vectors, once")
            size = (vectors.count, vectors.width)
            build_index(vectors.directory, vectors.parts(), *size, threads=threads, tell=tell)
        rows, cosines = search_index(vectors.directory, queries, most, own)
    else:
        by = "exact"
        rows, cosines = nearest_rows(queries, vectors.parts(), most, own)
    found = vectors.ids_at(np.concatenate([own, rows.reshape(-1)]))
    called = found[len(own) :]
    return Found(
        by,
        tuple(
            Nearest(
                found[at], int(own[at]), tuple(called[at * most : (at + 1) * most]), rows[at], cosines[at]
            )
            for at in range(len(own))
        ),
    )


def _with_index(vectors: StoredVectors, search: str, index_from: int, tell: Callable[[str], None]) -> bool:
    if search == "exact" or (search == "auto" and vectors.count < index_from):
        return False
    if index_is_fresh(vectors.directory):
        return True
    needs, room = bytes_to_build(vectors.count, vectors.width), available_memory()
    if room is None or needs < 0.8 * room:
        return True
    short = f"{needs / 1e9:,.1f} GB, and {room / 1e9:,.1f} GB are free"
    if search == "index":
        raise InputError(
            f"the memory must suffice to make an index, got a need of {short}; pass --search exact"
        )
    tell(f"comparing all vectors: an index would need {short}")
    return False
