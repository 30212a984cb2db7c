"""Which targets of every batch are this process's. Batches are the same whoever shares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from lrgi.graph.part import Part


class Targets(NamedTuple):
    """One process's targets of a batch, as ids of the graph that it holds."""

    own: np.ndarray
    all: np.ndarray | None  # those of the batch that may be met; None: they are `own`
    batch: int  # how many the batch has


class Share(ABC):
    """A rule that gives every target of every batch to one process."""

    names: np.ndarray | None = (
        None  # of the nodes of the graph that is held, in the whole one; None: their ids
    )
    offsets: np.ndarray | None = None  # of the whole graph; None: those of the one that is held

    @abstractmethod
    def of(self, batch: np.ndarray) -> Targets:
        """The share of a batch, whose targets are nodes of the whole graph."""


class Everything(Share):
    """One process takes all."""

    def of(self, batch: np.ndarray) -> Targets:
        """All of it."""
        return Targets(batch, None, len(batch))


class Slice(Share):
    """Process r of P takes the r-th of P parts of about the same size; each holds the whole graph."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def of(self, batch: np.ndarray) -> Targets:
        """Its part."""
        start, stop = (len(batch) * i // self.size for i in (self.rank, self.rank + 1))
        return Targets(batch[start:stop], batch, len(batch))


class Owned(Share):
    """A process takes the targets that it owns; it holds their surroundings, and not the whole graph."""

    def __init__(self, part: Part) -> None:
        self.names, self.offsets, self._owned = part.names, part.whole_offsets, part.owned
        self._order = np.argsort(part.names, kind="stable")
        self._sorted = part.names[self._order]

    def of(self, batch: np.ndarray) -> Targets:
        """Those it owns, in the batch's order."""
        at = np.minimum(np.searchsorted(self._sorted, batch), len(self._sorted) - 1)
        held = self._order[at[self._sorted[at] == batch]]
        return Targets(held[held < self._owned], held, len(batch))


EVERYTHING = Everything()
