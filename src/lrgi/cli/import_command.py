"""`lrgi import`: a .npz file to a graph directory."""

from __future__ import annotations

import argparse
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import examples, number
from lrgi.cli.graphs import SPLITS, in_words, with_split
from lrgi.graph.store import save_graph
from lrgi.graph.summary import summarize
from lrgi.interop.npz import read_npz

DESCRIPTION = """Turn a .npz file of arrays into a graph directory, which opens in milliseconds
whatever its size.

The file holds edge_index [2, E] (row 0 sends to row 1) and x [N, d]; sparse features
are x_indptr, x_indices, x_data and x_shape instead of x. Where you have them, it also
holds y (classes [N], or 0 and 1 [N, C]), train_mask, val_mask, test_mask and graph_id.
docs/graph-format.md says more. In Python: numpy.savez("mine.npz", edge_index=..., x=...).
"""
EXAMPLE = examples("""
    lrgi import cora.npz --out cora
    lrgi import papers.npz --out papers --directed --split random
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, where to, and what to make of it."""
    parser.add_argument("file", metavar="FILE.npz", help="the arrays; nothing in it is unpickled")
    parser.add_argument("--out", metavar="GRAPH", required=True, help="the graph directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a graph directory that is there")
    group = parser.add_argument_group("what the graph is")
    group.add_argument(
        "--directed",
        action="store_true",
        help="keep edges as they are: only the receiver reads the sender (default: both ways)",
    )
    group.add_argument(
        "--split",
        metavar="{" + ",".join(SPLITS) + "}",
        default="auto",
        help="auto: the file's masks if it has some, else by graph if there are 3 graphs or more, else none; "
        "random: 10 %% of the nodes train, 10 %% validation, 80 %% test; "
        "by-graph: about 70/15/15 %% of the graphs, whole ones; none: no split",
    )
    group.add_argument(
        "--split-seed",
        type=number("--split-seed", int),
        default=0,
        metavar="N",
        help="decides a new split (default 0)",
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Read, split, write, and say what it is."""
    console.note(f"reading {arguments.file}")
    graph = read_npz(arguments.file, directed=arguments.directed)
    graph = with_split(graph, arguments.split, arguments.split_seed)
    save_graph(graph, arguments.out, overwrite=arguments.overwrite)
    console.say(f"Graph {graph.name!r}, now in {arguments.out}:\n{in_words(graph)}")
    console.next_steps([(f"fit {arguments.out} --out runs/{graph.name}", "fit an encoder")])
    return {"command": "import", "path": str(arguments.out), "graph": summarize(graph)}
