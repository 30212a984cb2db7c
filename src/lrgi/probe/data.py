"""What a probe is given: rows of tables with their labels, in three parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION
from lrgi.seed import stream

Protocol = Literal["inductive", "transductive"]
Labels = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a table and the labels of just those rows; rows with label -1 are left out.

    table   a Table, of which only `rows` are read
    rows    int64[n]
    labels  int64[n] (one class) or uint8[n, C] (many labels): labels[i] belongs to rows[i]
    """

    table: Table
    rows: npt.NDArray[np.int64]
    labels: Labels

    def __post_init__(self) -> None:
        rows, labels = np.asarray(self.rows, dtype=np.int64), np.asarray(self.labels)
        if rows.ndim != 1 or labels.ndim not in (1, 2) or len(labels) != len(rows):
            raise InputError(
                f"labels must have one entry or row per row ({len(rows)}), got shape {labels.shape}; "
                "hand over the labels of just these rows"
            )
        if len(rows) and (rows.min() < 0 or rows.max() >= self.table.shape[0]):
            raise InputError(
                f"rows must lie in 0 to {self.table.shape[0] - 1}, got {rows.min()} to {rows.max()}; "
                "use the row ids of this table"
            )
        if labels.ndim == 1:
            known = labels >= 0
            rows, labels = rows[known], labels[known]
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "labels", labels)


@dataclass(frozen=True, eq=False)
class ProbeData:
    """The three parts of a probe. Raises InputError for an empty part or labels that teach nothing."""

    train: Part
    validation: Part
    test: Part
    protocol: Protocol

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test"):
            if len(getattr(self, name).rows) == 0:
                raise InputError(
                    f"the {name} part must have at least one labelled row, got none; "
                    "give a split with labelled rows in every part, or use a random split"
                )
        kinds = {(part.table.shape[1], part.labels.shape[1:]) for part in self.parts}
        if len(kinds) > 1:
            raise InputError(
                f"the parts must agree in columns and labels, got {sorted(kinds)}; "
                "embed every part with the same encoder"
            )
        labels = self.train.labels
        if labels.size == 0 or (labels == labels.reshape(-1)[0]).all():
            value = labels.reshape(-1)[0] if labels.size else "no label columns"
            raise InputError(
                f"training labels must hold at least two classes, got only {value}; "
                "label more rows or choose another split"
            )

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """Train, validation, test."""
        return self.train, self.validation, self.test

    @property
    def many_labels(self) -> bool:
        """Whether a row may have several labels."""
        return self.train.labels.ndim == 2

    @property
    def num_classes(self) -> int:
        """C, over all three parts."""
        if self.many_labels:
            return int(self.train.labels.shape[1])
        return 1 + max(int(part.labels.max()) for part in self.parts)

    @classmethod
    def transductive(cls, table: Table, labels: Labels | None, split: npt.ArrayLike | None) -> ProbeData:
        """Every part from one table of the whole graph."""
        truth, kind = _settled(table, labels, split)
        train = _part(table, truth, np.flatnonzero(kind == TRAIN))
        return cls(train, *_others(table, truth, kind), "transductive")

    @classmethod
    def inductive(
        cls,
        train_table: Table,
        train_ids: npt.NDArray[np.int64],
        table: Table,
        labels: Labels | None,
        split: npt.ArrayLike | None,
    ) -> ProbeData:
        """Training rows from the table of the training subgraph; the others from the whole graph's.

        train_ids[i] is the node of the whole graph that row i of train_table embeds. Nodes among
        them that are not in the training split (PPI fits on validation graphs too) are not used.
        """
        truth, kind = _settled(table, labels, split)
        if len(train_ids) != train_table.shape[0]:
            raise InputError(
                f"train_ids must have one id per row of train_table ({train_table.shape[0]}), "
                f"got {len(train_ids)}; pass the ids that training_subgraph returned"
            )
        rows = np.flatnonzero(kind[train_ids] == TRAIN)
        train = Part(train_table, rows, truth[train_ids[rows]])
        return cls(train, *_others(table, truth, kind), "inductive")


def random_split(
    labels: int | Labels, seed: int, *, train: float = 0.1, validation: float = 0.1
) -> npt.NDArray[np.uint8]:
    """A random split uint8[N] for graphs that have none: shares of the nodes, the rest is for the test.

    `labels` is the labels, whose unknown rows (-1) get no part, or just the number of nodes.
    """
    if not (train > 0 and validation > 0 and train + validation < 1):
        raise InputError(
            f"train and validation must be above 0 and below 1 together, got {train} and {validation}; "
            "leave a share for the test"
        )
    truth = np.zeros(labels, dtype=np.int64) if isinstance(labels, int) else np.asarray(labels)
    known = np.flatnonzero(truth >= 0) if truth.ndim == 1 else np.arange(len(truth))
    order = known[stream(seed, "probe", "split").permutation(len(known))]
    first = round(train * len(known))
    second = first + round(validation * len(known))
    split = np.full(len(truth), NO_SPLIT, dtype=np.uint8)
    for kind, ids in ((TRAIN, order[:first]), (VALIDATION, order[first:second]), (TEST, order[second:])):
        split[ids] = kind
    return split


def _settled(
    table: Table, labels: Labels | None, split: npt.ArrayLike | None
) -> tuple[Labels, npt.NDArray[Any]]:
    for what, value in (("labels", labels), ("a split", split)):
        if value is None:
            raise InputError(f"the graph must have {what} to be probed, got none; add them to the graph")
        if len(np.asarray(value)) != table.shape[0]:
            raise InputError(
                f"{what} must have one entry per row of the table ({table.shape[0]}), "
                f"got {len(np.asarray(value))}; embed the graph they belong to"
            )
    return np.asarray(labels), np.asarray(split)


def _part(table: Table, labels: Labels, rows: npt.NDArray[np.int64]) -> Part:
    return Part(table, rows, labels[rows])


def _others(table: Table, labels: Labels, kind: npt.NDArray[Any]) -> tuple[Part, Part]:
    validation, test = (_part(table, labels, np.flatnonzero(kind == k)) for k in (VALIDATION, TEST))
    return validation, test
