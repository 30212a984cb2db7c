"""`lrgi embed`: a run and a graph to an embedding directory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import examples
from lrgi.cli.graphs import load_graph
from lrgi.cli.progress import duration
from lrgi.graph.inductive import training_subgraph
from lrgi.outputs import VIEWS, check_place, save_embedding
from lrgi.training.run import open_run

DESCRIPTION = """Write the embeddings of a graph's nodes: of any graph with the feature columns
of the fitted one.

EMB/embeddings.npy is float32, one row per node in the graph's order; EMB/ids.npy
holds your own ids where the graph has some; EMB/manifest.json says what it is.
Read it with numpy.load("EMB/embeddings.npy", mmap_mode="r").
"""
EXAMPLE = examples("""
    lrgi embed runs/mine mine --out emb
    lrgi embed runs/mine mine --out emb --layers all
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the graph, where to, and which layers."""
    parser.add_argument("run", metavar="RUN", help="a run directory of `lrgi fit`")
    parser.add_argument("graph", metavar="GRAPH", help="a graph directory, or a .npz file")
    parser.add_argument("--out", metavar="EMB", required=True, help="the embedding directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace an embedding that is there")
    add_layers(parser)
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
    check_place(Path(arguments.out), arguments.overwrite)
    done, graph, nodes = open_run(arguments.run), load_graph(arguments.graph), None
    if arguments.training_subgraph:
        graph, nodes = training_subgraph(graph, "train" if done.fit_on == "all" else done.fit_on)
    about = {
        "run": str(arguments.run),
        "embedded_in": "whole graph" if nodes is None else "training subgraph",
    }
    done.encoder.check_columns(graph)
    console.note(f"embedding {graph.num_nodes:,} nodes, {graph.num_edges:,} edges")
    begun = time.perf_counter()
    manifest = save_embedding(
        done.encoder, graph, arguments.out, arguments.layers,
        view=arguments.view, nodes=nodes, about=about, overwrite=arguments.overwrite,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    chosen = ", ".join(map(str, manifest["layers"]))
    console.say(
        f"{manifest['nodes']:,} nodes x {manifest['columns']:,} columns "
        f"(layer{'s' if len(manifest['layers']) > 1 else ''} {chosen}) in {duration(seconds)}, "
        f"now in {arguments.out}."
    )
    console.say(f'\nIn Python:\n  numpy.load("{arguments.out}/embeddings.npy", mmap_mode="r")')
    return {
        "command": "embed",
        "path": str(arguments.out),
        "seconds": round(seconds, 3),
        "embedding": manifest,
    }
