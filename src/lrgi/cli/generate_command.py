"""`lrgi generate`: a graph made from a seed, as a graph directory."""

from __future__ import annotations

import argparse
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import examples, number
from lrgi.cli.graphs import in_words
from lrgi.errors import InputError
from lrgi.graph.products import write_products
from lrgi.graph.store import open_graph, save_graph
from lrgi.graph.summary import summarize
from lrgi.graph.synthetic import planted_communities, products_training

DESCRIPTION = """Make a graph from a seed, for measuring where no data set is at hand.

products           ogbn-products' size and shape: 2,449,029 nodes, 61,859,140 edges,
                   100 features, 47 classes, the paper's inductive split (1.6 GB on
                   disk, about a minute; it is never in memory as a whole)
products-training  only its training part: 196,615 nodes, 5.6 million edges
demo               the planted communities of `lrgi demo`: 20,000 nodes, 200,000 edges

Their classes are planted: a score on them is no evidence about real data.
"""
EXAMPLE = examples("""
    lrgi generate products --out products
    lrgi generate products --out small --scale 0.01
""")
KINDS = ("products", "products-training", "demo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which graph, where to, and how large."""
    parser.add_argument("kind", metavar="{" + ",".join(KINDS) + "}", help="which graph")
    parser.add_argument("--out", metavar="GRAPH", required=True, help="the graph directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a graph directory that is there")
    parser.add_argument(
        "--scale",
        type=number("--scale", float),
        default=1.0,
        metavar="X",
        help="the size: 0.01 is a hundredth of the nodes and edges (default 1)",
    )
    parser.add_argument(
        "--seed", type=number("--seed", int), default=0, metavar="N", help="decides everything (default 0)"
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Make, write, and say what it is."""
    kind, scale, out = arguments.kind, arguments.scale, arguments.out
    if kind not in KINDS:
        raise InputError(f"a graph to generate must be one of {', '.join(KINDS)}, got {kind!r}; choose one")
    if not 0 < scale <= 1:
        raise InputError(f"--scale must be above 0 and at most 1, got {scale}; 1 is the full size")
    console.note(f"making {kind}")
    if kind == "products":
        write_products(out, scale, arguments.seed, overwrite=arguments.overwrite)
    elif kind == "products-training":
        graph = products_training(round(196_615 * scale), seed=arguments.seed)
        save_graph(graph, out, overwrite=arguments.overwrite)
    else:
        nodes = round(20_000 * scale)
        graph = planted_communities(nodes, 20 * nodes, seed=arguments.seed)
        save_graph(graph, out, overwrite=arguments.overwrite)
    graph = open_graph(out)
    console.say(f"Graph {graph.name!r}, now in {out}:\n{in_words(graph)}")
    console.next_steps([(f"fit {out} --out runs/{graph.name}", "fit an encoder")])
    return {"command": "generate", "path": str(out), "graph": summarize(graph)}
