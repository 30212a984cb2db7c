"""How the columns of a node table became features: kept with the graph, so that new nodes get the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError

KINDS = ("number", "time", "category", "list")


@dataclass(frozen=True)
class Column:
    """One column of a node table, and what it takes to make features of it.

    number, time   (value - mean) / scale; times are seconds since 1970
    category       a feature for each of `values`, and with `other` one for all values beside them
    list           `width` features, taken as they are
    With `missing` one more feature says where there was a gap; the others are 0 there.
    """

    name: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    values: tuple[str, ...] = ()
    other: bool = False
    width: int = 1
    missing: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features, in order."""
        if self.kind == "category":
            own = [f"{self.name}={value}" for value in self.values] + [f"{self.name}=(other)"] * self.other
        elif self.kind == "list":
            own = [f"{self.name}[{at}]" for at in range(self.width)]
        else:
            own = [self.name]
        return (*own, *([f"{self.name} is missing"] * self.missing))

    def encode(
        self, values: npt.NDArray[Any], gaps: npt.NDArray[np.bool_], out: npt.NDArray[np.float32]
    ) -> None:
        """Write the features of some nodes into out [n, len(features)].

        `values` are numbers [n], list rows [n, width], or for categories places in `values` (others:
        anything beyond). Where there is a gap they may be anything.
        """
        out[:] = 0
        here = np.flatnonzero(~gaps)
        if self.kind == "category":
            codes = np.minimum(values[here].astype(np.int64), len(self.values))
            held = codes < len(self.values) + self.other
            out[here[held], codes[held]] = 1
        elif self.kind == "list":
            out[here, : self.width] = values[here]
        else:
            out[here, 0] = (values[here] - self.mean) / self.scale
        if self.missing:
            out[gaps, -1] = 1


@dataclass(frozen=True)
class Encoding:
    """All columns of a node table that became features, in order; and what else is to be done alike.

    made      settings of features made from the structure alone (`structural.py`), which come last
    ignored   columns that were left out, and why
    classes   names of the label's classes, in order
    """

    columns: tuple[Column, ...] = ()
    made: Mapping[str, Any] | None = None
    ignored: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features made from columns."""
        return tuple(name for column in self.columns for name in column.features)

    def gaps(self) -> npt.NDArray[np.float32]:
        """The features [len(features)] of a node of which no column is known."""
        made, at = np.zeros(len(self.features), dtype=np.float32), 0
        for column in self.columns:
            at += len(column.features)
            if column.missing:
                made[at - 1] = 1
        return made

    def same_features(self, other: Encoding) -> bool:
        """Whether both treat features alike."""
        return self.columns == other.columns and self.made == other.made

    def difference(self, given: Encoding) -> str | None:
        """What keeps a graph with the encoding `given` from being treated like this one, as words after
        'got'; None where nothing does."""
        own = {column.name: column for column in self.columns}
        theirs = {column.name: column for column in given.columns}
        if missing := [name for name in own if name not in theirs and name not in given.ignored]:
            return f"none called {missing[0]!r}"
        if extra := [name for name in theirs if name not in own and name not in self.ignored]:
            return f"one more called {extra[0]!r}"
        if (self.made or {}).get("from") != (given.made or {}).get("from"):
            return f"features from {(given.made or {}).get('from', 'columns')}"
        return None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "columns": [{**asdict(column), "values": list(column.values)} for column in self.columns],
            "made": None if self.made is None else dict(self.made),
            "ignored": dict(self.ignored),
            "classes": list(self.classes),
        }

    @classmethod
    def from_json(cls, given: Any) -> Encoding:
        """From a JSON object; FormatError for anything else."""
        try:
            columns = tuple(
                Column(**{**entry, "values": tuple(map(str, entry.get("values", ())))})
                for entry in given["columns"]
            )
            wrong = [c for c in columns if c.kind not in KINDS or c.width < 1 or not c.scale > 0]
            if wrong or not all(isinstance(c.name, str) for c in columns):
                raise ValueError("a column that is none")
            return cls(columns, given["made"], dict(given["ignored"]), tuple(map(str, given["classes"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(
                f"an encoding must list columns as docs/tables.md describes them, got {str(error)!r}; "
                "import the graph again"
            ) from None
