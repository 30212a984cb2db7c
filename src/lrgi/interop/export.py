"""Embeddings to take away: Parquet in shards, one .npy file, or word2vec text; resumable.

Rows are in the order of the graph's nodes, each once. Memory does not grow with the graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.distributed.collectives import present
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.fingerprint import sizes
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part
from lrgi.graph.shared_sinks import sees_what_others_write
from lrgi.interop.export_files import WRITERS, Vectors, check_words
from lrgi.interop.export_tables import PartTables, Tables
from lrgi.interop.export_work import Work
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
    ids: npt.NDArray[Any] | None = None,
    nodes: npt.NDArray[np.int64] | None = None,
    about: dict[str, Any] | None = None,
    overwrite: bool = False,
    kept: Mapping[int, Table] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Embed a graph into a directory and return its manifest; an interrupted export of the same goes on.

    `source` is a digest of the graph's files, so that a changed graph is not taken for the same one. `ids`
    are those of a graph in parts, which knows none; `nodes` says which nodes of a larger graph these are;
    `about` is kept in the manifest. Memory does not grow with the graph. Several processes share the work:
    of a whole graph any of them makes any range and any shard, in a folder that all see; of a graph in parts
    each embeds its own, and process 0 writes. Process 0 returns the manifest, the others nothing.
    `kept` are outputs of layers of a whole graph, by number, that need not be made.
    Raises InputError before anything is written where the place holds something else.
    """
    encoder.check_columns(graph)
    layers = chosen_layers(plan.layers, len(encoder.layers))
    plan = replace(plan, layers=layers)
    ids, facts = graph.ids if ids is None else ids, sizes(graph)
    if plan.kind == "word2vec":
        check_words(ids)
    final, world, parts = Path(path), present(), isinstance(graph, Part)
    work = Work.begin(final, _identity(encoder, facts, plan, source), overwrite, tell, together=not parts)
    if not world.alone and not parts and not sees_what_others_write(work.state, world):
        raise InputError(
            f"the place for an embedding by several processes must be a folder that all see, got {path}; "
            "choose one that they share, or start it as one process"
        )
    tables = _tables(encoder, graph, layers, plan.view, work, kept or {})
    world.wait()
    if world.rank > 0 and (parts or plan.kind != "parquet"):
        return {}
    files = WRITERS[plan.kind](Vectors(facts["nodes"], ids, nodes, tables, plan.dtype, plan.shard_rows), work)
    if world.rank > 0:
        return {}
    manifest = {
        "format": FORMAT,
        "version": 1 if plan.kind == "npy" else VERSION,
        "graph": graph.name,
        "nodes": facts["nodes"],
        "columns": sum(table.shape[1] for table in tables),
        "layers": list(layers),
        "view": plan.view,
        "kind": plan.kind,
        "dtype": plan.dtype,
        **(about or {}),
        **files,
    }
    del tables
    work.finish(manifest)
    return manifest


def _tables(
    encoder: Encoder,
    graph: Graph,
    layers: tuple[int, ...],
    view: str,
    work: Work,
    kept: Mapping[int, Table],
) -> list[Table]:
    """Whose rows, side by side, are the embedding."""
    if isinstance(graph, Part):
        return PartTables(encoder, graph, layers, view, work).columns()
    return Tables(encoder, graph, layers, view, work, kept).columns()


def _identity(encoder: Encoder, facts: dict[str, Any], plan: ExportPlan, source: str) -> dict[str, Any]:
    """What an export is of, so that only the same is gone on with."""
    return {
        "encoder": [digest_of(layer) for layer in encoder.layers],
        "graph": [*(facts[key] for key in ("name", "nodes", "edges", "columns")), source],
        **asdict(plan),
    }
