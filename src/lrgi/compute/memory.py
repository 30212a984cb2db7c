"""How much memory this process holds, how much more there is, and the most it held during some work.

What counts is anonymous memory, which only this process can give back. Pages of mapped files are the
system's cache: it drops them when somebody needs the room, so they bound nothing.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

_PERIOD = 0.005  # seconds between two looks
_CGROUP = Path("/sys/fs/cgroup")


class Resident(NamedTuple):
    """Bytes in memory: of this process alone, and of mapped files; 0 where the system does not say."""

    anonymous: int
    mapped: int


def resident() -> Resident:
    """What this process holds now."""
    fields = _fields(Path("/proc/self/status"))
    return Resident(fields.get("RssAnon", 0) + fields.get("RssShmem", 0), fields.get("RssFile", 0))


def available_memory() -> int | None:
    """Bytes that this process may still take: of the machine, and of its control group if it is in one."""
    found = _fields(Path("/proc/meminfo")).get("MemAvailable")
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "")):
        with suppress(OSError, ValueError):
            room = int((_CGROUP / limit).read_text())
            if used:
                cached = _keyed(_CGROUP / "memory.stat").get("file", 0)
                room -= int((_CGROUP / used).read_text()) - cached
            found = room if found is None else min(found, max(room, 0))
    return found


def available_disk(path: Path) -> int:
    """Bytes that may still be written where `path` is or will be."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


class PeakWatch:
    """While it is entered, looks every few milliseconds: the most of each kind that it saw."""

    def __init__(self) -> None:
        self.before = self.peak = Resident(0, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lrgi-memory", daemon=True)

    def __enter__(self) -> Self:
        self.before = self.peak = resident()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(_PERIOD):
            self._look()

    def _look(self) -> None:
        self.peak = Resident(*map(max, self.peak, resident()))


def _fields(path: Path) -> dict[str, int]:
    """The sizes in a file of lines `Name: 12 kB`, in bytes."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":")[::2] for line in lines)
    return {name: int(rest.split()[0]) * 1024 for name, rest in pairs if rest.endswith(" kB")}


def _keyed(path: Path) -> dict[str, int]:
    return {word: int(value) for word, value in (line.split() for line in path.read_text().splitlines())}
