"""An embedding directory to look things up in: rows by id, ids by row, all rows a part at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.arrays import ArrayEntry, FileEntry, open_array
from lrgi.interop.export_files import read_vectors
from lrgi.outputs import SHARDS, read_manifest

_IDS = 1 << 20  # looked at at once


class StoredVectors:
    """Vectors of an embedding directory, Parquet or .npy; nothing is held in memory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.directory = Path(path)
        self.manifest = read_manifest(self.directory)
        if "shards" not in self.manifest and "arrays" not in self.manifest:
            raise InputError(
                f"an embedding to search must be Parquet or .npy, got {self.manifest.get('kind')!r} in "
                f"{self.directory}; write it again with --format parquet"
            )
        self.count, self.width = int(self.manifest["nodes"]), int(self.manifest["columns"])

    @property
    def bytes(self) -> int:
        """Of the vectors."""
        return self.count * self.width * 4

    def places_of(self, names: Sequence[str]) -> npt.NDArray[np.int64]:
        """The rows of ids, which are compared as text; InputError for the first that no node has."""
        wanted, found = set(names), dict[str, int]()
        for start, ids in self._id_parts():
            for at in np.flatnonzero(_among(ids, wanted)).tolist():
                found[str(ids[at])] = start + at
            if len(found) == len(wanted):
                break
        missing = next((name for name in names if name not in found), None)
        if missing is not None:
            raise InputError(
                f"an id must be one of the {self.count:,} nodes in {self.directory}, got {missing!r}, which "
                f"is none of them; ids there are such as {self._examples()}"
            )
        return np.array([found[name] for name in names], dtype=np.int64)

    def ids_at(self, places: npt.NDArray[np.int64]) -> list[Any]:
        """The ids of some rows, in their order."""
        wanted, found = np.unique(places), dict[int, Any]()
        for start, ids in self._id_parts():
            inside = wanted[(wanted >= start) & (wanted < start + len(ids))]
            found |= zip(inside.tolist(), ids[inside - start].tolist(), strict=True)
        return [found[place] for place in places.tolist()]

    def rows_at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """float32 [len(places), columns]."""
        out, start = np.empty((len(places), self.width), dtype=np.float32), 0
        for part in self.parts():
            inside = (places >= start) & (places < start + len(part))
            out[inside] = part[places[inside] - start]
            start += len(part)
            if start > places.max(initial=-1):
                break
        return out

    def parts(self) -> Iterator[npt.NDArray[np.float32]]:
        """All rows in order, some hundred megabytes at a time."""
        return (rows for _, rows in read_vectors(self.directory))

    def graph_places(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """Where in the graph these rows come from; None where it cannot be said."""
        if self.manifest.get("embedded_in", "whole graph") == "whole graph":
            return places
        given = self.manifest.get("arrays", {}).get("nodes")
        if given is None:
            return None
        return np.asarray(open_array(self.directory, ArrayEntry.from_json(given, "array nodes"))[places])

    def _examples(self) -> str:
        _, ids = next(self._id_parts())
        return ", ".join(repr(str(name)) for name in ids[:3].tolist())

    def _id_parts(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """(first row, ids of the rows from there) in order."""
        if "shards" in self.manifest:
            yield from self._shard_ids()
            return
        given, start = self.manifest["arrays"].get("ids"), 0
        ids = np.arange(self.count)
        if given is not None:
            ids = open_array(self.directory, ArrayEntry.from_json(given, "array ids"))
        for start in range(0, self.count, _IDS):
            yield start, np.asarray(ids[start : start + _IDS])

    def _shard_ids(self) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        import pyarrow.parquet as pq

        start = 0
        for given in self.manifest["shards"]:
            file = FileEntry.from_json(given, "shard").find(self.directory / SHARDS)
            ids = np.asarray(pq.read_table(file, columns=["id"])["id"].to_numpy())
            yield start, ids
            start += len(ids)


def _among(ids: npt.NDArray[Any], names: set[str]) -> npt.NDArray[np.bool_]:
    """Which ids are written like one of the names."""
    if ids.dtype.kind in "iu":
        whole = [int(name) for name in names if name.lstrip("-").isdecimal() and str(int(name)) == name]
        inside = [number for number in whole if -(2**63) <= number < 2**63]
        return np.isin(ids, np.array(inside, dtype=np.int64))
    return np.isin(ids.astype(object) if ids.dtype == object else ids, list(names))
