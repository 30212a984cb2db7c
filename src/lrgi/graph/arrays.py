"""Arrays on disk: one .npy file each, described by an entry that says what must be found there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lrgi.directory import checksum, reserve
from lrgi.errors import FormatError
from lrgi.graph.npy import read_header


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """What a manifest says of one array: its file's name, size and checksum, its type and shape."""

    file: str
    dtype: str  # as numpy writes it: "<i8", "<f4", "|u1", "<U12"
    shape: tuple[int, ...]
    bytes: int  # size of the whole file
    checksum: str  # "blake2b-128:" and 32 hexadecimal digits, over the whole file

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_json(cls, given: Any, what: str) -> ArrayEntry:
        """From a JSON object; raises FormatError for missing parts and for names that are paths."""
        try:
            shape = tuple(int(length) for length in given["shape"])
            entry = cls(given["file"], given["dtype"], shape, int(given["bytes"]), given["checksum"])
            if not (isinstance(entry.dtype, str) and isinstance(entry.checksum, str)):
                raise TypeError
        except (KeyError, TypeError, ValueError, OverflowError):
            raise FormatError(
                f"{what} must name file, dtype, shape, bytes and checksum, got {given!r}; write it again"
            ) from None
        if not _is_plain(entry.file):
            raise FormatError(
                f"{what} must name a file inside its directory, got {entry.file!r}; "
                "do not use a manifest that points elsewhere"
            )
        return entry


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a manifest says of a file that is no array: its name, size and checksum."""

    file: str
    bytes: int
    checksum: str

    @classmethod
    def of(cls, path: Path) -> FileEntry:
        """The entry of a file that is complete; flushes it to the disk and reads it once."""
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return cls(path.name, path.stat().st_size, checksum(path))

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: Any, what: str) -> FileEntry:
        """From a JSON object; raises FormatError for missing parts and for names that are paths."""
        try:
            entry = cls(given["file"], int(given["bytes"]), str(given["checksum"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise FormatError(
                f"{what} must name file, bytes and checksum, got {given!r}; write it again"
            ) from None
        if not _is_plain(entry.file):
            raise FormatError(
                f"{what} must name a file inside its directory, got {entry.file!r}; "
                "do not use a manifest that points elsewhere"
            )
        return entry

    def find(self, directory: Path) -> Path:
        """The file, which is there in its size; FormatError otherwise."""
        path = directory / self.file
        size = path.stat().st_size if path.is_file() else None
        if size != self.bytes:
            found = "no such file" if size is None else f"{size}"
            raise FormatError(
                f"file {path} must have {self.bytes} bytes, got {found}; it is truncated or was changed, "
                "write the directory again"
            )
        return path

    def verify(self, directory: Path) -> None:
        """Read the whole file; FormatError when its checksum is another."""
        found = checksum(self.find(directory))
        if found != self.checksum:
            raise FormatError(
                f"file {directory / self.file} must have checksum {self.checksum}, got {found}; "
                "it was changed after it was written, write the directory again"
            )


def write_array(path: Path, array: npt.NDArray[Any]) -> ArrayEntry:
    """Write an array as a .npy file, flushed to the disk, and describe it."""
    if array.dtype.hasobject:
        raise FormatError(
            f"arrays on disk must not hold Python objects, got {array.dtype}; use numbers or text"
        )
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    with path.open("wb") as file:
        stream = _HashingFile(file)
        np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    return ArrayEntry(path.name, array.dtype.str, array.shape, size, stream.checksum())


def create_array(path: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A new .npy file as a writable mapped array, to be filled a few rows at a time; describe it after."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
    with path.open("r+b") as file:
        reserve(file, path.stat().st_size)
    return array


class ArrayWriter:
    """A new .npy file of rows that come a part at a time; how many is known when it is closed."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, row: tuple[int, ...] = ()) -> None:
        self._path, self._dtype, self._row = path, np.dtype(dtype).newbyteorder("<"), row
        self._file = path.open("w+b")
        self.rows = 0
        self._begins = self._write_header()

    def append(self, rows: npt.NDArray[Any]) -> None:
        """More rows, converted to the array's type."""
        part = np.ascontiguousarray(rows, dtype=self._dtype)
        if part.shape[1:] != self._row:
            raise ValueError(f"rows of shape {self._row} expected, got {part.shape[1:]}")
        self._file.write(part.data if part.size else b"")
        self.rows += len(part)

    def close(self) -> ArrayEntry:
        """Put the number of rows into the header, flush to the disk, and describe the file."""
        self._file.seek(0)
        ends = self._write_header()
        if ends != self._begins:  # numpy leaves room for any length
            raise RuntimeError(f"the header of {self._path} must keep its length {self._begins}, got {ends}")
        self._file.close()
        return describe_array(self._path)

    def discard(self) -> None:
        """Close an array that is not to be completed."""
        self._file.close()

    def _write_header(self) -> int:
        shape = (self.rows, *self._row)
        described = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(self._file, described)
        return self._file.tell()


def write_parts(writer: ArrayWriter, parts: Iterable[npt.NDArray[Any]]) -> ArrayEntry:
    """Write all rows that there are, and close the array; on an error it is only closed."""
    try:
        for part in parts:
            writer.append(part)
        return writer.close()
    finally:
        writer.discard()


def describe_array(path: Path) -> ArrayEntry:
    """The entry of a .npy file that is complete; flushes it to the disk and reads it once."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return ArrayEntry(path.name, array.dtype.str, array.shape, path.stat().st_size, checksum(path))


def open_array(directory: Path, entry: ArrayEntry) -> npt.NDArray[Any]:
    """The mapped, read-only array of an entry; size, type and shape are checked, values are not read."""
    path = directory / entry.file
    if not path.is_file():
        raise FormatError(f"array file {path} must exist, got no such file; write the directory again")
    size = path.stat().st_size
    if size != entry.bytes:
        raise FormatError(
            f"array file {path} must have {entry.bytes} bytes, got {size}; it is truncated or was changed, "
            "write the directory again"
        )
    try:
        with path.open("rb") as file:
            header = read_header(file)
        if header.ends != size:
            raise ValueError("a header that claims another size")
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        raise FormatError(
            f"array file {path} must be a .npy file, got something else; write the directory again"
        ) from None
    found = f"{header.dtype.str} {list(header.shape)}"
    wanted = f"{entry.dtype} {list(entry.shape)}"
    if found != wanted:
        raise FormatError(f"array file {path} must hold {wanted}, got {found}; write the directory again")
    return array


def verify_array(directory: Path, entry: ArrayEntry) -> None:
    """Read a whole array file and raise FormatError when its checksum is not the entry's."""
    found = checksum(directory / entry.file)
    if found != entry.checksum:
        raise FormatError(
            f"array file {directory / entry.file} must have checksum {entry.checksum}, got {found}; "
            "it was changed after it was written, write the directory again"
        )


def require_dtype(entries: Mapping[str, ArrayEntry], key: str, allowed: tuple[str, ...]) -> None:
    """Raise FormatError unless the entry's type starts with one of these."""
    if key in entries and not entries[key].dtype.startswith(allowed):
        raise FormatError(
            f"array {key} must have type {' or '.join(allowed)}, got {entries[key].dtype}; convert it first"
        )


class _HashingFile:
    """The write half of a file that also keeps the checksum of what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.blake2b(digest_size=16)

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return self._file.write(data)

    def checksum(self) -> str:
        return "blake2b-128:" + self._digest.hexdigest()


def _is_plain(name: Any) -> bool:
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0:"):
        return False
    return len(name.encode("utf-8", "surrogatepass")) < 256
