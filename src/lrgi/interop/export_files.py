"""The files of an embedding, a shard at a time: Parquet, .npy, word2vec text; and reading them back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.directory import flush_directory
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import ArrayEntry, ArrayWriter, FileEntry, describe_array, open_array, write_array
from lrgi.graph.features import DenseTable, Table
from lrgi.interop.export_work import Work, digest_of_beginning
from lrgi.outputs import SHARDS, open_embedding, read_manifest

_SHARD_BYTES = 256 << 20
_TEXT_ROWS = 1 << 13


@dataclass(frozen=True)
class Vectors:
    """What is to be written: the rows of all tables side by side, and whose they are."""

    count: int  # of the nodes
    named: npt.NDArray[Any] | None  # the user's own ids
    nodes: npt.NDArray[np.int64] | None  # places in a larger graph
    tables: list[Table]
    dtype: str
    shard_rows: int  # 0: as many as make about 256 MB

    @property
    def width(self) -> int:
        """Columns."""
        return sum(table.shape[1] for table in self.tables)

    def ranges(self, most: int = 0) -> list[tuple[int, int]]:
        """Of the rows of every shard."""
        step = self.shard_rows or most or max(1, _SHARD_BYTES // (self.width * np.dtype(self.dtype).itemsize))
        return [(start, min(start + step, self.count)) for start in range(0, self.count, step)]

    def rows(self, start: int, stop: int) -> npt.NDArray[Any]:
        """In the type asked for; InputError for numbers that float16 cannot say."""
        parts = [_slice(table, start, stop) for table in self.tables]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        with np.errstate(over="ignore"):
            made = np.ascontiguousarray(rows, dtype=self.dtype)
        if self.dtype == "float16" and not np.isfinite(made).all():
            worst = float(np.abs(rows).max())
            raise InputError(
                f"embeddings in float16 must lie within 65504, got {worst:g}; write them as float32"
            )
        return made

    def ids(self, start: int, stop: int) -> npt.NDArray[Any]:
        """The user's own ids, else places in the graph."""
        if self.named is not None:
            return np.asarray(self.named[start:stop])
        return np.arange(start, stop) if self.nodes is None else self.nodes[start:stop]


def _slice(table: Table, start: int, stop: int) -> npt.NDArray[np.float32]:
    return table.array[start:stop] if isinstance(table, DenseTable) else table.rows(np.arange(start, stop))


def _write_parquet(vectors: Vectors, work: Work) -> dict[str, Any]:
    """vectors/part-00000.parquet, ...: `id` and a list of fixed size called `embedding`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            "Parquet must be written by pyarrow, got none; run `pip install lrgi[tables]`, or pass "
            "--format npy"
        ) from None
    kind = pa.list_(pa.from_numpy_dtype(np.dtype(vectors.dtype)), vectors.width)
    ranges, folder = vectors.ranges(), work.directory / SHARDS
    names = [f"part-{at:05d}.parquet" for at in range(len(ranges))]
    for at, name in work.unmade(names):
        start, stop = ranges[at]
        flat = pa.array(vectors.rows(start, stop).reshape(-1))
        lists = pa.FixedSizeListArray.from_arrays(flat, type=kind)
        table = pa.table({"id": pa.array(vectors.ids(start, stop)), "embedding": lists})
        folder.mkdir(exist_ok=True)
        beside = folder / f".{name}.{work.world.rank}.part"
        pq.write_table(table, beside, compression="zstd")
        work.mark(name, {**asdict(_placed(beside, folder / name)), "rows": stop - start})
        work.tell(f"shard {at + 1} of {len(ranges)}")
    return {"shards": work.entries(names)}


def _write_npy(vectors: Vectors, work: Work) -> dict[str, Any]:
    """embeddings.npy [N, k * D], and ids.npy and nodes.npy where there are some."""
    path = work.directory / "embeddings.npy"
    name = path.name
    if name not in work.done:
        beside = work.directory / f".{name}.part"
        writer = ArrayWriter(beside, vectors.dtype, (vectors.width,))
        try:
            for start, stop in vectors.ranges():
                writer.append(vectors.rows(start, stop))
            writer.close()
        finally:
            writer.discard()
        entry = replace(describe_array(beside), file=name)
        beside.replace(path)
        flush_directory(work.directory)
        work.mark(name, entry.to_json())
    entries = {"embeddings": ArrayEntry.from_json(work.done[name], name)}
    for key, array in (("ids", vectors.named), ("nodes", vectors.nodes)):
        if array is not None:
            entries[key] = write_array(work.directory / f"{key}.npy", array)
    return {"arrays": {key: entry.to_json() for key, entry in entries.items()}}


def _write_text(vectors: Vectors, work: Work) -> dict[str, Any]:
    """embeddings.txt as word2vec has it: a line with N and D, then an id and D numbers in every line.

    What is finished is a length of the file: an interrupted export cuts off what came after.
    """
    name = "embeddings.txt"
    path, beside = work.directory / name, work.directory / f".{name}.part"
    if name not in work.done:
        begun = work.done.get(beside.name, {"rows": 0, "bytes": 0})
        digest = digest_of_beginning(beside, begun["bytes"]) if begun["rows"] else blake2b(digest_size=16)
        with beside.open("r+b" if begun["rows"] else "w+b") as file:
            file.truncate(begun["bytes"])
            file.seek(begun["bytes"])
            if not begun["rows"]:
                head = f"{vectors.count} {vectors.width}\n".encode()
                file.write(head)
                digest.update(head)
            for start, stop in vectors.ranges(_TEXT_ROWS):
                if stop <= begun["rows"]:
                    continue
                rows = vectors.rows(start, stop).tolist()
                ids = vectors.ids(start, stop).tolist()
                lines = (
                    f"{i} {' '.join(f'{x:.7g}' for x in row)}\n" for i, row in zip(ids, rows, strict=True)
                )
                text = "".join(lines).encode()
                file.write(text)
                digest.update(text)
                file.flush()
                os.fsync(file.fileno())
                mark = {"rows": stop, "bytes": file.tell(), "begun": digest.hexdigest()}
                work.mark(beside.name, mark)
        if digest_of_beginning(beside, beside.stat().st_size).digest() != digest.digest():
            raise FormatError(f"{beside} must be as it was written, got other bytes; look at the disk")
        work.mark(name, asdict(_placed(beside, path)))
    return {"text": work.done[name]}


WRITERS: dict[str, Callable[..., dict[str, Any]]] = {
    "parquet": _write_parquet,
    "npy": _write_npy,
    "word2vec": _write_text,
}


def _placed(beside: Path, path: Path) -> FileEntry:
    """A finished file, flushed and under its name."""
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)
    flush_directory(path.parent)
    return FileEntry.of(path)


def check_words(ids: npt.NDArray[Any] | None) -> None:
    """Raise InputError for ids that cannot be words of word2vec text."""
    if ids is None or ids.dtype.kind != "U":
        return
    for start in range(0, len(ids), 1 << 20):
        for name in ids[start : start + (1 << 20)].tolist():
            if not name or name.split() != [name]:
                raise InputError(
                    f"ids in word2vec text must have no spaces, got {name!r}; pass --format parquet or npy"
                )


def read_vectors(path: str | os.PathLike[str]) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.float32]]]:
    """(ids, float32 rows) of an embedding directory, a shard at a time, in order; FormatError for others."""
    directory = Path(path)
    manifest = read_manifest(directory)
    if "shards" in manifest:
        import pyarrow.parquet as pq

        for given in manifest["shards"]:
            table = pq.read_table(FileEntry.from_json(given, "shard").find(directory / SHARDS))
            flat = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            ids = table["id"].to_numpy()
            yield ids, flat.reshape(len(ids), -1).astype(np.float32)
        return
    if "arrays" not in manifest:
        raise FormatError(
            f"an embedding to read must be Parquet or .npy, got {manifest.get('kind')!r} in {directory}; "
            "write it again with --format parquet"
        )
    vectors, manifest = open_embedding(directory)
    given = manifest["arrays"].get("ids")
    ids = (
        open_array(directory, ArrayEntry.from_json(given, "array ids")) if given else np.arange(len(vectors))
    )
    step = max(1, _SHARD_BYTES // (4 * vectors.shape[1]))
    for start in range(0, len(vectors), step):
        yield ids[start : start + step], np.asarray(vectors[start : start + step], dtype=np.float32)
