"""An approximate index of an embedding, made and searched by usearch (HNSW; Malkov and Yashunin, 2020).

It lies in a folder beside the vectors: the index, and a sealed index.json that says of which vectors it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.directory import check_seal, checksum, new_directory, write_sealed
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import FileEntry
from lrgi.outputs import INDEX, INDEX_ABOUT, MANIFEST

FORMAT, VERSION = "lrgi-index", 1
FILE = "vectors.usearch"

_SETTINGS = {
    "metric": "cos",
    "dtype": "f32",
    "connectivity": 16,
    "expansion_add": 128,
    "expansion_search": 128,
}
_AT_ONCE = 1 << 14
_CHECKED = 1 << 30  # bytes of an index that are read and checked before it is used; a larger one is not
_BESIDE = 400  # bytes per vector that the index needs beside the numbers


def bytes_to_build(count: int, width: int) -> int:
    """Of memory, while an index is made."""
    return count * (4 * width + _BESIDE)


def index_is_fresh(embedding: Path) -> bool:
    """Whether there is an index of these very vectors; a damaged one is none."""
    folder = embedding / INDEX
    try:
        check_seal(folder / INDEX_ABOUT, required=True)
        about = json.loads((folder / INDEX_ABOUT).read_text(encoding="utf-8"))
        entry = FileEntry.from_json(about.get("file"), "index")
        if entry.bytes <= _CHECKED:
            entry.verify(folder)
        entry.find(folder)
    except (FormatError, AttributeError):
        return False
    known = about.get("format") == FORMAT and about.get("version") == VERSION
    return bool(known and about.get("of") == checksum(embedding / MANIFEST))


def build_index(
    embedding: Path,
    parts: Iterable[npt.NDArray[np.float32]],
    count: int,
    width: int,
    *,
    threads: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> None:
    """Make the index of an embedding directory's vectors; it takes the place of another one when whole."""
    index, done, said = _usearch().Index(ndim=width, **_SETTINGS), 0, 0
    with new_directory(embedding / INDEX) as fresh:
        for part in parts:
            for start in range(0, len(part), _AT_ONCE):
                rows = np.ascontiguousarray(part[start : start + _AT_ONCE])
                index.add(np.arange(done, done + len(rows), dtype=np.uint64), rows, threads=threads)
                done += len(rows)
                if done * 10 // count > said:
                    said = done * 10 // count
                    tell(f"index: {done:,} of {count:,} vectors")
        index.save(str(fresh / FILE))
        about = {"format": FORMAT, "version": VERSION, "of": checksum(embedding / MANIFEST)}
        settings = {"settings": _SETTINGS, "library": f"usearch {_version()}"}
        write_sealed(
            fresh / INDEX_ABOUT,
            about | settings | {"vectors": done, "file": FileEntry.of(fresh / FILE).to_json()},
        )


def search_index(
    embedding: Path, queries: npt.NDArray[np.float32], k: int, own: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """(rows [q, k], cosines [q, k]) as `nearest.exact.nearest_rows` has them, nearly all of them right."""
    index = _usearch().Index.restore(str(embedding / INDEX / FILE), view=True)
    found = index.search(queries, k + 1)
    keys = np.atleast_2d(found.keys).astype(np.int64)
    distances = np.atleast_2d(found.distances)
    order = np.argsort(keys == own[:, None], axis=1, kind="stable")[:, :k]  # itself to the end, and off
    cosines = np.clip(1 - np.take_along_axis(distances, order, axis=1), -1, 1).astype(np.float32)
    return np.take_along_axis(keys, order, axis=1), cosines


def _usearch() -> Any:
    try:
        import usearch.index
    except ImportError:
        raise InputError(
            "an index must be made by usearch, got none; run `pip install lrgi[neighbors]`, or pass "
            "--search exact"
        ) from None
    return usearch.index


def _version() -> str:
    import usearch

    return str(usearch.__version__)
