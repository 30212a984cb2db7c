"""The part of `lrgi import` that reads a data set by name."""

from __future__ import annotations

import argparse
from pathlib import Path

from lrgi.cli.console import Console
from lrgi.graph.graph import Graph
from lrgi.interop.datasets.facts import NAMED
from lrgi.interop.datasets.read import read_dataset


def add_named_arguments(parser: argparse.ArgumentParser) -> None:
    """Where raw files lie."""
    group = parser.add_argument_group("a data set by name")
    group.add_argument(
        "--root",
        metavar="FOLDER",
        default="datasets",
        help="where raw files lie or are downloaded to, for NAME in place of FILE.npz: "
        f"{', '.join(NAMED)} (default datasets; docs/datasets.md)",
    )


def is_name(file: str) -> bool:
    """Whether this is the name of a data set, and not of a file that is there."""
    return file in NAMED and not Path(file).exists()


def import_named(arguments: argparse.Namespace, console: Console) -> Graph:
    """The graph of that name, with the split its publishers gave it."""
    about = NAMED[arguments.file]
    console.note(
        f"reading {arguments.file} through {about.library} from {Path(arguments.root) / about.folder}"
    )
    if about.pickled:
        console.note("its files are pickled: only take them from a source that you trust (docs/datasets.md)")
    return read_dataset(arguments.file, arguments.root)
