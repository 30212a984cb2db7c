"""The tables U_(1) to U_(L) of a changed graph: rows that were touched are made again, the others copied."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.directory import flush_directory, reserve
from lrgi.encoder import Encoder, embed_layer, embed_rows
from lrgi.graph.arrays import ArrayEntry, describe_array, open_array
from lrgi.graph.features import DenseTable, Table
from lrgi.graph.graph import Graph
from lrgi.graph.sinks import PREAMBLE, FileSink, preamble
from lrgi.training.tables import digest_of
from lrgi.update.tables import KeptTables, TablesWork
from lrgi.update.touched import touched_rows

Ints = npt.NDArray[np.int64]

MOST_EDGES = 0.5  # of all edges: where touched rows have more, making all rows is as quick


@dataclass(frozen=True)
class Refreshed:
    """What was done for one layer; `rows` were touched of `nodes`. `scratch_seconds` is what all rows take,
    as they did when all were made last, by the numbers of nodes and edges; None where that is not known."""

    layer: int
    rows: int
    nodes: int
    edges: int  # read, a row's own not counted
    made: str  # "rows", "all" or "nothing"
    seconds: float
    scratch_seconds: float | None


@dataclass(frozen=True)
class Reach:
    """What a change touches: nodes with other in-neighbours, and with other features; new ones in both."""

    rows: Ints
    inputs: Ints
    directed: bool


def refresh_tables(
    encoder: Encoder,
    graph: Graph,
    old: KeptTables | None,
    reach: Reach,
    work: TablesWork,
    *,
    tell: Callable[[str], None] = lambda text: None,
    most_edges: float = MOST_EDGES,
) -> list[Refreshed]:
    """Make the tables of `graph` in `work`, out of the `old` ones (None: from scratch), layer by layer."""
    table: Table = graph.features
    degrees, inputs, done = graph.degrees(), reach.inputs, []
    for number, layer in enumerate(encoder.layers, 1):
        begun = time.perf_counter()
        inputs = touched_rows(layer, graph, reach.rows, inputs, directed=reach.directed)
        edges = int(degrees[inputs].sum())
        made, entry, there = "nothing", None, 0
        if str(number) in work.done:
            entry = ArrayEntry.from_json(work.done[str(number)], "a table")
        elif old is None or edges > most_edges * graph.num_edges:
            made = "all"
            tell(f"layer {number}: all {graph.num_nodes:,} nodes")
            shape = (graph.num_nodes, layer.out_dim)
            sink = FileSink(work.file(number), shape, digest_of(layer), mapped=True)
            there = sum(stop - start for start, stop in sink.done)  # by a process that was killed
            embed_layer(layer, graph, table, sink)
        elif len(inputs) == 0 and old.table(number).shape[0] == graph.num_nodes:
            _link(old.directory / old.entry(number).file, work.file(number))
            entry = old.entry(number)
        else:
            made = "rows"
            tell(f"layer {number}: {len(inputs):,} of {graph.num_nodes:,} nodes")
            with _patched(old.directory / old.entry(number).file, work.file(number), graph.num_nodes) as put:
                embed_rows(layer, graph, table, inputs, put, beside=work.directory)
        entry = entry or describe_array(work.file(number))
        seconds = time.perf_counter() - begun
        whole = seconds * graph.num_nodes / max(1, graph.num_nodes - there)
        scratch = _scratch(graph, old, number, whole if made == "all" else None)
        if str(number) not in work.done:
            work.mark(number, entry, {"touched": len(inputs), "scratch": scratch})
        table = DenseTable(open_array(work.directory, entry))
        known = None if old is None else old.scratch_seconds(number) * (graph.num_nodes + graph.num_edges)
        done.append(
            Refreshed(
                number, len(inputs), graph.num_nodes, edges if made == "rows" else 0, made, seconds, known
            )
        )
    return done


def _scratch(graph: Graph, old: KeptTables | None, number: int, seconds: float | None) -> dict[str, Any]:
    """What making all rows takes: as measured now, or when it was last."""
    if seconds is None and old is not None:
        return dict(old.manifest["layers"][number - 1]["scratch"])
    return {"seconds": seconds, "nodes": graph.num_nodes, "edges": graph.num_edges}


@contextmanager
def _patched(
    old: Path, new: Path, rows: int
) -> Iterator[Callable[[npt.NDArray[np.int64], npt.NDArray[np.float32]], None]]:
    """A copy of a table that has `rows` rows; gives what puts rows into their places. It appears whole."""
    beside = new.with_name(f".{new.name}.part")
    shutil.copyfile(old, beside)
    width = int(np.load(old, mmap_mode="r", allow_pickle=False).shape[1])
    with beside.open("r+b") as file:
        file.write(preamble((rows, width)))
        file.flush()
        reserve(file, PREAMBLE + 4 * rows * width)
        table = np.memmap(file, dtype="<f4", mode="r+", offset=PREAMBLE, shape=(rows, width))
        yield table.__setitem__
        del table
        os.fsync(file.fileno())
    beside.replace(new)
    flush_directory(new.parent)


def _link(old: Path, new: Path) -> None:
    new.unlink(missing_ok=True)
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)
