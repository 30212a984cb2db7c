"""What one seed of a cell is fitted on and probed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.experiments.cells import Cell, DataSet
from lrgi.graph.assign import split_by_graph
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.prepare import prepared
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.graph.store import open_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.npz import read_npz
from lrgi.probe.batched import Task
from lrgi.probe.data import random_split


def find_graph(data: DataSet, folder: Path) -> Path | None:
    """The graph directory or .npz file of a data set below a folder; None where there is none.

    A generated graph needs no file, and any folder is its place.
    """
    if data.generated is not None:
        return folder
    for path in (folder / data.name, folder / f"{data.name}.npz"):
        if path.exists():
            return path
    return None


def load_prepared(data: DataSet, path: Path) -> Graph:
    """The graph with its features prepared."""
    if data.generated is not None:
        return prepared(planted_communities(**data.generated), data.features)
    return prepared(read_npz(path) if path.is_file() else open_graph(path), data.features)


@dataclass(frozen=True, eq=False)
class Trial:
    """A fit is given `seen`; training rows are embedded in it, all others in `whole`.

    Transductively the two are one graph. Rows of a task's training part are rows of `seen`.
    """

    whole: Graph
    seen: Graph
    tasks: tuple[Task, ...]

    @property
    def transductive(self) -> bool:
        """Whether all rows are embedded in one graph."""
        return self.seen is self.whole

    @property
    def labels(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Of the rows of both graphs."""
        assert self.seen.labels is not None and self.whole.labels is not None
        return self.seen.labels, self.whole.labels


def trial(cell: Cell, graph: Graph, seed: int) -> Trial:
    """What the seed of a cell works on.

    Random splits are numbered by index. Transductively one fit, which sees no labels, is probed on all of
    them; a supervised or inductive fit depends on its split, and gets the one whose index is the seed.
    """
    data = cell.data
    if graph.labels is None:
        raise InputError(f"the graph of a cell must have labels, got {graph.name} without; import it with y")
    one = cell.method == "supervised" or data.protocol == "inductive"
    splits = _splits(data, graph, [seed] if one else range(data.splits))
    whole = replace(graph, split=splits[0])
    if data.protocol == "transductive":
        return Trial(whole, whole, tuple(_task(graph, split, seed) for split in splits))
    seen, ids = training_subgraph(whole, data.fit_on)
    task = _task(graph, splits[0], seed)
    place = np.searchsorted(ids, task.train)
    return Trial(whole, seen, (replace(task, train=place),))


def _splits(data: DataSet, graph: Graph, indices: Any) -> list[npt.NDArray[np.uint8]]:
    if data.split == "by-graph":
        return [split_by_graph(graph.offsets, 0)]
    if data.split == "own":
        if graph.split is None:
            raise InputError(f"the graph {graph.name} must have a split, got none; import it with its masks")
        return [graph.split]
    train, validation = data.shares
    labels: Any = graph.labels
    return [random_split(labels, index, train=train, validation=validation) for index in indices]


def _task(graph: Graph, split: npt.NDArray[np.uint8], seed: int) -> Task:
    labels: Any = graph.labels
    known = labels >= 0 if labels.ndim == 1 else np.ones(len(labels), dtype=bool)
    train, validation, test = (np.flatnonzero(known & (split == part)) for part in (TRAIN, VALIDATION, TEST))
    return Task(train, validation, test, seed)
