"""The header of a .npy file: read without believing it, whoever wrote it."""

from __future__ import annotations

import ast
import math
import re
import struct
from typing import BinaryIO, NamedTuple

import numpy as np

_MAGIC = b"\x93NUMPY"
_LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
_LONGEST = 1 << 14  # bytes of a header; numpy's own are 118
_PLAIN = re.compile(r"[<>|=][biufcmMSUV][0-9]{0,9}(\[[0-9]*[a-zA-Z]+\])?")  # no objects, no records


class NpyHeader(NamedTuple):
    """What the values are, and where in the file they begin."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    begins: int

    @property
    def ends(self) -> int:
        """The size of the file."""
        return self.begins + self.dtype.itemsize * math.prod(self.shape)


def read_header(file: BinaryIO) -> NpyHeader:
    """From the beginning of a file; ValueError, and nothing else, for what is no plain numbers or text.

    Nothing is allocated for what it claims: the caller compares `ends` with the file.
    """
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8 or start[6] not in _LENGTHS or start[7]:
        raise ValueError("no .npy file")
    kind = _LENGTHS[start[6]]
    raw = file.read(struct.calcsize(kind))
    if len(raw) < struct.calcsize(kind) or (length := struct.unpack(kind, raw)[0]) > _LONGEST:
        raise ValueError("a header that is cut off or too long")
    text = file.read(length)
    if len(text) < length:
        raise ValueError("a header that is cut off")
    try:
        said = ast.literal_eval(text.decode("utf-8" if start[6] == 3 else "latin-1"))
        descr, shape, order = (said[key] for key in ("descr", "shape", "fortran_order"))
        plain = isinstance(descr, str) and _PLAIN.fullmatch(descr) and isinstance(order, bool)
        dtype = np.dtype(descr) if plain else np.dtype(object)
    except Exception:  # literal_eval and dtype raise many kinds for what is none
        raise ValueError("a header that cannot be read") from None
    whole = isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)
    if dtype.hasobject or not whole or (dtype.itemsize == 0 and math.prod(shape)):
        raise ValueError(f"a header of {descr!r} {shape!r}")
    return NpyHeader(dtype, shape, 8 + len(raw) + length)
