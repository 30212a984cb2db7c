"""One process of several: where a launcher such as torchrun started this command more than once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, number
from lrgi.cli.graphs import load_graph
from lrgi.distributed.collectives import ALONE, TIMEOUT_SECONDS, World, joined
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.graph.partition import is_partition, open_part


def add_launch(parser: argparse.ArgumentParser) -> None:
    """The flags of a command that several processes can run together."""
    group = parser.add_argument_group("several processes (torchrun ... -m lrgi; docs/many-machines.md)")
    group.add_argument(
        "--timeout",
        type=number("--timeout", float),
        metavar="SECONDS",
        default=TIMEOUT_SECONDS,
        help=f"give the others up when nothing is heard of them for so long (default {TIMEOUT_SECONDS:g})",
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


def load_shared(path: str, world: World) -> Graph:
    """A graph, or of a graph in parts the one that is this process's."""
    if not is_partition(path):
        return load_graph(path)
    return open_part(path, world.rank, world.size, verify=True)


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
