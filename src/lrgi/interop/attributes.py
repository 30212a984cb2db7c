"""What is known of some nodes: the user's own columns beside a graph, or its classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.arrays import FileEntry
from lrgi.graph.ids import is_whole
from lrgi.graph.store import ATTRIBUTES, attributes_of, check_bytes, open_graph

_BATCH = 1 << 16


def attributes_at(
    graph: Path, places: npt.NDArray[np.int64] | None, ids: Sequence[Any]
) -> list[dict[str, Any]]:
    """For every node its columns by name, JSON values, None for gaps; of a graph directory.

    Nodes are named by their places in the graph, or where those are not known by their ids.
    """
    path = attributes_of(graph)
    check_bytes(graph, ATTRIBUTES if path is not None else ("labels",))
    if path is not None:
        return _from_parquet(path, places, [str(name) for name in ids])
    opened = open_graph(graph)
    labels = opened.labels
    if labels is None or labels.ndim != 1 or places is None:
        return [{} for _ in ids]
    return [{"label": None if value < 0 else value} for value in labels[places].tolist()]


def write_changed_attributes(
    path: Path, out: Path, ids: Sequence[str], rows: Any, places: npt.NDArray[np.int64]
) -> FileEntry:
    """A nodes.parquet with some rows changed and some behind the others, written to `out`.

    `ids` are those of the nodes behind, whose columns are gaps unless they have a row; `rows` is an Arrow
    table or None, `places` says which node each row is of. A column that it does not have stays as it was.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table({}) if rows is None else rows
    old, begun = pq.ParquetFile(path), 0
    order = np.argsort(places, kind="stable")
    places, rows = places[order], rows.take(pa.array(order)) if rows.num_columns else rows
    schema = _with_ids(old.schema_arrow, ids)
    count = old.metadata.num_rows
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in old.iter_batches(_BATCH):
            table = pa.Table.from_batches([batch]).cast(schema)
            writer.write_table(_replaced(table, rows, places, begun))
            begun += batch.num_rows
        if ids:
            names = {"id": pa.array(ids, pa.string()).cast(schema.field("id").type)}
            gaps = [names.get(f.name, pa.nulls(len(ids), f.type)) for f in schema]
            writer.write_table(_replaced(pa.table(gaps, schema=schema), rows, places, count))
    return FileEntry.of(out)


def _with_ids(schema: Any, ids: Sequence[str]) -> Any:
    """The schema, with ids as text where one of the new ones is no whole number."""
    import pyarrow as pa

    at = schema.get_field_index("id")
    if pa.types.is_integer(schema.field(at).type) and not all(map(is_whole, ids)):
        return schema.set(at, pa.field("id", pa.string()))
    return schema


def _replaced(table: Any, rows: Any, places: npt.NDArray[np.int64], begin: int) -> Any:
    """The table, whose first row is node `begin`, with the rows that lie in it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    first, last = np.searchsorted(places, [begin, begin + table.num_rows])
    if first == last:
        return table
    mask = np.zeros(table.num_rows, dtype=bool)
    mask[places[first:last] - begin] = True
    for at, field in enumerate(table.schema):
        if field.name == "id" or field.name not in rows.column_names:
            continue
        try:
            given = rows[field.name].slice(first, last - first).combine_chunks().cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"column {field.name!r} must hold {field.type} as in the graph, got other values "
                f"({str(error).splitlines()[0]}); correct it"
            ) from None
        whole = table[field.name].combine_chunks()
        table = table.set_column(at, field, pc.replace_with_mask(whole, pa.array(mask), given))
    return table


def _from_parquet(path: Path, places: npt.NDArray[np.int64] | None, ids: list[str]) -> list[dict[str, Any]]:
    """Only the row groups with these nodes are read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            "attributes must be read by pyarrow, got none; run `pip install lrgi[tables]`, or pass "
            "--no-attributes"
        ) from None
    file = pq.ParquetFile(path)
    found: dict[Any, dict[str, Any]] = {}
    start = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if places is not None:
            keys = np.unique(places[(places >= start) & (places < start + rows)]).tolist()
            at = [key - start for key in keys]
        else:
            names = file.read_row_group(group, columns=["id"])["id"].cast(pa.string()).to_pylist()
            wanted = set(ids)
            at = [i for i, name in enumerate(names) if name in wanted]
            keys = [names[i] for i in at]
        if at:
            taken = file.read_row_group(group).take(at).drop_columns(["id"]).to_pylist()
            found |= {
                key: {name: _plain(value) for name, value in row.items()}
                for key, row in zip(keys, taken, strict=True)
            }
        start += rows
    return [found.get(key, {}) for key in (ids if places is None else places.tolist())]


def _plain(value: Any) -> Any:
    """As JSON has it; whole numbers without a point."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == datetime.min.time() else value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else value
