"""TensorBoard event files, written by hand: the format is four lines, its library is a big dependency.

A file is a sequence of records; a record is length (uint64), crc(length), data, crc(data), little endian,
where data is the protobuf message Event {1: wall_time double, 2: step varint, 3: file_version string,
5: Summary {1: repeated Value {1: tag string, 2: simple_value float}}} and crc is a masked CRC-32C.
"""

import os
import socket
import struct
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self


@cache
def _crc_table() -> tuple[int, ...]:
    """CRC-32C of each byte (Castagnoli's polynomial, bits reversed)."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


def _masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and shifted so that a checksum stored inside checked data stays sound."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked_crc(length)) + data + struct.pack("<I", _masked_crc(data))


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _bytes_field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _value(tag: str, value: float) -> bytes:
    return _bytes_field(1, _bytes_field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


def digest_at(path: Path, mark: Mapping[str, Any]) -> Any:
    """The digest of what was in a file at a mark, to go on with; None where it is not there as it was."""
    try:
        with path.open("rb") as file:
            digest = blake2b(file.read(int(mark["bytes"])), digest_size=16)
    except OSError:
        return None
    return digest if mark.get("digest", digest.hexdigest()) == digest.hexdigest() else None


class EventWriter:
    """Appends scalars to an event file in `path_dir` (made if missing); `wall_time` gives Unix seconds.

    The file is new, or the one of a `mark`, cut to what was in it then.
    """

    def __init__(
        self, path_dir: Path | str, wall_time: Callable[[], float], mark: Mapping[str, Any] | None = None
    ) -> None:
        self._wall_time = wall_time
        directory = Path(path_dir)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(wall_time())}.{socket.gethostname()}"
        old = None if mark is None else directory / Path(str(mark["file"])).name
        begun = None if old is None or mark is None else digest_at(old, mark)
        if old is not None and begun is None:  # damaged: a curve is not worth a fit, it begins anew
            old.unlink(missing_ok=True)
        self.path = directory / name if old is None or begun is None else old
        self._file = self.path.open("ab")
        if mark is not None and begun is not None:
            self._file.truncate(int(mark["bytes"]))
        self._digest = begun or blake2b(self.path.read_bytes(), digest_size=16)
        if self._file.tell() == 0 or self.path.stat().st_size == 0:
            self._write(_bytes_field(3, b"brain.Event:2"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    def _write(self, payload: bytes) -> None:
        data = _record(b"\x09" + struct.pack("<d", self._wall_time()) + payload)
        self._file.write(data)
        self._digest.update(data)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write one number for each tag at `step` (not negative), stored as float32."""
        summary = b"".join(_value(tag, value) for tag, value in values.items())
        self._write(b"\x10" + _varint(step) + _bytes_field(5, summary))

    def mark(self) -> dict[str, Any]:
        """Everything to the disk; the file and its size, for a writer that goes on from here."""
        self._file.flush()
        os.fsync(self._file.fileno())
        size = os.fstat(self._file.fileno()).st_size
        return {"file": self.path.name, "bytes": size, "digest": self._digest.hexdigest()}

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close the file; nothing can be written afterwards."""
        self._file.close()
