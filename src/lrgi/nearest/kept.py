"""The embedding that a run keeps to be searched: made once, and again when it is of something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lrgi.directory import check_no_links, checksum, locked
from lrgi.encoder import CONFIG
from lrgi.errors import FormatError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.interop.export import ExportPlan, export_embedding
from lrgi.outputs import Layers, chosen_layers, read_manifest, verify_vectors
from lrgi.training.run import ENCODER, Run

NEIGHBORS = "neighbors"


def kept_embedding(
    run: Run,
    load: Callable[[], Graph],
    *,
    source: dict[str, str],
    layers: Layers = "last",
    view: str = "u",
    kept: Callable[[], Mapping[int, Table]] = dict,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """The directory inside the run with the embeddings of all nodes; `load` gives the graph to embed.

    `source` says which graph it is: `path` and `checksum`. A run keeps one such embedding: of another graph,
    encoder, layer or view it is made again. An interrupted one goes on. `kept` gives outputs of layers that
    are there already.
    """
    chosen, place = chosen_layers(layers, len(run.encoder.layers)), run.path / NEIGHBORS
    of = {
        "encoder": checksum(run.path / ENCODER / CONFIG),
        "graph": source["checksum"],
        "layers": list(chosen),
        "view": view,
    }
    check_no_links(run.path)
    with locked(run.path):
        if not _is_of(place, of):
            graph = load()
            tell(f"embedding {graph.num_nodes:,} nodes, kept in {place}")
            about: dict[str, Any] = {"run": str(run.path), "source": source, "of": of}
            export_embedding(
                run.encoder, graph, place, ExportPlan(chosen, view, "npy"),
                source=source["checksum"], about=about, overwrite=True, kept=kept(), tell=tell,
            )  # fmt: skip
    return place


def _is_of(place: Path, of: dict[str, Any]) -> bool:
    """Whether what is there is whole and of this encoder, graph, layers and view."""
    try:
        if read_manifest(place).get("of") != of:
            return False
        verify_vectors(place)
    except FormatError:
        return False
    return True
