"""Arrays on disk: one .npy file each, described by an entry that says what must be found there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError

_CHUNK = 1 << 24  # bytes


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
        except (KeyError, TypeError, ValueError):
            raise FormatError(
                f"{what} must name file, dtype, shape, bytes and checksum, got {given!r}; write it again"
            ) from None
        if not _is_plain(entry.file):
            raise FormatError(
                f"{what} must name a file inside its directory, got {entry.file!r}; "
                "do not use a manifest that points elsewhere"
            )
        return entry


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
    return np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)


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
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise FormatError(
            f"array file {path} must be a .npy file, got something else; write the directory again"
        ) from None
    found = f"{array.dtype.str} {list(array.shape)}"
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


def checksum(path: Path) -> str:
    """The checksum of a whole file, as an entry holds it."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return "blake2b-128:" + digest.hexdigest()


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
    return isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0:")
