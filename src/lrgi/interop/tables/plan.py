"""What is to be made of tables of edges and nodes: every choice that decides the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lrgi.errors import InputError

KNOWN = {
    "src": ("src", "source", "from", "sender", "u", "head", "src_id", "source_id", "from_id", "node1",
            "start"),
    "dst": ("dst", "destination", "target", "to", "receiver", "v", "tail", "dst_id", "target_id", "to_id",
            "node2", "end"),
    "id": ("id", "node", "node_id", "nodeid", "name", "key"),
    "label": ("label", "class", "y", "target", "labels"),
    "split": ("split", "fold", "subset", "partition"),
}  # fmt: skip


_HEADERS = ("auto", "yes", "no")


def _setting(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, **({"choices": choices} if choices else {})})


@dataclass(frozen=True)
class TablePlan:
    """Columns, and the treatment of what tables hold. Names that are empty are guessed."""

    src: str = _setting("", "column of the edges with the id of the sender; empty: src, source, from ...")
    dst: str = _setting("", "column of the edges with the id of the receiver; empty: dst, target, to ...")
    id: str = _setting("", "column of the nodes with their id; empty: id, node, name ..., else the first one")
    label: str = _setting("", "column of the nodes with their class; empty: label, class, y; - for none")
    split_column: str = _setting(
        "", "column of the nodes that says train, validation or test; empty: split, fold; - for none"
    )
    ignore: str = _setting("", "columns of the nodes that make no features, with commas between")
    category: str = _setting("", "columns of numbers that are names of categories, with commas between")
    categories: int = _setting(32, "at most so many values of a category get a feature; the rest share one")
    unknown: str = _setting(
        "add", "nodes that only the edges name: add them, with gaps for attributes; or drop their edges",
        ("add", "drop"),
    )  # fmt: skip
    directed: bool = _setting(False, "keep edges as they are: only the receiver reads the sender")
    delimiter: str = _setting("", "between the cells of a CSV; empty: , ; | tab or space, as it looks")
    encoding: str = _setting("", "of a CSV: utf-8, utf-16 or latin-1; empty: utf-8, or utf-16 if marked so")
    edges_header: str = _setting("auto", "whether the first row of CSV edges names columns", _HEADERS)
    nodes_header: str = _setting("auto", "whether the first row of CSV nodes names columns", _HEADERS)

    def __post_init__(self) -> None:
        choices = {"unknown": ("add", "drop"), "edges_header": _HEADERS, "nodes_header": _HEADERS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}; choose one"
                )
        if self.categories < 1:
            raise InputError(f"categories must be at least 1, got {self.categories}; raise it")
        if len(self.delimiter) > 1 and self.delimiter != "\\t":
            raise InputError(f"delimiter must be one character, got {self.delimiter!r}; write \\t for a tab")

    def listed(self, name: str) -> list[str]:
        """A setting that names several columns, as a list."""
        return [part.strip() for part in getattr(self, name).split(",") if part.strip()]


def chosen_column(
    plan: TablePlan, role: str, columns: Sequence[str], what: str, *, flag: str = ""
) -> str | None:
    """The column for a role: the one named, else the first whose name is known for it, else None.

    InputError where the one named is not there.
    """
    flag = flag or role
    given = str(getattr(plan, flag))
    if given == "-":
        return None
    lower: Mapping[str, str] = {name.lower(): name for name in reversed(columns)}
    if given:
        found = given if given in columns else lower.get(given.lower())
        if found is None:
            raise InputError(
                f"--{flag.replace('_', '-')} must name a column of the {what}, got {given!r}; "
                f"choose one of {', '.join(columns)}"
            )
        return found
    return next((lower[name] for name in KNOWN[role] if name in lower), None)
