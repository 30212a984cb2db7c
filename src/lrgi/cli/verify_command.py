"""`lrgi verify`: whether something on disk is as it was written."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import examples
from lrgi.encoder import CONFIG, verify_encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.store import verify_graph
from lrgi.interop.export_work import PROGRESS, problems_of_work
from lrgi.nearest.kept import NEIGHBORS
from lrgi.outputs import MANIFEST, is_embedding_directory, verify_embedding
from lrgi.training.run import is_run_directory
from lrgi.training.verify import problems_of_run
from lrgi.update.tables import problems_of_tables

DESCRIPTION = """Read every byte of a graph, run, encoder or embedding directory: checksums,
shapes, types, versions, and that all that is referred to is there. Nothing is changed.

Every damaged file is named, and the exit code is 2. Of an unfinished run the state
that it would go on from is read; damage there costs time, never the result.
"""
EXAMPLE = examples("""
    lrgi verify runs/mine
    lrgi verify mine --json
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The path."""
    parser.add_argument("path", metavar="PATH", help="a graph, run, encoder or embedding directory")


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Read all of it; FormatError that names what is damaged."""
    path = Path(arguments.path)
    kind, problems = _problems(path)
    if problems:
        for problem in problems[:-1]:
            console.note(f"damaged: {problem}")
        if len(problems) == 1:
            raise FormatError(problems[0])
        raise FormatError(
            f"{path} must be as it was written, got {len(problems)} problems, the last one: {problems[-1]}"
        )
    article = "an" if kind[0] == "e" else "a"
    console.say(f"{path} is {article} {kind}, and every byte of it is as it was written.")
    return {"command": "verify", "path": str(path), "kind": kind, "whole": True}


def _problems(path: Path) -> tuple[str, list[str]]:
    if not path.exists():
        raise FormatError(f"a path to verify must exist, got {path}, which does not; check it")
    if is_run_directory(path) or (path / "run.json").exists():
        problems = [*problems_of_run(path), *problems_of_tables(path)]
        for name, verify in (("graph", verify_graph), (NEIGHBORS, verify_embedding)):
            if (path / name / MANIFEST).is_file():
                problems += _of(verify, path / name)
        return "run", problems
    if is_embedding_directory(path):
        return "embedding", _of(verify_embedding, path)
    if (path / PROGRESS).is_file():
        return "unfinished embedding", list(problems_of_work(path))
    if (path / CONFIG).is_file():
        return "encoder", _of(verify_encoder, path)
    if (path / "manifest.json").is_file():
        return "graph", _of(verify_graph, path)
    raise FormatError(
        f"a path to verify must be a graph, run, encoder or embedding directory, got {path}, which is none "
        "of them; name one"
    )


def _of(verify: Callable[[Path], None], path: Path) -> list[str]:
    try:
        verify(path)
    except InputError as error:
        return [str(error)]
    return []
