"""`lrgi probe`: a run's embeddings of a graph under the linear evaluation."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.embed_command import add_layers
from lrgi.cli.flags import add_settings, examples, given_settings
from lrgi.cli.graphs import load_graph
from lrgi.cli.progress import duration
from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.outputs import chosen_layers, embed_layers
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan, ProbeResult
from lrgi.report.tables import pairs
from lrgi.training.run import Run, open_fitted

DESCRIPTION = """Score a run's embeddings of a graph: a linear classifier is trained on them, the
encoder stays as it is.

Inductive: training nodes are embedded in the subgraph that the run was fitted on,
validation and test nodes in the whole graph. Transductive: all nodes are embedded in
the whole graph. Scores of the two must not be compared. A graph without a split gets
a random one (10 % train, 10 % validation, 80 % test), another one for every seed.
"""
EXAMPLE = examples("""
    lrgi probe runs/mine mine
    lrgi probe runs/mine mine --layers all --seeds 0,1,2,3,4 --json
""")
PROTOCOLS = ("auto", "inductive", "transductive")
GROUPS = {
    "the classifier": ("epochs", "learning_rate", "weight_decay", "seeds", "standardize"),
    "its cost": ("evaluate_every", "resident_mb"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the graph, which layers, and every setting of the probe."""
    parser.add_argument(
        "run", metavar="RUN", help="a run directory of `lrgi fit`, or an encoder that was shared"
    )
    parser.add_argument("graph", metavar="GRAPH", help="a graph directory with labels, or a .npz file")
    add_layers(parser)
    parser.add_argument(
        "--protocol",
        metavar="{" + ",".join(PROTOCOLS) + "}",
        default="auto",
        help="auto: inductive if the run was fitted on a part of the nodes, else transductive",
    )
    add_settings(parser, ProbePlan, GROUPS)


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Embed, probe, and say what was measured and how."""
    plan = ProbePlan(**given_settings(arguments, ProbePlan))
    done, graph = open_fitted(arguments.run), load_graph(arguments.graph)
    layers = chosen_layers(arguments.layers, len(done.encoder.layers))
    views = Views.of(graph, _fit_on(arguments.protocol, done))
    if views.metric is None:
        raise InputError(
            f"a graph to probe must have labels, got {arguments.graph}, which has none; add y to it"
        )
    console.note(f"embedding {graph.num_nodes:,} nodes")
    read = partial(embed_layers, done.encoder, layers=layers, view=arguments.view)
    table = DenseTable(read(graph))
    seen = None if views.seen is None else DenseTable(read(views.seen))
    console.note(f"probing {table.shape[1]:,} columns with {len(plan.seeds)} seeds")
    result = probe_table(views, table, seen, plan)
    console.say(_in_words(result, layers, views.splits))
    return {
        "command": "probe",
        "run": str(arguments.run),
        "graph": graph.name,
        "layers": list(layers),
        "view": arguments.view,
        "columns": table.shape[1],
        "splits": views.splits,
        **result.to_dict(),
    }


def _fit_on(protocol: str, done: Run) -> str:
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}; choose one")
    if protocol == "transductive":
        return "all"
    return "train" if protocol == "inductive" and done.fit_on == "all" else done.fit_on


def _in_words(result: ProbeResult, layers: tuple[int, ...], splits: str) -> str:
    name = {"accuracy": "accuracy", "micro_f1": "micro-F1"}[result.metric]
    return pairs(
        [
            ("metric", name),
            ("protocol", result.protocol),
            ("layers", ", ".join(map(str, layers))),
            ("splits", splits),
            ("seeds", ", ".join(map(str, result.seeds))),
            ("validation", f"{result.validation_mean:.4f} ± {result.validation_spread:.4f}"),
            ("test", f"{result.test_mean:.4f} ± {result.test_spread:.4f}"),
            ("took", duration(result.seconds)),
        ],
        indent=0,
    )
