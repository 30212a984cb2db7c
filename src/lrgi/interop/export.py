"""Embeddings to take away: Parquet in shards, one .npy file, or word2vec text; resumable.

Rows are in the order of the graph's nodes, each once. Memory does not grow with the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.encoder import Encoder, embed_layer
from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.graph.sinks import FileSink
from lrgi.interop.export_files import WRITERS, Vectors, check_words
from lrgi.interop.export_work import Work
from lrgi.layers.propagate import PropagateLayer
from lrgi.outputs import FORMAT, VERSION, VIEWS, Layers, chosen_layers
from lrgi.training.tables import digest_of

KINDS = tuple(WRITERS)
DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class ExportPlan:
    """What is written of an embedding, and how. Raises InputError for what cannot be."""

    layers: Layers = "last"
    view: str = "u"
    kind: str = "npy"
    dtype: str = "float32"
    shard_rows: int = 0  # 0: shards of about 256 MB

    def __post_init__(self) -> None:
        for name, allowed in (("view", VIEWS), ("kind", KINDS), ("dtype", DTYPES)):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}; choose one"
                )
        if self.shard_rows < 0:
            raise InputError(f"shard_rows must be 0 or more, got {self.shard_rows}; correct it")


def export_embedding(
    encoder: Encoder,
    graph: Graph,
    path: str | os.PathLike[str],
    plan: ExportPlan,
    *,
    source: str = "",
    nodes: npt.NDArray[np.int64] | None = None,
    about: dict[str, Any] | None = None,
    overwrite: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Embed a graph into a directory and return its manifest; an interrupted export of the same goes on.

    `source` is a digest of the graph's files, so that a changed graph is not taken for the same one. `nodes`
    says which nodes of a larger graph these are; `about` is kept in the manifest. Memory does not grow with
    the graph. Raises InputError before anything is written where the place holds something else.
    """
    encoder.check_columns(graph)
    plan = replace(plan, layers=chosen_layers(plan.layers, len(encoder.layers)))
    if plan.kind == "word2vec":
        check_words(graph)
    final = Path(path)
    work = Work.begin(final, _identity(encoder, graph, plan, source), overwrite, tell)
    tables = _Tables(encoder, graph, plan, work).columns()
    files = WRITERS[plan.kind](Vectors(graph, nodes, tables, plan.dtype, plan.shard_rows), work)
    manifest = {
        "format": FORMAT,
        "version": 1 if plan.kind == "npy" else VERSION,
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "columns": sum(table.shape[1] for table in tables),
        "layers": list(plan.layers),  # type: ignore[arg-type]
        "view": plan.view,
        "kind": plan.kind,
        "dtype": plan.dtype,
        **(about or {}),
        **files,
    }
    del tables
    work.finish(manifest)
    return manifest


@dataclass(frozen=True)
class _Tables:
    """The layers' outputs as files, each made once."""

    encoder: Encoder
    graph: Graph
    plan: ExportPlan
    work: Work

    def columns(self) -> list[Table]:
        """The tables whose rows, side by side, are the embedding."""
        numbers: tuple[int, ...] = self.plan.layers  # type: ignore[assignment]
        at: dict[int, Table] = {}
        table: Table = self.graph.features
        finished = [n for n in range(1, max(numbers) + 1) if f"U_{n}" in self.work.done]
        for number in range(max(numbers) + 1):
            if number > 0 and (number in numbers or number >= max(finished, default=1)):
                table = self._layer(number, table)
            if number in numbers:
                at[number] = table
            if number > 1 and number - 1 not in numbers:  # nothing needs it any more
                (self.work.state / f"U_{number - 1}.npy").unlink(missing_ok=True)
        both = {"u": [at], "v": [], "both": [at]}[self.plan.view]
        if self.plan.view != "u":
            both.append({number: self._mean(number, u) for number, u in at.items()})
        return [tables[number] for number in numbers for tables in both]

    def _layer(self, number: int, table: Table) -> Table:
        layer, name = self.encoder.layers[number - 1], f"U_{number}"
        if name not in self.work.done:
            self.work.tell(f"layer {number} of all nodes")
        sink = self._sink(name, layer.out_dim, digest_of(layer))
        made = embed_layer(layer, self.graph, table, sink)
        self.work.mark(name, {"rows": self.graph.num_nodes})
        return made

    def _mean(self, number: int, table: Table) -> Table:
        name, width = f"V_{number}", table.shape[1]
        return embed_layer(PropagateLayer(width, width), self.graph, table, self._sink(name, width, name))

    def _sink(self, name: str, width: int, of: str) -> FileSink:
        """Ranges that are there already are checked, and made again where they are damaged."""
        return FileSink(self.work.state / f"{name}.npy", (self.graph.num_nodes, width), of, mapped=True)


def _identity(encoder: Encoder, graph: Graph, plan: ExportPlan, source: str) -> dict[str, Any]:
    """What an export is of, so that only the same is gone on with."""
    return {
        "encoder": [digest_of(layer) for layer in encoder.layers],
        "graph": [graph.name, graph.num_nodes, graph.num_edges, graph.num_features, source],
        **asdict(plan),
    }
