"""`lrgi neighbors`: the nodes whose embeddings lie nearest to a node's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrgi.cli.console import Console
from lrgi.cli.embed_command import add_layers
from lrgi.cli.flags import UsageError, examples, number
from lrgi.cli.graphs import fingerprint, load_graph_for
from lrgi.errors import FormatError
from lrgi.graph.store import is_graph_directory
from lrgi.interop.attributes import attributes_at
from lrgi.interop.stored_vectors import StoredVectors
from lrgi.nearest.kept import kept_embedding
from lrgi.nearest.search import INDEX_FROM, SEARCHES, Found, Nearest, nearest_nodes
from lrgi.outputs import is_embedding_directory
from lrgi.report.tables import Cell, Column, plain_table
from lrgi.training.run import open_run
from lrgi.update.tables import kept_outputs

DESCRIPTION = """List the nodes nearest to a node, by the cosine of their embeddings, with their
ids and what your own table knows of them.

Of a run, all nodes of its graph (or of GRAPH) are embedded once and kept in the run
(RUN/neighbors). An embedding directory of `lrgi embed` will do as well. Nodes without
ids of their own are called by their place, from 0.

Every vector is compared, without holding them in memory; of millions of vectors an
index is made once, and kept beside them. It misses a neighbour now and then.
"""
EXAMPLE = examples("""
    lrgi neighbors runs/mine --id ada
    lrgi neighbors runs/mine --id ada bob -k 20 --layers all
    lrgi neighbors emb --id ada --json
""")
_COLUMNS, _LETTERS = 8, 24  # of attributes, on the screen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, which nodes, how many."""
    parser.add_argument("place", metavar="RUN|EMB", help="a run directory, or an embedding directory")
    parser.add_argument(
        "graph", metavar="GRAPH", nargs="?", help="another graph than the one that the run was fitted on"
    )
    parser.add_argument(
        "--id",
        metavar="ID",
        dest="ids",
        nargs="+",
        action="extend",
        required=True,
        help="of a node, or of several",
    )
    parser.add_argument(
        "-k", type=number("-k", int, 1), default=10, metavar="N", help="neighbours of each (default 10)"
    )
    add_layers(parser)
    parser.set_defaults(layers=None, view=None)
    parser.add_argument(
        "--search",
        choices=SEARCHES,
        default="auto",
        help="exact: compare all vectors; index: make and use an index; auto: an index "
        f"from {INDEX_FROM:,} vectors on (default auto)",
    )
    parser.add_argument(
        "--no-attributes", action="store_true", help="ids alone, without your table's columns"
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Embed if need be, search, and list."""
    embedding = _embedding(arguments, console)
    found = nearest_nodes(
        embedding, arguments.ids, arguments.k,
        search=arguments.search, threads=torch.get_num_threads(), tell=console.note,
    )  # fmt: skip
    vectors = StoredVectors(embedding)
    known = {} if arguments.no_attributes else _attributes(vectors, found, console)
    for at, answer in enumerate(found.answers):
        console.say(("\n" if at else "") + _in_words(answer, known))
    how = "by an index, nearly exact" if found.by == "index" else "all compared"
    layers = ", ".join(map(str, vectors.manifest["layers"]))
    console.say(
        f"\ncosine of layer {layers} ({vectors.count:,} vectors of {vectors.width:,} columns, {how})."
    )
    return {
        "command": "neighbors",
        "path": str(arguments.place),
        "embedding": str(embedding),
        "layers": vectors.manifest["layers"],
        "view": vectors.manifest.get("view", "u"),
        "search": found.by,
        "nodes": [_as_json(answer, known) for answer in found.answers],
    }


def _embedding(arguments: argparse.Namespace, console: Console) -> Path:
    """The embedding directory to search."""
    place = Path(arguments.place)
    if is_embedding_directory(place):
        given = {"GRAPH": arguments.graph, "--layers": arguments.layers, "--view": arguments.view}
        extra = next((name for name, value in given.items() if value is not None), None)
        if extra is not None:
            raise UsageError(
                f"{extra} must go with a run, got {place}, which is an embedding and has its own; drop it"
            )
        return place
    done = open_run(place)
    graph = arguments.graph or done.record.get("source")
    if graph is None:
        raise UsageError(
            f"GRAPH must be named for a run that does not say where its graph is, got {place}; add it"
        )
    if not Path(graph).exists():
        raise FormatError(
            f"the graph of a run must be there, got {graph}, which is not; name it: "
            f"lrgi neighbors {place} GRAPH --id {arguments.ids[0]}"
        )
    return kept_embedding(
        done,
        lambda: load_graph_for(done.encoder, graph, console),
        source={"path": str(Path(graph).absolute()), "checksum": fingerprint(graph)},
        layers=arguments.layers or "last",
        view=arguments.view or "u",
        kept=lambda: kept_outputs(place, Path(graph)),
        tell=console.note,
    )


def _attributes(vectors: StoredVectors, found: Found, console: Console) -> dict[int, dict[str, Any]]:
    """What is known of every node in the answers, by its row; nothing where the graph is another one now."""
    source = vectors.manifest.get("source") or {}
    graph = Path(str(source.get("path", "")))
    if not source or not is_graph_directory(graph):
        return {}
    if fingerprint(str(graph)) != source.get("checksum"):
        console.note(f"{graph} has changed since it was embedded: attributes are left out")
        return {}
    rows = np.concatenate([[answer.row, *answer.rows] for answer in found.answers]).astype(np.int64)
    ids = [name for answer in found.answers for name in (answer.id, *answer.ids)]
    return dict(zip(rows.tolist(), attributes_at(graph, vectors.graph_places(rows), ids), strict=True))


def _in_words(answer: Nearest, known: dict[int, dict[str, Any]]) -> str:
    """A line of the node, then a table of its neighbours."""
    names = [name for name, value in known.get(answer.row, {}).items() if not isinstance(value, list)]
    left = len(names) - _COLUMNS
    names = names[:_COLUMNS]
    own = ", ".join(f"{name} {_cell(known[answer.row][name])}" for name in names)
    rows: list[tuple[Cell, ...]] = [
        (float(cosine), str(name), *(_cell(known.get(row, {}).get(key)) for key in names))
        for cosine, name, row in zip(answer.cosines, answer.ids, answer.rows.tolist(), strict=True)
    ]
    columns = [Column("cosine", 4), *(Column(name, text=True) for name in ("id", *names))]
    more = f"\n({left} more columns: --json)" if left > 0 else ""
    return f"{answer.id}{': ' + own if own else ''}\n\n{plain_table(columns, rows)}{more}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = " ".join((f"{value:g}" if isinstance(value, float) else str(value)).split())
    return text if len(text) <= _LETTERS else text[: _LETTERS - 3] + "..."


def _as_json(answer: Nearest, known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    near = zip(answer.cosines.tolist(), answer.ids, answer.rows.tolist(), strict=True)
    return {
        "id": answer.id,
        "attributes": known.get(answer.row, {}),
        "neighbors": [
            {"id": name, "cosine": round(cosine, 6), "attributes": known.get(row, {})}
            for cosine, name, row in near
        ],
    }
