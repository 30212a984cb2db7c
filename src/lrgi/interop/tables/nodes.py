"""Rows of the node table, in the order of the nodes: features, and the user's own columns as Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import ArrayEntry, ArrayWriter, FileEntry
from lrgi.graph.encoding import Column, Encoding
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION
from lrgi.interop.tables.engine import ROWS, Engine
from lrgi.interop.tables.fields import Field

ATTRIBUTES = "nodes.parquet"

_SPLITS = {
    "train": TRAIN, "training": TRAIN,
    "val": VALIDATION, "valid": VALIDATION, "validation": VALIDATION, "dev": VALIDATION,
    "test": TEST, "testing": TEST,
    "none": NO_SPLIT, "unlabeled": NO_SPLIT, "unlabelled": NO_SPLIT,
}  # fmt: skip
_MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Rows:
    """Which rows of the table are nodes: kept bool[rows read], and how many nodes the table lacks."""

    kept: npt.NDArray[np.bool_]
    added: int

    @property
    def total(self) -> int:
        """Nodes."""
        return int(np.count_nonzero(self.kept)) + self.added

    def spread(self, of_rows: npt.NDArray[Any], gap: Any) -> npt.NDArray[Any]:
        """Values of rows as values of nodes."""
        return np.concatenate(
            [of_rows[self.kept], np.full((self.added, *of_rows.shape[1:]), gap, of_rows.dtype)]
        )


def kept_rows(db: Engine, read: int, total: int) -> Rows:
    """From the tables ids and node_rows."""
    kept = np.zeros(read, dtype=bool)
    kept[db.array("SELECT row FROM ids WHERE row IS NOT NULL")] = True
    return Rows(kept, total - int(np.count_nonzero(kept)))


def labels_of(
    db: Engine, field: Field, rows: Rows, classes: tuple[str, ...] | None
) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Classes of the nodes, int64[N] with -1 where there is a gap, and their names in order.

    A list of 0 and 1 per row gives uint8[N, C]. With `classes`, values that are none of them are gaps.
    """
    if field.family == "list":
        return _many_labels(db, field, rows), classes or ()
    if classes is None:
        found = [
            v
            for (v,) in db.rows(
                f"SELECT DISTINCT {field.value} AS v FROM node_rows LIMIT {_MOST_CLASSES + 2}"
            )
        ]
        classes = _in_order([value for value in found if value is not None])
        if len(classes) > _MOST_CLASSES:
            raise InputError(
                f"labels must be classes, got more than {_MOST_CLASSES:,} different ones in column "
                f"{field.name!r}; name another column with --label, or none with --label -"
            )
    place = {name: at for at, name in enumerate(classes)}
    labels = np.full(len(rows.kept), -1, dtype=np.int64)
    for start, batch in _in_turn(db, [field.value]):
        values = batch.column(1).to_pylist()
        labels[start : start + len(values)] = [place.get(value, -1) for value in values]
    return rows.spread(labels, -1), classes


def split_of(db: Engine, field: Field, rows: Rows) -> npt.NDArray[np.uint8]:
    """The split that a column names, uint8[N]."""
    split = np.zeros(len(rows.kept), dtype=np.uint8)
    for start, batch in _in_turn(db, [f"lower({field.value})"]):
        values = batch.column(1).to_pylist()
        unknown = next((value for value in values if value is not None and value not in _SPLITS), None)
        if unknown is not None:
            raise InputError(
                f"a split must be train, validation or test, got {unknown!r} in column {field.name!r}; "
                "correct it, or name another column with --split-column, none with --split-column -"
            )
        split[start : start + len(values)] = [_SPLITS.get(value, NO_SPLIT) for value in values]
    return rows.spread(split, NO_SPLIT)


def write_nodes(
    db: Engine,
    fields: Sequence[Field],
    roles: Sequence[Field],
    encoding: Encoding,
    rows: Rows,
    directory: Path,
) -> tuple[ArrayEntry | None, FileEntry]:
    """features.npy (where there are any) and nodes.parquet, a batch of rows at a time."""
    columns = {column.name: column for column in encoding.columns}
    encoded = [(field, columns[field.name]) for field in fields if field.name in columns]
    shown = [field for field in (*roles, *fields) if field.kept]
    width = len(encoding.features)
    table = _Attributes(directory / ATTRIBUTES, shown)
    features = ArrayWriter(directory / "features.npy", np.float32, (width,)) if width else None
    try:
        values = [field.value for field, _ in encoded] + [field.value for field in shown]
        for start, batch in _in_turn(db, ["id", *values]):
            keep = rows.kept[start : start + batch.num_rows]
            if features is not None:
                made = _encoded(encoded, batch.columns[2 : 2 + len(encoded)], batch.num_rows)
                features.append(made[keep])
            table.append(batch.columns[1], batch.columns[2 + len(encoded) :], keep)
        for batch in db.batches("SELECT id FROM ids WHERE row IS NULL ORDER BY n"):
            if features is not None:
                features.append(np.tile(encoding.gaps(), (batch.num_rows, 1)))
            table.append(batch.column(0), [None] * len(shown), np.ones(batch.num_rows, dtype=bool))
        return (features.close() if features is not None else None), table.close()
    finally:
        table.discard()
        if features is not None:
            features.discard()


def encoded_batches(
    db: Engine, encoded: Sequence[tuple[Field, Column]]
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """(first row, features) of a batch of rows after the other, in order, of those columns alone."""
    for start, batch in _in_turn(db, [field.value for field, _ in encoded]):
        yield start, _encoded(encoded, batch.columns[1:], batch.num_rows)


def attributes_in_memory(db: Engine, fields: Sequence[Field], rows: Rows) -> Any:
    """An Arrow table of the user's own columns of the rows that are kept, as nodes.parquet has them."""
    import pyarrow as pa

    names, parts = [field.name for field in fields if field.kept], []
    shown = [field for field in fields if field.kept]
    for start, batch in _in_turn(db, [field.value for field in shown] or ["NULL"]):
        arrays = [as_attribute(f, c, batch.num_rows) for f, c in zip(shown, batch.columns[1:], strict=False)]
        keep = pa.array(rows.kept[start : start + batch.num_rows])
        parts.append(pa.table(arrays, names=names).filter(keep) if names else pa.table({}))
    return pa.concat_tables(parts) if parts else pa.table({})


class _Attributes:
    """nodes.parquet while it is written: the id, then the user's own columns."""

    def __init__(self, path: Path, fields: Sequence[Field]) -> None:
        self._path, self._fields = path, fields
        self._writer: Any = None

    def append(self, ids: Any, columns: Sequence[Any], keep: npt.NDArray[np.bool_]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = [ids]
        for field, column in zip(self._fields, columns, strict=True):
            arrays.append(as_attribute(field, column, len(ids)))
        names = ["id", *(field.name for field in self._fields)]
        table = pa.table(arrays, names=_distinct(names)).filter(pa.array(keep))
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._writer.write_table(table)

    def close(self) -> FileEntry:
        self.discard()
        return FileEntry.of(self._path)

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.close()


def as_attribute(field: Field, column: Any, count: int) -> Any:
    """A field's values as they stand in nodes.parquet, an Arrow array; None: gaps alone."""
    import pyarrow as pa

    kind = {"number": pa.float64(), "time": pa.timestamp("us")}.get(field.kind)
    kind = kind or (pa.string() if field.kind == "category" or field.family == "text" else pa.float64())
    if column is None:
        return pa.nulls(count, kind)
    if field.kind == "time":
        return pa.compute.round(pa.compute.multiply(column, 1e6)).cast(pa.int64()).cast(kind)
    return column.cast(kind)


def _distinct(names: list[str]) -> list[str]:
    """A column of the user's that is called id as well gives way."""
    return [names[0], *(f"{name} (column)" if name == names[0] else name for name in names[1:])]


def _in_turn(db: Engine, values: Sequence[str]) -> Iterator[tuple[int, Any]]:
    """Batches of (row, values...) of node_rows and the number of their first row, in order."""
    start = 0
    for batch in db.batches(f"SELECT row, {', '.join(values)} FROM node_rows", ROWS):
        row = batch.column(0).to_numpy()
        if len(row) and (row[0] != start or row[-1] != start + len(row) - 1):
            raise RuntimeError(f"rows of the node table must come in order, got {row[0]} after {start}")
        yield start, batch
        start += len(row)


def _encoded(
    encoded: Sequence[tuple[Field, Column]], arrays: Sequence[Any], count: int
) -> npt.NDArray[np.float32]:
    out, at = np.empty((count, sum(len(c.features) for _, c in encoded)), dtype=np.float32), 0
    for (field, column), array in zip(encoded, arrays, strict=True):
        gaps = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
        part = out[:, at : at + len(column.features)]
        column.encode(_values(column, array), gaps, part)
        if column.kind == "list" and not np.isfinite(part).all():
            raise FormatError(
                f"lists in column {field.name!r} must hold finite numbers, got another value; correct it, "
                "or leave the column out with --ignore"
            )
        at += len(column.features)
    return out


def _values(column: Column, array: Any) -> npt.NDArray[Any]:
    """What `Column.encode` takes, from an Arrow array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.kind == "category":
        codes = pc.index_in(array, value_set=pa.array(column.values, pa.string()))
        return np.asarray(codes.fill_null(len(column.values)).to_numpy(zero_copy_only=False))
    if column.kind != "list":
        return np.asarray(array.to_numpy(zero_copy_only=False))
    lengths = pc.unique(pc.list_value_length(array).drop_null()).to_pylist()
    if lengths not in ([], [column.width]):
        raise FormatError(
            f"lists in column {column.name!r} must have {column.width:,} numbers, got {lengths[0]:,}; "
            "correct them"
        )
    values = np.zeros((len(array), column.width), dtype=np.float32)
    given = array.is_valid().to_numpy(zero_copy_only=False)
    flat = array.drop_null().flatten().to_numpy(zero_copy_only=False)
    values[given] = flat.reshape(-1, column.width)
    return values


def _many_labels(db: Engine, field: Field, rows: Rows) -> npt.NDArray[np.uint8]:
    parts = []
    for _, batch in _in_turn(db, [f"{field.at}::FLOAT[]"]):
        lists = batch.column(1).to_pylist()
        parts += lists
    width = max((len(row) for row in parts if row), default=0)
    if any(row is not None and (len(row) != width or not set(row) <= {0.0, 1.0}) for row in parts):
        raise FormatError(
            f"lists of labels in column {field.name!r} must hold 0 or 1 for each of the same classes, got "
            "others; correct them, or name another column with --label"
        )
    labels = np.array([[0] * width if row is None else row for row in parts], dtype=np.uint8)
    return rows.spread(labels.reshape(len(parts), width), 0)


def _in_order(values: list[str]) -> tuple[str, ...]:
    """Class names: by number where all are whole numbers (-1 is then unknown), else by code points."""
    try:
        return tuple(sorted((v for v in values if int(v) != -1), key=int))
    except ValueError:
        return tuple(sorted(values))
