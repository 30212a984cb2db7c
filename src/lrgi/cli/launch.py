"""One process of several: where a launcher such as torchrun started this command more than once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, number
from lrgi.cli.graphs import load_graph
from lrgi.distributed.collectives import ALONE, TIMEOUT_SECONDS, World, joined
from lrgi.errors import InputError
from lrgi.graph.fingerprint import described
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.part import cut_part
from lrgi.graph.partition import is_partition, open_part
from lrgi.interop.metis import owners_for
from lrgi.training.placement import PLACEMENTS
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import resolve_fit_on


def add_launch(parser: argparse.ArgumentParser, *, placement: bool = False) -> None:
    """The flags of a command that several processes can run together."""
    group = parser.add_argument_group("several processes (torchrun ... -m lrgi; docs/many-machines.md)")
    group.add_argument(
        "--timeout",
        type=number("--timeout", float),
        metavar="SECONDS",
        default=TIMEOUT_SECONDS,
        help=f"give the others up when nothing is heard of them for so long (default {TIMEOUT_SECONDS:g})",
    )
    if placement:
        group.add_argument(
            "--placement",
            choices=PLACEMENTS,
            default="whole",
            help="whole: each maps all of the graph; parts: each cuts out its own when it starts, and holds "
            "no more. `lrgi plan --processes P` says which; what `lrgi partition` cut always is in parts "
            "(default whole)",
        )


@contextmanager
def launched(arguments: argparse.Namespace, console: Console, device: str = "cpu") -> Iterator[World]:
    """The world that this process is in; only process 0 of several talks."""
    if not arguments.timeout > 0:
        raise UsageError(f"--timeout must be above 0, got {arguments.timeout:g}; raise it")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    with joined(timeout=arguments.timeout, device=device) as world:
        if world.rank > 0:
            console.mute()
        yield world


def load_shared(path: str, world: World, placement: str = "whole", plan: FitPlan | None = None) -> Graph:
    """A graph, or of a graph in parts the one that is this process's."""
    if is_partition(path):
        return open_part(path, world.rank, world.size, verify=True)
    graph = load_graph(path)
    return graph if world.alone or placement == "whole" else _own_part(graph, world, plan or FitPlan())


def _own_part(graph: Graph, world: World, plan: FitPlan) -> Graph:
    """Process 0 says who owns which nodes, and every process cuts its own part."""
    fit_on = resolve_fit_on(plan, graph)
    seen, _ = training_subgraph(graph, fit_on)
    if world.size > seen.num_nodes:
        raise InputError(
            f"processes with a part each must be at most as many as nodes, {seen.num_nodes}, "
            f"got {world.size}; start fewer"
        )
    owners = torch.empty(seen.num_nodes, dtype=torch.int32)
    if world.rank == 0:
        owners = torch.from_numpy(owners_for(seen, world.size))
    world.repeat(owners)
    return cut_part(seen, owners.numpy(), world.rank, fit_on=fit_on, of=described(graph))


def own_device(device: str) -> str:
    """Of several processes on one machine each takes a GPU of its own."""
    local = os.environ.get("LOCAL_RANK")
    return f"cuda:{local}" if device == "cuda" and local is not None else device


def check_method(world: World, method: str) -> None:
    """InputError for a method whose fit cannot be shared, before anything is written."""
    if not world.alone and method not in ("lrgi", "rgi"):
        raise InputError(
            f"a fit by {world.size} processes must be of method lrgi or rgi, got {method}; "
            "start it as one process"
        )


def sent_in_words(record: dict[str, Any]) -> str:
    """What the network had to carry."""
    steps = sum(layer["steps"] for layer in record["layers"])
    each = record["sent_bytes"] / max(1, steps)
    return (
        f"{record['processes']} processes; each sent {each / 1e6:,.2f} MB per step, "
        f"{record['sent_bytes'] / 1e6:,.1f} MB in all"
    )
