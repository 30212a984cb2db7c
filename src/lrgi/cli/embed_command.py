"""`lrgi embed`: a run and a graph to an embedding directory."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.cli.console import Console
from lrgi.cli.flags import examples, number
from lrgi.cli.graphs import fingerprint, load_graph_for
from lrgi.cli.launch import add_launch, launched, load_shared
from lrgi.cli.progress import duration
from lrgi.distributed.collectives import World
from lrgi.errors import InputError
from lrgi.graph.fingerprint import sizes
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.partition import is_partition, names_in
from lrgi.interop.export import DTYPES, KINDS, ExportPlan, export_embedding
from lrgi.interop.export_work import check_export_place
from lrgi.outputs import VIEWS
from lrgi.training.run import Run, open_fitted
from lrgi.update.tables import kept_outputs

DESCRIPTION = """Write the embeddings of a graph's nodes: of any graph with the feature columns
of the fitted one. What was made from tables gets the treatment of the fit.

Every node is there once, in the graph's order, with your own id where the graph has
some: as Parquet in shards (EMB/vectors, with the columns id and embedding), as
EMB/embeddings.npy (and ids.npy), or as word2vec text. EMB/manifest.json says what it
is. An export that was interrupted goes on where it stopped when it is called again.
"""
EXAMPLE = examples("""
    lrgi embed runs/mine mine --out emb
    lrgi embed runs/mine mine --out emb --layers all --format npy
    lrgi embed runs/mine later --out later-emb --dtype float16
    torchrun --nproc-per-node=2 -m lrgi embed runs/mine mine-parts --out emb
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the graph, where to, and which layers."""
    parser.add_argument(
        "run", metavar="RUN", help="a run directory of `lrgi fit`, or an encoder that was shared"
    )
    parser.add_argument("graph", metavar="GRAPH", help="a graph directory, or a .npz file")
    parser.add_argument("--out", metavar="EMB", required=True, help="the embedding directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an embedding that is there")
    parser.add_argument(
        "--format",
        choices=KINDS,
        help="parquet, npy, or word2vec (default: parquet where the graph has ids of its own, else npy)",
    )
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of the numbers (default float32)")
    parser.add_argument(
        "--shard-rows",
        type=number("--shard-rows", int, 1),
        default=0,
        metavar="N",
        help="nodes in a file of Parquet (default: as many as make 256 MB)",
    )
    add_layers(parser)
    add_launch(parser)
    parser.add_argument(
        "--training-subgraph",
        action="store_true",
        help="embed only the nodes that the run was fitted on, in the subgraph of just those nodes",
    )


def add_layers(parser: argparse.ArgumentParser) -> None:
    """The flags that choose what is read out: layers and views."""
    parser.add_argument(
        "--layers",
        metavar="{last,all,1,3,...}",
        default="last",
        help="whose outputs: the last layer's, all, or some by number, side by side (default last)",
    )
    parser.add_argument(
        "--view",
        choices=VIEWS,
        default="u",
        help="u: the layer's output; v: its mean over a node's neighbours; both, side by side (default u)",
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Embed, and say how to read it."""
    with launched(arguments, console) as world:
        return _run(arguments, console, world)


def _run(arguments: argparse.Namespace, console: Console, world: World) -> dict[str, Any]:
    out = Path(arguments.out)
    if world.alone:  # of several, process 0 looks when all are there
        check_export_place(out, arguments.overwrite)
    done = open_fitted(arguments.run)
    graph, ids, nodes = _graph_for(done, arguments, console, world)
    source = fingerprint(arguments.graph)
    about = {
        "run": str(arguments.run),
        "source": {"path": str(Path(arguments.graph).absolute()), "checksum": source},
        "embedded_in": "whole graph" if nodes is None else "training subgraph",
    }
    plan = ExportPlan(
        arguments.layers,
        arguments.view,
        arguments.format or ("npy" if ids is None else "parquet"),
        arguments.dtype,
        arguments.shard_rows,
    )
    kept = kept_outputs(done.path, Path(arguments.graph)) if nodes is None and world.alone else {}
    if kept:
        console.note("taking the layers' outputs from the tables that the run keeps (lrgi update)")
    facts = sizes(graph)
    console.note(f"embedding {facts['nodes']:,} nodes, {facts['edges']:,} edges")
    begun = time.perf_counter()
    manifest = export_embedding(
        done.encoder, graph, out, plan,
        source=source, ids=ids, nodes=nodes, about=about, overwrite=arguments.overwrite, kept=kept,
        tell=console.note,
    )  # fmt: skip
    if world.rank > 0:
        return {}
    seconds = time.perf_counter() - begun
    chosen = ", ".join(map(str, manifest["layers"]))
    console.say(
        f"{manifest['nodes']:,} nodes x {manifest['columns']:,} columns "
        f"(layer{'s' if len(manifest['layers']) > 1 else ''} {chosen}) in {duration(seconds)}, "
        f"now in {arguments.out}."
    )
    reading = {
        "parquet": f'pandas.read_parquet("{out}/vectors")',
        "npy": f'numpy.load("{out}/embeddings.npy", mmap_mode="r")',
        "word2vec": f'gensim.models.KeyedVectors.load_word2vec_format("{out}/embeddings.txt")',
    }
    console.say(f"\nIn Python:\n  {reading[plan.kind]}")
    if plan.kind != "word2vec":
        some = "ID" if ids is None else shlex.quote(str(ids[0]))
        console.next_steps([(f"neighbors {out} --id {some}", "list the nodes most like one of them")])
    return {
        "command": "embed",
        "path": str(arguments.out),
        "seconds": round(seconds, 3),
        "embedding": manifest,
    }


Named = tuple[Graph, npt.NDArray[Any] | None, npt.NDArray[np.int64] | None]


def _graph_for(done: Run, arguments: argparse.Namespace, console: Console, world: World) -> Named:
    """The graph to embed, or this process's part of it; the nodes' ids; their places in a larger graph."""
    if is_partition(arguments.graph):
        if arguments.training_subgraph:
            raise InputError(
                "--training-subgraph must come with a whole graph, got one in parts, which are of the nodes "
                "that they were cut for; drop it"
            )
        return load_shared(arguments.graph, world), *names_in(arguments.graph)
    graph = load_graph_for(done.encoder, arguments.graph, console)
    if not arguments.training_subgraph:
        return graph, graph.ids, None
    graph, nodes = training_subgraph(graph, "train" if done.fit_on == "all" else done.fit_on)
    return graph, graph.ids, nodes
