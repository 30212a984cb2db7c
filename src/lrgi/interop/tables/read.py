"""`lrgi import --edges --nodes`: tables to a graph directory, by way of the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.arrays import ArrayEntry, FileEntry, create_array, describe_array, open_array, write_array
from lrgi.graph.encoding import Column, Encoding
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.split import TRAIN
from lrgi.graph.store import new_graph_directory, write_manifest
from lrgi.interop.tables.edges import (
    EdgeCounts,
    NodeCounts,
    number_nodes,
    pair_nodes,
    write_ids,
    write_neighbours,
)
from lrgi.interop.tables.engine import Engine, engine
from lrgi.interop.tables.fields import Field, find_again, judge, measure, role_field
from lrgi.interop.tables.nodes import Rows, kept_rows, labels_of, split_of, write_nodes
from lrgi.interop.tables.opened import Tables, check_met, open_tables
from lrgi.interop.tables.plan import TablePlan
from lrgi.probe.data import random_split
from lrgi.structural import plan_features, structural_features

_ROWS = 1 << 16
_PLAN = TablePlan()


@dataclass(frozen=True)
class Imported:
    """What an import found and did."""

    edges: EdgeCounts
    nodes: NodeCounts
    columns: dict[str, str]  # role -> column
    guessed: tuple[str, ...]  # the roles whose column was not named by the caller
    encoding: Encoding
    hints: dict[str, str]  # column -> what may be wrong with how it is written

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "edges": asdict(self.edges),
            "nodes": asdict(self.nodes),
            "columns": dict(self.columns),
            "guessed": list(self.guessed),
            "hints": dict(self.hints),
        }


@dataclass(frozen=True)
class Wishes:
    """What an import does beside reading: a split to draw, features to make, bounds of the machine."""

    split: str = "auto"  # auto: the column, if there is one; random; none
    split_seed: int = 0
    features_from: str = ""  # one of structural.SOURCES
    memory: str = "2GB"  # of DuckDB
    threads: int = 2


def import_tables(
    edges: str,
    out: str | Path,
    *,
    nodes: str | None = None,
    plan: TablePlan = _PLAN,
    wishes: Wishes | None = None,
    like: Encoding | None = None,
    name: str = "",
    overwrite: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Imported:
    """Tables of edges and perhaps nodes to a graph directory; docs/tables.md says what becomes of what.

    `like` is the encoding of another graph, whose columns this one must have and whose treatment it gets.
    Raises InputError or FormatError, with nothing written.
    """
    final, wishes = Path(out), wishes or Wishes()
    with (
        new_graph_directory(final, overwrite=overwrite) as fresh,
        engine(final, wishes.memory, wishes.threads) as db,
    ):
        tables = open_tables(db, edges, nodes, plan, tell)
        counts = number_nodes(
            db, has_nodes=nodes is not None, add_unknown=tables.add_unknown, whole=tables.whole
        )
        check_met(db, tables, counts)
        tell(f"{counts.total:,} nodes; joining and sorting the edges")
        pair_nodes(db, all_known=tables.add_unknown)
        db.keep_order(False)
        entries, found = write_neighbours(db, counts.total, fresh, directed=plan.directed)
        db.run("DROP TABLE pairs")
        entries["ids"] = write_ids(db, counts.total, fresh, whole=tables.whole)
        db.keep_order(True)
        rows = Rows(np.zeros(0, dtype=bool), counts.total)
        if nodes is not None:
            rows = kept_rows(db, counts.read, counts.total)
        tell("encoding the columns of the nodes")
        made = _Nodes(db, tables, rows, plan, wishes).write(entries, like, fresh)
        write_manifest(
            fresh, name or final.name, entries,
            encoding=made.encoding, directed=plan.directed, attributes=made.attributes,
        )  # fmt: skip
    return Imported(found, counts, tables.columns, tables.guessed, made.encoding, made.hints)


@dataclass(frozen=True)
class _Made:
    encoding: Encoding
    attributes: FileEntry | None
    hints: dict[str, str]


@dataclass(frozen=True)
class _Nodes:
    """What is written of the nodes once they are numbered."""

    db: Engine
    tables: Tables
    rows: Rows
    plan: TablePlan
    wishes: Wishes

    def write(self, entries: dict[str, ArrayEntry], like: Encoding | None, directory: Path) -> _Made:
        """Labels, split, features and attributes; adds to `entries`."""
        encoding, attributes, labels, split = Encoding(), None, None, None
        fields: list[Field] = []
        source = self.tables.nodes
        roles = {role: role_field(source, name) for role, name in self._roles().items()} if source else {}
        if "label" in roles:
            labels, classes = labels_of(
                self.db,
                roles["label"],
                self.rows,
                like.classes if like is not None and like.classes else None,
            )
            encoding = Encoding(classes=classes)
            entries["labels"] = write_array(directory / "labels.npy", labels)
        split = self._split(roles.get("split"), labels)
        if split is not None:
            entries["split"] = write_array(directory / "split.npy", split)
        if source is not None:
            fields, encoding = self._encode(source, split, encoding.classes, like)
            features, attributes = write_nodes(
                self.db, fields, list(roles.values()), encoding, self.rows, directory
            )
            if features is not None:
                entries["features"] = features
        hints = {field.name: field.hint for field in fields if field.hint}
        return _Made(self._add_made(entries, encoding, like, split, directory), attributes, hints)

    def _roles(self) -> dict[str, str]:
        return {role: name for role, name in self.tables.columns.items() if role in ("label", "split")}

    def _split(self, field: Field | None, labels: npt.NDArray[Any] | None) -> npt.NDArray[np.uint8] | None:
        if self.wishes.split == "random":
            drawn: npt.NDArray[np.uint8] = random_split(
                self.rows.total if labels is None else labels, self.wishes.split_seed
            )
            return drawn
        return None if field is None or self.wishes.split == "none" else split_of(self.db, field, self.rows)

    def _encode(
        self,
        source: Any,
        split: npt.NDArray[np.uint8] | None,
        classes: tuple[str, ...],
        like: Encoding | None,
    ) -> tuple[list[Field], Encoding]:
        used = set(self.tables.columns.values())
        if like is not None:
            known = Encoding(
                like.columns, like.made, {**like.ignored, **dict.fromkeys(self.plan.listed("ignore"), "")}
            )
            return find_again(self.db, source, known, used), Encoding(
                like.columns, None, like.ignored, like.classes
            )
        fields = judge(self.db, source, self.plan, used)
        training = self._training_rows(split)
        self.db.run("CREATE TABLE training_rows (row BIGINT)")
        self.db.insert("training_rows", np.flatnonzero(training))
        columns: list[Column] = []
        ignored: dict[str, str] = {}
        for field in fields:
            made = field.why if field.kind == "left" else measure(self.db, field, training, self.plan)
            if isinstance(made, str):
                ignored[field.name] = made
            else:
                columns.append(made)
        return fields, Encoding(tuple(columns), None, ignored, classes)

    def _training_rows(self, split: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.bool_]:
        """The rows whose statistics may be used: training nodes, or all where there is no split."""
        if split is None or not (split == TRAIN).any():
            return self.rows.kept
        training = self.rows.kept.copy()
        training[training] = split[: int(training.sum())] == TRAIN
        return training

    def _add_made(
        self,
        entries: dict[str, ArrayEntry],
        encoding: Encoding,
        like: Encoding | None,
        split: npt.NDArray[np.uint8] | None,
        directory: Path,
    ) -> Encoding:
        """Features made of the structure, beside those of the columns or alone."""
        wanted = self.wishes.features_from if like is None else (like.made or {}).get("from", "")
        if not wanted:
            if "features" not in entries:
                raise InputError(
                    "a graph must have features, got none from these tables; give --nodes with columns of "
                    "numbers or categories, or make some with --features-from degree"
                )
            return encoding
        bare = Graph.trusted(
            open_array(directory, entries["indptr"]),
            open_array(directory, entries["indices"]),
            DenseTable(np.empty((self.rows.total, 0), dtype=np.float32)),
        )
        training = None if split is None or not (split == TRAIN).any() else split == TRAIN
        made = like.made if like is not None else plan_features(bare, wanted, training)
        assert made is not None
        entries["features"] = _beside(entries.get("features"), structural_features(bare, made), directory)
        return Encoding(encoding.columns, made, encoding.ignored, encoding.classes)


def _beside(entry: ArrayEntry | None, made: npt.NDArray[np.float32], directory: Path) -> ArrayEntry:
    """features.npy with more columns."""
    if entry is None:
        return write_array(directory / "features.npy", made)
    old, path = open_array(directory, entry), directory / "joined.npy"
    joined = create_array(path, (len(made), old.shape[1] + made.shape[1]), np.float32)
    for start in range(0, len(made), _ROWS):
        joined[start : start + _ROWS, : old.shape[1]] = old[start : start + _ROWS]
        joined[start : start + _ROWS, old.shape[1] :] = made[start : start + _ROWS]
    joined.flush()  # type: ignore[attr-defined]
    del joined, old
    path.replace(directory / entry.file)
    return describe_array(directory / entry.file)
