"""Where a fit's tables U_(l) are made: in memory, or in files that outlive the process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from torch import nn

from lrgi.directory import reserve
from lrgi.graph.sinks import FileSink, MemorySink, TableSink


@dataclass(frozen=True)
class TableStore:
    """The one place that tables of a fit come from.

    Without a directory they are in memory. With one, U_(l) is the file `U_<l>.npy` there, filled range by
    range with what is finished on record, so that embedding goes on where an earlier process stopped; it is
    also held in memory, or else `mapped`.
    """

    directory: Path | None = None
    mapped: bool = False
    heed: Callable[[], None] = lambda: None  # called between two ranges; may raise

    def sink(self, number: int, layer: nn.Module, shape: tuple[int, int]) -> TableSink:
        """What takes the rows of U_(number) [N, D], the output of `layer`."""
        if self.directory is None:
            return MemorySink(shape)
        path = self.directory / f"U_{number}.npy"
        sink = FileSink(path, shape, digest_of(layer), mapped=self.mapped)
        sink.heed = self.heed
        return sink

    def scratch(self, shape: tuple[int, int]) -> TableSink:
        """What takes a table that is made again rather than kept: in memory, or an unnamed mapped file."""
        if self.directory is None or not self.mapped:
            return MemorySink(shape)
        self.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.directory) as file:  # the mapping keeps the file alive
            reserve(file, 4 * shape[0] * shape[1])
            return MemorySink(shape, np.memmap(file, dtype=np.float32, mode="r+", shape=shape))


def digest_of(module: nn.Module) -> str:
    """A checksum of a module's weights, by name: blake2b, 32 hexadecimal digits."""
    digest = blake2b(digest_size=16)
    for name, value in module.state_dict().items():
        digest.update(f"{name} {tuple(value.shape)} ".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
