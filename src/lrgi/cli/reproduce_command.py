"""`lrgi reproduce`: a table or figure of the paper, or of our own, by name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lrgi.cli.console import Console
from lrgi.cli.flags import UsageError, examples, number
from lrgi.directory import write_file
from lrgi.errors import InputError
from lrgi.experiments.pages import all_blocks, with_blocks
from lrgi.experiments.registry import REPRODUCTIONS, Request, reproduction
from lrgi.report.tables import pairs

DESCRIPTION = """Make a table or figure again: run what can run, keep a record of every cell, print the
table beside the published one, and say which cells are missing and why.

A cell whose record was made with the same settings is not run again, so an interrupted
command goes on where it stopped. Settings are TOML files in lrgi/experiments.
"""
EXAMPLE = examples("""
    lrgi reproduce --list
    lrgi reproduce table:real-graphs --data ../shared/data --budget 60
    lrgi reproduce table:real-graphs --data-set cora,citeseer --method lrgi --device cuda --jobs 8
    lrgi reproduce --pages docs/results.md
""")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment, which cells of it, and what they may cost."""
    parser.add_argument("experiment", metavar="NAME", nargs="?", help="such as table:results (see --list)")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument(
        "--pages", metavar="FILE", help="only write the tables of all records into this page, and run nothing"
    )
    group = parser.add_argument_group("which cells")
    group.add_argument("--data-set", metavar="NAME,...", default="", help="only these graphs")
    group.add_argument("--method", metavar="NAME,...", default="", help="only these rows")
    group.add_argument("--seeds", metavar="N,N,...", default="", help="other seeds than the experiment's")
    group.add_argument("--again", action="store_true", help="run cells that are on record too")
    group = parser.add_argument_group("places and cost")
    group.add_argument("--data", metavar="FOLDER", default="data", help="where graphs lie (default data)")
    group.add_argument(
        "--results", metavar="FOLDER", default="results", help="where records lie (default results)"
    )
    group.add_argument("--budget", metavar="MINUTES", type=number("--budget", float), help="stop after these")
    group.add_argument("--device", metavar="NAME", default="cpu", help="cpu (default), cuda, ...")
    group.add_argument(
        "--jobs", metavar="N", type=number("--jobs", int, 1), default=1, help="processes at once (default 1)"
    )


def run(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """List, write pages, or reproduce one experiment."""
    if arguments.list:
        console.say(pairs([(name, entry.summary) for name, entry in REPRODUCTIONS.items()], indent=0))
        return {"command": "reproduce", "experiments": {n: e.summary for n, e in REPRODUCTIONS.items()}}
    if arguments.pages is not None:
        return write_pages(Path(arguments.pages), Path(arguments.results), console)
    if arguments.experiment is None:
        raise UsageError("an experiment must be named, got none; see `lrgi reproduce --list`")
    module = reproduction(arguments.experiment)
    outcome = module.reproduce(request_from(arguments, console))
    console.say(outcome.text)
    if outcome.missing:
        console.say("\nMissing:\n" + pairs(list(outcome.missing.items())))
    return {
        "command": "reproduce",
        "experiment": arguments.experiment,
        "table": outcome.json,
        "missing": outcome.missing,
    }


def write_pages(page: Path, results: Path, console: Console) -> dict[str, Any]:
    """Put the tables of all records into a page, where they differ from what is there."""
    if not page.is_file():
        raise InputError(f"the page must exist, got {page}, which does not; check the path")
    before = page.read_text(encoding="utf-8")
    after = with_blocks(before, all_blocks(results, page.name))
    if after != before:
        write_file(page, after)
    console.say(f"{page} {'was written again' if after != before else 'agrees with the records'}.")
    return {"command": "reproduce", "page": str(page), "changed": after != before}


def request_from(arguments: argparse.Namespace, console: Console) -> Request:
    """What the flags say."""
    return Request(
        data=Path(arguments.data),
        results=Path(arguments.results),
        data_sets=_words(arguments.data_set),
        methods=_words(arguments.method),
        seeds=tuple(number("--seeds", int)(word) for word in _words(arguments.seeds)),
        budget_minutes=arguments.budget,
        device=arguments.device,
        jobs=arguments.jobs,
        again=arguments.again,
        command=" ".join(["lrgi", *sys.argv[1:]]),
        tell=console.note,
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)
