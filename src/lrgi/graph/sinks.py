"""Tables in the making: rows are written in ranges, and a range that is finished is never made again."""

from __future__ import annotations

import json
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from lrgi.compute.allocator import empty_table
from lrgi.directory import flush_directory, reserve
from lrgi.graph.features import DenseTable

FORMAT, VERSION = "lrgi-table", 1
LOG = ".log"  # beside the table's file: what it is, then a line per finished range

_MARK_SECONDS = (
    2.0  # finished ranges go on record this often: more would wait for the disk, less would lose work
)
PREAMBLE = 128  # bytes of a .npy file before its rows

Range = tuple[int, int]
Rows = npt.NDArray[np.float32]


class TableSink(ABC):
    """Takes the rows of a table float32 [N, d], a range at a time, each once; a context while it does."""

    shape: tuple[int, int]
    beside: Path | None = None  # a folder with room for as much again, where there is one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        with suppress(OSError) if kind else nullcontext():  # the first error is the one to hear of
            self.close()

    def close(self) -> None:
        """Let go of files, with what is finished on record; nothing is written afterwards."""
        return

    @abstractmethod
    def missing(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Of these ranges of rows those that are still to be made, by this process."""

    @abstractmethod
    def write(self, start: int, rows: Rows) -> None:
        """The rows from `start` on; they are one of the ranges."""

    @abstractmethod
    def table(self) -> DenseTable:
        """The table, when every range was written."""


class MemorySink(TableSink):
    """Fills an array, one of its own or the one given (perhaps mapped)."""

    def __init__(self, shape: tuple[int, int], array: Rows | None = None) -> None:
        self.shape, self._array = shape, empty_table(shape) if array is None else array
        if isinstance(array, np.memmap) and array.filename:
            self.beside = Path(array.filename).parent

    @classmethod
    def unnamed(cls, shape: tuple[int, int], folder: Path) -> MemorySink:
        """Of a mapped file in the folder, which is gone when nothing refers to the table any more."""
        sink = cls(shape, unnamed_array(shape, folder))
        sink.beside = folder
        return sink

    def missing(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """All of them."""
        yield from ranges

    def write(self, start: int, rows: Rows) -> None:
        """Copied to their place."""
        self._array[start : start + len(rows)] = rows

    def table(self) -> DenseTable:
        """Of the array."""
        return DenseTable(self._array)


class FileSink(TableSink):
    """Fills a .npy file whose finished ranges are on record, with checksums, in a log beside it.

    A new sink on the same path goes on where the last one stopped, if it is for the same table: `of` says
    what that is (a digest of what it is made from). Ranges are read back and checked first; damaged ones are
    made again. The file has its full size from the start, so a full disk is met before any work is done.
    With `mapped`, the table is the mapped file; without, a copy of it is kept in memory as it is filled.
    `heed` is called after every range, and may raise to end the work there.
    """

    _array: Rows | None = None
    _kept: dict[Range, str]
    heed: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, path: Path, shape: tuple[int, int], of: str, *, mapped: bool) -> None:
        self._settle(path, shape, of)
        self._array = None if mapped else empty_table(shape)
        self.done: set[Range] = self._finished()
        if self.done:
            self._file: BinaryIO = path.open("r+b")
            try:
                self._log: BinaryIO = self._rewritten_log()
            except BaseException:
                self._file.close()
                raise
        else:
            self._file, self._log = self._fresh()

    def _settle(self, path: Path, shape: tuple[int, int], of: str) -> None:
        self.shape, self.path, self._log_path = shape, path, path.with_suffix(LOG)
        self.beside = path.parent
        about = {"format": FORMAT, "version": VERSION, "shape": list(shape), "of": of}
        self._head = json.dumps({**about, "seal": _seal(about)}, sort_keys=True)
        self._pending: list[str] = []
        self._marked = time.monotonic()

    def missing(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Those that are not on record."""
        return (r for r in ranges if r not in self.done)

    def write(self, start: int, rows: Rows) -> None:
        """To the file; on record within seconds."""
        rows = np.ascontiguousarray(rows, dtype="<f4")
        self._file.seek(self._at(start))
        self._file.write(rows.data if rows.size else b"")
        if self._array is not None:
            self._array[start : start + len(rows)] = rows
        self._pending.append(_line(start, start + len(rows), rows))
        if time.monotonic() - self._marked > _MARK_SECONDS:
            self.mark()
        self.heed()

    def mark(self) -> None:
        """Rows first, then their record: what the log says is on the disk, whatever happens."""
        if self._pending:
            _flush(self._file)
            self._log.write("".join(self._pending).encode())
            _flush(self._log)
        self._pending, self._marked = [], time.monotonic()

    def close(self) -> None:
        """Put on record what is finished: a sink on the same path goes on from there."""
        if not self._file.closed:
            with self._file, self._log:
                self.mark()

    def table(self) -> DenseTable:
        """The file, mapped, or its copy in memory."""
        self.close()
        if self._array is not None:
            return DenseTable(self._array)
        return DenseTable(np.load(self.path, mmap_mode="r", allow_pickle=False))

    def _at(self, row: int) -> int:
        return PREAMBLE + 4 * row * self.shape[1]

    def _fresh(self) -> tuple[BinaryIO, BinaryIO]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._log_path.unlink(missing_ok=True)  # first, so that it never speaks of another file
        file = self.path.open("w+b")
        try:
            file.write(preamble(self.shape))
            file.flush()
            reserve(file, self._at(self.shape[0]))
            return file, self._rewritten_log()
        except BaseException:
            file.close()
            raise

    def _rewritten_log(self) -> BinaryIO:
        """The log with what still holds."""
        lines = [self._head + "\n", *(self._kept[r] for r in sorted(self.done))]
        beside = self._log_path.with_suffix(LOG + ".part")
        log = beside.open("wb")
        try:
            log.write("".join(lines).encode())
            _flush(log)
            beside.replace(self._log_path)
            flush_directory(self.path.parent)
        except BaseException:
            with suppress(OSError):
                log.close()
            raise
        return log

    def _finished(self) -> set[Range]:
        """The ranges of the log whose rows are in the file as they were written."""
        self._kept = {}
        try:
            head, *lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines(True)
            with self.path.open("rb") as file:
                whole = self.path.stat().st_size == self._at(self.shape[0])
                if head != self._head + "\n" or not whole or file.read(PREAMBLE) != preamble(self.shape):
                    return set()
                for line in lines:
                    self._check(file, line)
        except (OSError, ValueError):  # ValueError: an empty log
            return set()
        return set(self._kept)

    def _check(self, file: BinaryIO, line: str) -> None:
        words = line.split(" ")
        if len(words) != 3 or not (words[0].isdecimal() and words[1].isdecimal()):
            return
        start, stop = int(words[0]), int(words[1])
        if not 0 <= start < stop <= self.shape[0]:
            return
        file.seek(self._at(start))
        rows = np.frombuffer(file.read(self._at(stop) - self._at(start)), "<f4").reshape(-1, self.shape[1])
        if line == _line(start, stop, rows):
            self._kept[start, stop] = line
            if self._array is not None:
                self._array[start:stop] = rows


def sink_for(out: Rows | TableSink | None, shape: tuple[int, int]) -> TableSink:
    """The sink itself, or one that fills the array, or memory."""
    return out if isinstance(out, TableSink) else MemorySink(shape, out)


def unnamed_array(shape: tuple[int, ...], folder: Path | None) -> Rows:
    """A mapped array in a temporary file that has no name: the mapping keeps it alive."""
    with tempfile.TemporaryFile(dir=folder) as file:
        reserve(file, 4 * int(np.prod(shape)))  # a full disk is met here, not in the middle of a row
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


def damaged_ranges(log: Path) -> Iterator[Range]:
    """The ranges of rows which a log says are finished, and which are not there as they were written."""
    try:
        head, *lines = log.read_text(encoding="utf-8", errors="replace").splitlines(True)
        about = json.loads(head)
        if about["seal"] != _seal({key: about[key] for key in about if key != "seal"}):
            raise ValueError
        rows, columns = (int(length) for length in about["shape"])
        with log.with_suffix(".npy").open("rb") as file:
            if file.read(PREAMBLE) != preamble((rows, columns)):
                raise ValueError
            for line in lines:
                if not line.endswith("\n"):
                    continue  # a process was killed while it wrote it: nothing is claimed
                start, stop = (int(word) for word in line.split(" ")[:2])
                if not 0 <= start < stop <= rows:
                    raise ValueError
                file.seek(PREAMBLE + 4 * start * columns)
                data = file.read(4 * (stop - start) * columns)
                if line.split(" ")[2] != blake2b(data, digest_size=16).hexdigest() + "\n":
                    yield start, stop
    except (OSError, ValueError, KeyError, TypeError, IndexError, ArithmeticError, RecursionError):
        yield 0, 0  # nothing of it can be told


def problems_of_tables(folder: Path) -> Iterator[str]:
    """A sentence for every finished range of the tables in a folder that is not as it was written."""
    for log in sorted(folder.glob(f"*{LOG}")):
        for start, stop in damaged_ranges(log):
            yield (
                f"{log.with_suffix('.npy')} and {log.name} must be as lrgi wrote them, got other bytes for "
                f"rows {start} to {stop}; give the same command again to make them again"
            )


def _seal(about: dict[str, Any]) -> str:
    return blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16).hexdigest()


def _line(start: int, stop: int, rows: npt.NDArray[Any]) -> str:
    return f"{start} {stop} {blake2b(rows.data if rows.size else b'', digest_size=16).hexdigest()}\n"


def preamble(shape: tuple[int, int]) -> bytes:
    """What a .npy file of float32 in this shape begins with."""
    words = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(map(int, shape))!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (PREAMBLE - 10).to_bytes(2, "little") + words.ljust(PREAMBLE - 11) + b"\n"


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
