"""Tables that several processes make together: over the network, on a shared folder, or each its own part."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from lrgi.distributed.collectives import World
from lrgi.graph.features import DenseTable
from lrgi.graph.part import Part
from lrgi.graph.sinks import LOG, PREAMBLE, FileSink, MemorySink, Range, Rows, preamble

_COLLECTED = 1 << 16  # rows that each process sends at once
_HALTS = 16  # of a layer's embedding, where nobody takes over another one's ranges


class GatheredSink(MemorySink):
    """In memory, without a shared folder: each process makes some of the ranges and sends them to all."""

    def __init__(self, shape: tuple[int, int], world: World) -> None:
        super().__init__(shape)
        self._world = world
        self._shares: list[list[Range]] = []

    def missing(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """This process's."""
        self._shares = shares_of(list(ranges), self._world.size)
        yield from _keeping_pace(self._shares[self._world.rank], self._world)

    def table(self) -> DenseTable:
        """With what the others made."""
        for source, share in enumerate(self._shares):
            if share:
                rows = self._array[share[0][0] : share[-1][1]]
                self._world.repeat(torch.from_numpy(rows), source=source)
        return super().table()


class HaloSink(MemorySink):
    """A part of a table: a process makes the rows of its own nodes, and gets the others' from their owners.

    This is all that travels of a graph in parts: once per layer, the rows that two hops read.
    """

    def __init__(self, shape: tuple[int, int], part: Part, world: World) -> None:
        super().__init__(shape)
        self._part, self._world = part, world

    def missing(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Those of the nodes that are owned."""
        owned = self._part.owned
        own = [(start, min(stop, owned)) for start, stop in ranges if start < owned]
        yield from _keeping_pace(own, self._world)

    def table(self) -> DenseTable:
        """With the rows of neighbours, and of theirs."""
        fill_halo(self._array, self._part, self._world)
        return super().table()


class SharedFileSink(FileSink):
    """A file in a folder that all processes see, whose ranges any of them can make.

    Each process takes the ranges of its share in order, and then those that nobody has put on record, from
    the others' ends backwards: a range whose process is slow or dead is made by another one. Whoever makes
    a range writes the same bytes, so no one needs to ask first. Each process keeps a log of its own while it
    works; at the end process 0 leaves the file and the log that one process would have left.
    """

    def __init__(self, path: Path, shape: tuple[int, int], of: str, world: World, *, mapped: bool) -> None:
        self._settle(path, shape, of)
        self._world, self._mapped = world, mapped
        self.done, self._kept = set(), {}
        old = self._all_logs() if world.rank == 0 else []
        told = torch.tensor([time.time_ns(), self._prepare() if world.rank == 0 else 0])
        world.repeat(told)
        self._launch = f"{path.stem}.{int(told[0]):x}"
        self._log_path = path.with_name(f"{self._launch}.{world.rank}{LOG}")
        self._take_over(self._all_logs() if told[1] else [])
        self._file, self._log = path.open("r+b"), self._rewritten_log()
        world.wait()
        for log in old:
            log.unlink(missing_ok=True)

    def missing(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """Of this process's share, then of what is left."""
        rank, size = self._world.rank, self._world.size
        shares = shares_of(list(ranges), size)
        mine = set(self._left(shares[rank]))
        yield from (r for r in shares[rank] if r in mine)
        self.mark()
        others = [r for i in range(1, size) for r in reversed(shares[(rank + i) % size])]
        while left := self._left(others):
            yield left[0]
            self.mark()

    def table(self) -> DenseTable:
        """The file, mapped or read into memory, when all is on record."""
        self.close()
        self._world.wait()
        if self._world.rank == 0:
            lines = self._recorded()
            self._log_path = self.path.with_suffix(LOG)
            self.done, self._kept = set(lines), lines
            self._rewritten_log().close()
            for log in self._logs():
                log.unlink()
        return DenseTable(np.load(self.path, mmap_mode="r" if self._mapped else None, allow_pickle=False))

    def _prepare(self) -> bool:
        """By process 0: whether the file is there to go on with; if not, it is made."""
        try:
            with self.path.open("rb") as file:
                found = file.read(PREAMBLE) == preamble(self.shape)
            if found and self.path.stat().st_size == self._at(self.shape[0]):
                return True
        except OSError:
            pass
        for log in self._all_logs():
            log.unlink()
        for opened in self._fresh():
            opened.close()
        return False

    def _take_over(self, logs: Iterable[Path]) -> None:
        """Read back a share of what earlier launches made, and put what holds on record as this one's."""
        lines = sorted({line for log in logs for line in self._lines(log)})
        with self.path.open("rb") as file:
            for line in lines[self._world.rank :: self._world.size]:
                self._check(file, line)
        self.done = set(self._kept)

    def _left(self, ranges: list[Range]) -> list[Range]:
        recorded = self._recorded()
        return [r for r in ranges if r not in recorded]

    def _recorded(self) -> dict[Range, str]:
        """What all processes of this launch have on record."""
        lines = [line for log in self._logs() for line in self._lines(log)]
        return {(int(line.split(" ")[0]), int(line.split(" ")[1])): line for line in lines}

    def _all_logs(self) -> list[Path]:
        """Those of earlier launches too."""
        merged = self.path.with_suffix(LOG)
        return [*self.path.parent.glob(f"{self.path.stem}.*{LOG}"), *([merged] if merged.exists() else [])]

    def _logs(self) -> list[Path]:
        return sorted(self.path.parent.glob(f"{self._launch}.*{LOG}"))

    def _lines(self, log: Path) -> list[str]:
        """Whole lines of a log of this table, even while its process writes."""
        try:
            head, *lines = log.read_text(encoding="utf-8", errors="replace").splitlines(True)
        except (OSError, ValueError):
            return []
        whole = head == self._head + "\n"
        return [line for line in lines if whole and line.endswith("\n") and line.count(" ") == 2]


def fill_halo(array: Rows, part: Part, world: World) -> None:
    """Put the rows of nodes that others own where they belong, each from its owner's array."""
    names, owners = np.asarray(part.names), np.asarray(part.owners)
    wanted = [part.owned + np.flatnonzero(owners == other) for other in range(world.size)]
    asked = world.exchange(
        [torch.from_numpy(names[places].astype(np.int64)) for places in wanted],
        _counts(wanted, world),
    )
    own = names[: part.owned]
    given = [np.searchsorted(own, name.numpy()) for name in asked]
    given[world.rank] = np.empty(0, np.int64)
    got = world.exchange([torch.from_numpy(array[places]) for places in given], [len(w) for w in wanted])
    for places, rows in zip(wanted, got, strict=True):
        array[places] = rows.numpy()


def collect_rows(own: Rows, part: Part, world: World, out: Rows | None) -> None:
    """Process 0 gets the rows of all nodes into `out` [nodes of the whole graph, D], some at a time.

    `own` [owned, D] are this process's; `out` is process 0's alone.
    """
    owned = torch.zeros(world.size, dtype=torch.int64)
    owned[world.rank] = part.owned
    world.add_up(owned)
    names = np.asarray(part.names[: part.owned]).astype(np.int64)
    for start in range(0, int(owned.max()), _COLLECTED):
        counts = (owned - start).clamp(0, _COLLECTED).tolist()
        mine = slice(start, start + _COLLECTED)
        expected = counts if world.rank == 0 else [0] * world.size
        whose = world.exchange(_to_first(torch.from_numpy(np.array(names[mine])), world), expected)
        rows = world.exchange(_to_first(torch.from_numpy(np.array(own[mine])), world), expected)
        if out is not None:
            for places, values in zip(whose, rows, strict=True):
                out[places.numpy()] = values.numpy()


def _to_first(rows: torch.Tensor, world: World) -> list[torch.Tensor]:
    """Something for process 0, and nothing for the others."""
    return [rows if to == 0 else rows[:0] for to in range(world.size)]


def _keeping_pace(ranges: list[Range], world: World) -> Iterator[Range]:
    """The ranges; now and then all wait for the slowest, so that no one's silence is as long as a layer."""
    for i in range(_HALTS):
        yield from ranges[len(ranges) * i // _HALTS : len(ranges) * (i + 1) // _HALTS]
        world.wait()


def _counts(wanted: list[np.ndarray], world: World) -> list[int]:
    """How many rows each other process wants of this one."""
    got = world.exchange([torch.tensor([len(places)]) for places in wanted], [1] * world.size)
    return [int(count) for count in got]


def shares_of(ranges: list[Range], size: int) -> list[list[Range]]:
    """Consecutive ranges for each process."""
    borders = [len(ranges) * i // size for i in range(size + 1)]
    return [ranges[a:b] for a, b in pairwise(borders)]


def sees_what_others_write(directory: Path, world: World) -> bool:
    """Whether a folder is the same one for all processes, by a file that process 0 leaves there."""
    told = torch.tensor([time.time_ns()])
    world.repeat(told)
    sign = directory / f".seen-{int(told):x}"
    if world.rank == 0:
        directory.mkdir(parents=True, exist_ok=True)
        sign.touch()
    world.wait()
    seen = torch.tensor([float(sign.exists())])
    world.add_up(seen)
    if world.rank == 0:
        sign.unlink()
    return int(seen) == world.size
