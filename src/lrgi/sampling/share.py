"""Which targets of every batch are this process's. Batches are the same whoever shares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np


class Targets(NamedTuple):
    """One process's targets of a batch, as ids of the graph that it holds."""

    own: np.ndarray
    all: np.ndarray | None  # those of the batch that may be met; None: they are `own`
    batch: int  # how many the batch has


class Share(ABC):
    """A rule that gives every target of every batch to one process."""

    names: np.ndarray | None = None  # of the nodes of the graph that is held, in the whole one; None: their ids
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
    """A process takes the targets that it owns; it holds their surroundings, and not the whole graph.

    `names` [n], ascending: the whole graph's ids of the nodes that it holds; `owned` bool [n]: which are its.
    """

    def __init__(self, names: np.ndarray, owned: np.ndarray, offsets: np.ndarray) -> None:
        self.names, self.offsets, self._owned = names, offsets, owned

    def of(self, batch: np.ndarray) -> Targets:
        """Those it owns, in the batch's order."""
        assert self.names is not None
        place = np.minimum(np.searchsorted(self.names, batch), len(self.names) - 1)
        held = place[self.names[place] == batch]
        return Targets(held[self._owned[held]], held, len(batch))


EVERYTHING = Everything()
