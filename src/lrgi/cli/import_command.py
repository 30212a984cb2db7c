"""`lrgi import`: tables, or a .npz file, to a graph directory."""

from __future__ import annotations

import argparse
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, examples, number
from lrgi.cli.graphs import SPLITS, in_words, with_split
from lrgi.cli.named import add_named_arguments, import_named, is_name
from lrgi.cli.tables import add_table_arguments, import_from_tables
from lrgi.graph.graph import Graph
from lrgi.graph.store import open_graph, save_graph
from lrgi.graph.summary import summarize
from lrgi.interop.anything import read_path
from lrgi.interop.featured import featured
from lrgi.structural import SOURCES
from lrgi.structural import in_words as made_in_words

DESCRIPTION = """Turn tables, arrays, another library's folder, or a data set by name into a graph
directory, which opens in milliseconds whatever its size.

Tables: --edges with the ids of senders and receivers, and --nodes with an id and
whatever else is known of each: numbers, categories, times, lists of numbers, gaps.
Ids may be anything; the summary says what became of every row and column
(docs/tables.md). Tables may be larger than memory.

A .npz file holds edge_index [2, E] (row 0 sends to row 1) and x [N, d]; sparse features
are x_indptr, x_indices, x_data and x_shape instead of x. Where you have them, it also
holds y (classes [N], or 0 and 1 [N, C]), train_mask, val_mask, test_mask and graph_id.
docs/graph-format.md says more. In Python: numpy.savez("mine.npz", edge_index=..., x=...).

PATH may also be an adjacency matrix of scipy.sparse.save_npz (with --features x.npy), a
folder of OGB's, or a GraphBolt folder with a metadata.yaml (docs/objects.md).
"""
EXAMPLE = examples("""
    lrgi import --edges follows.csv --nodes people.csv --out mine
    lrgi import --edges 'calls/*.parquet' --src caller --dst callee --features-from degree --out calls
    lrgi import cora.npz --out cora
    lrgi import datasets/ogbn_arxiv --out arxiv
    lrgi import adjacency.npz --features x.npy --out mine
    lrgi import reddit --root datasets --out reddit
    lrgi import papers.npz --out papers --directed --split random
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file or the tables, where to, and what to make of it."""
    parser.add_argument(
        "file",
        metavar="PATH|NAME",
        nargs="?",
        help="a .npz file, an OGB or a GraphBolt folder, of which nothing is unpickled, or a data set by "
        "name, such as ppi (or use --edges)",
    )
    parser.add_argument("--out", metavar="GRAPH", required=True, help="the graph directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a graph directory that is there")
    add_table_arguments(parser)
    add_named_arguments(parser)
    parser.add_argument(
        "--features", metavar="FILE", help="x [N, d] as .npy or scipy.sparse .npz, for an adjacency matrix"
    )
    group = parser.add_argument_group("what the graph is")
    group.add_argument(
        "--directed",
        action="store_true",
        default=argparse.SUPPRESS,
        help="keep edges as they are: only the receiver reads the sender (default: both ways)",
    )
    group.add_argument(
        "--features-from",
        metavar="{" + ",".join(SOURCES) + "}",
        help="make features of the structure, in place of none or beside the columns: degrees; chances of a "
        "random walk to return; random vectors averaged over neighbours (of no meaning on other graphs)",
    )
    group.add_argument(
        "--split",
        metavar="{" + ",".join(SPLITS) + "}",
        default="auto",
        help="auto: the file's masks or column if it has some, else by graph if there are 3 graphs or more, "
        "else none; random: 10 %% of the nodes train, 10 %% validation, 80 %% test; "
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
    if (arguments.file is None) == (arguments.edges is None):
        got = "both" if arguments.file else "neither"
        raise UsageError(f"an import must be of a PATH or of --edges, got {got}; see `lrgi import --help`")
    found: dict[str, Any] = {}
    if arguments.edges is not None:
        if arguments.features is not None:
            raise UsageError(
                "--features must go with an adjacency matrix, got --edges beside it; drop one of them"
            )
        found["tables"] = import_from_tables(arguments, console).to_json()
        graph = open_graph(arguments.out)
    else:
        _check_unused(arguments)
        graph = _import_arrays(arguments, console)
    console.say(f"Graph {graph.name!r}, now in {arguments.out}:\n{in_words(graph)}")
    console.next_steps([(f"fit {arguments.out} --out runs/{graph.name}", "fit an encoder")])
    return {"command": "import", "path": str(arguments.out), "graph": summarize(graph), **found}


def _import_arrays(arguments: argparse.Namespace, console: Console) -> Graph:
    if is_name(arguments.file):
        graph = import_named(arguments, console)
    else:
        console.note(f"reading {arguments.file}")
        directed = getattr(arguments, "directed", False)
        graph = read_path(arguments.file, directed=directed, features=arguments.features)
    graph = with_split(graph, arguments.split, arguments.split_seed)
    graph = featured(graph, arguments.features_from)
    if graph.encoding is not None and graph.encoding.made is not None:
        console.note(made_in_words(graph.encoding.made))
    save_graph(graph, arguments.out, overwrite=arguments.overwrite)
    return graph


def _check_unused(arguments: argparse.Namespace) -> None:
    """A flag of tables beside a file of arrays is a mistake."""
    for flag in ("nodes", "like"):
        if getattr(arguments, flag) is not None:
            name = "--" + flag.replace("_", "-")
            raise UsageError(f"{name} must go with --edges, got {arguments.file} beside it; drop one of them")
