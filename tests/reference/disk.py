"""A disk that fails or dawdles: all writes, flushes, renames and reservations of this process go there."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Disk:
    """Counts operations. From operation `at` on, all fail with `code` (or only that one, with `once`).

    A write that fails has written its first half. With `dawdle`, every operation takes so many seconds, a
    write half of them between its halves.
    """

    def __init__(
        self, at: int | None = None, code: int = errno.ENOSPC, *, once: bool = False, dawdle: float = 0.0
    ):
        self.at, self.code, self.once, self.dawdle = at, code, once, dawdle
        self.count = 0

    def fails(self) -> bool:
        """Whether this operation does; it is counted."""
        self.count += 1
        if self.dawdle:
            time.sleep(self.dawdle / 2)
        return self.at is not None and (self.count - 1 == self.at if self.once else self.count > self.at)

    def error(self, path: Any = None) -> OSError:
        return OSError(self.code, os.strerror(self.code), None if path is None else str(path))


class _File:
    """A file opened for writing on such a disk."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, data: Any) -> int:
        data = memoryview(data.encode() if isinstance(data, str) else data).cast("B")
        if self._disk.fails():
            self._file.write(data[: len(data) // 2])
            raise self._disk.error()
        if self._disk.dawdle and len(data) > 1:
            half = len(data) // 2
            self._file.write(data[:half])
            self._file.flush()
            time.sleep(self._disk.dawdle / 2)
            self._file.write(data[half:])
            return len(data)
        written: int = self._file.write(data)
        return written

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *given: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def on(disk: Disk) -> Iterator[Disk]:
    """Within it, this process writes to such a disk."""
    path_open, fsync, fallocate = Path.open, os.fsync, os.posix_fallocate
    moves = {"replace": Path.replace, "rename": Path.rename}

    def slow_open(self: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        file = path_open(self, mode, *given, **named)
        return _File(file, disk) if set(mode) & set("wax+") else file

    def slow_fsync(handle: int) -> None:
        if disk.fails():
            raise disk.error()
        fsync(handle)

    def slow_fallocate(handle: int, start: int, size: int) -> None:
        if disk.fails():
            raise disk.error()
        fallocate(handle, start, size)

    def slow_move(name: str) -> Any:
        def move(self: Path, target: Any) -> Any:
            if disk.fails():
                raise disk.error(self)
            return moves[name](self, target)

        return move

    try:
        Path.open, os.fsync, os.posix_fallocate = slow_open, slow_fsync, slow_fallocate  # type: ignore
        Path.replace, Path.rename = slow_move("replace"), slow_move("rename")  # type: ignore
        yield disk
    finally:
        Path.open, os.fsync, os.posix_fallocate = path_open, fsync, fallocate  # type: ignore
        Path.replace, Path.rename = moves["replace"], moves["rename"]  # type: ignore
