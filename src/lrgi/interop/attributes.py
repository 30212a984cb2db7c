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
from lrgi.graph.store import ATTRIBUTES, attributes_of, check_bytes, open_graph


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
