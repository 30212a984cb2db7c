"""The command `lrgi`: finds the command, runs it, and turns a user's mistake into one sentence."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from lrgi import __version__
from lrgi.cli.flags import UsageError, number
from lrgi.errors import LRGIError

# The commands in the order in which a newcomer meets them. Each is a module of this room with SUMMARY,
# add_arguments(parser) and run(arguments, console); it is imported when it is the one asked for, since
# torch takes seconds to import and `lrgi --help` should not.
COMMANDS = {
    "demo": "fit an encoder on a generated graph and print one table: start here",
    "import": "turn tables, or a .npz file of arrays, into a graph directory",
    "generate": "make a graph from a seed, of ogbn-products' size for one",
    "plan": "say what a fit will need: memory, disk, seconds",
    "fit": "fit an encoder on a graph, layer by layer, into a run directory",
    "partition": "cut a graph into parts, for machines that cannot hold all of it",
    "grow": "add layers to a finished run, without fitting the others again",
    "embed": "write the embeddings of a graph's nodes, from a run",
    "update": "add nodes and edges to a run's graph, and embed only what they touch",
    "neighbors": "list the nodes nearest to a node, with what your table knows of them",
    "probe": "score a run's embeddings of a graph with a linear classifier",
    "reproduce": "make a table or figure of the paper again, as far as the data is there",
    "verify": "read every byte of a graph, run, encoder or embedding and say whether it is as it was written",
    "info": "say what a graph, run, encoder or embedding on disk is",
}
_EPILOG = """on your own graph:
  lrgi import --edges e.csv --nodes n.csv --out mine    tables to a graph directory
  lrgi fit mine --out runs/mine                         fit an encoder; ends with a table
  lrgi embed runs/mine mine --out emb                   your ids and a vector for each
  lrgi neighbors runs/mine --id ada                     the nodes most like one of them

`lrgi COMMAND --help` says what a command takes. Everything can be called from Python too: see README.md.
"""
_MISTAKE, _PIPE_CLOSED = 2, 141


class Parser(argparse.ArgumentParser):
    """Raises what argparse would print, so that every mistake is told in one way."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code: 0, 2 for a user's mistake, 130 or 143 when interrupted."""
    # A waiting OpenMP thread must sleep, not spin: beside a busy neighbour spinning slows all tenfold.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # an unreachable process is one sentence of ours
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        return _dispatch(words)
    except KeyboardInterrupt as stop:
        if debug:
            raise
        return _complain(str(stop) or "interrupted", 128 + getattr(stop, "signal", 2), prefix="")
    except BrokenPipeError:  # `lrgi info graph | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except (LRGIError, OSError) as error:
        if debug:
            raise
        return _complain(_sentence(error), _MISTAKE)


def _dispatch(words: list[str]) -> int:
    command = next((word for word in words if not word.startswith("-")), None)
    parser = _parser(command)
    if not words:
        parser.print_help()
        return 0
    if command is not None and command not in COMMANDS:
        raise UsageError(
            f"a command must be one of {', '.join(COMMANDS)}, got {command!r}; see `lrgi --help`"
        )
    arguments, unknown = parser.parse_known_args(words)
    if command is None:
        parser.error(f"a command must be one of {', '.join(COMMANDS)}, got none")
    if unknown:
        raise UsageError(
            f"arguments must be ones that `lrgi {command}` takes, got {unknown[0]!r}; "
            f"see `lrgi {command} --help`"
        )
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    import torch

    from lrgi.cli.console import Console

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    console = Console(json=arguments.json, quiet=arguments.quiet)
    result: dict[str, Any] = import_module(_module(arguments.command)).run(arguments, console)
    console.result(result)
    sys.stdout.flush()
    return 0


def _parser(command: str | None) -> Parser:
    """The parser of all commands, of which only the one asked for knows its flags."""
    parser = Parser(
        prog="lrgi",
        description="Node embeddings for big graphs, without labels, fitted one layer at a time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lrgi {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            module = import_module(_module(name))
            sub.description, sub.epilog = module.DESCRIPTION, module.EXAMPLE
            module.add_arguments(sub)
            _add_output(sub)
    return parser


def _module(command: str) -> str:
    return f"lrgi.cli.{command}_command"


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output and machine")
    group.add_argument("--json", action="store_true", help="print exactly one JSON object (docs/json.md)")
    group.add_argument("--quiet", action="store_true", help="no progress on the error stream")
    group.add_argument(
        "--threads",
        type=number("--threads", int, 1),
        metavar="N",
        help="threads to use (default: what torch finds)",
    )
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


_ROOM = "free some and give the same command again"
_REFUSED = {  # what a system says -> what must be, and what to do
    errno.ENOSPC: ("the disk must have room, got none left", _ROOM),
    errno.EDQUOT: ("the quota must have room, got none left", _ROOM),
    errno.EROFS: ("the folder must be writable, got a read-only one", "choose another path"),
    errno.EACCES: (
        "the path must be open to this user, got no right",
        "change its rights, or choose another",
    ),
    errno.EIO: (
        "the disk must be sound, got an input/output error",
        "look at it, then give the command again",
    ),
}


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        said = str(error).lower()  # PyArrow's have the number in their text only
        number = next((n for n in _REFUSED if n == error.errno or os.strerror(n).lower() in said), None)
        where = f" {error.filename}" if error.filename else ""
        if number is not None:
            what, remedy = _REFUSED[number]
            return f"{what}{f' at{where}' if where else ''}; {remedy}: what was complete is kept"
    if isinstance(error, OSError) and error.strerror:
        return f"the system refused{where}: {error.strerror}; check the path, its rights and the space left"
    return " ".join(str(error).split())


def _complain(sentence: str, code: int, prefix: str = "error: ") -> int:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)  # a bar may be standing there
    print(f"lrgi: {prefix}{sentence}", file=sys.stderr, flush=True)
    return code
