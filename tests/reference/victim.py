"""A process that runs `lrgi` in a child for every line of its stdin, and may kill it.

A line is JSON: `words` of the command line, `threads`, `dawdle` (seconds that every operation of the disk
takes, in two halves), `after` (seconds until SIGKILL, or null) and `phase` (count them from the n-th time
that this phase is entered, else from the start). The answer says how the child ended and in which phase.
Started by `killing.py`; a child is a fork, so that no kill is spent on the import of torch.
"""

import io
import json
import mmap
import os
import signal
import sys
import tempfile
import time
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import lrgi.encoder
from lrgi.cli.main import COMMANDS, main
from lrgi.graph import sinks
from lrgi.interop.export_work import Work
from lrgi.training.checkpoint import Checkpoint
from lrgi.training.writer import RunWriter
from reference import disk

PHASES = ("elsewhere", "training", "embedding", "snapshot", "export")
SHARED = mmap.mmap(-1, 1 + 4 * len(PHASES))  # the phase now, and how often each was entered

lrgi.encoder.CHUNK_EDGES = 400  # several chunks of a tiny graph
sinks._MARK_SECONDS = 0.0


def enter(phase: str) -> int:
    """Go into a phase; returns the one before."""
    before, at = SHARED[0], PHASES.index(phase)
    count = slice(1 + 4 * at, 5 + 4 * at)
    SHARED[count] = (int.from_bytes(SHARED[count], "little") + 1).to_bytes(4, "little")
    SHARED[0] = at
    return before


def entered(phase: str) -> int:
    at = PHASES.index(phase)
    return int.from_bytes(SHARED[1 + 4 * at : 5 + 4 * at], "little")


def watch() -> None:
    """Say in which phase this process is, wherever a command goes."""

    def within(owner: type, name: str, phase: str) -> None:
        inner = getattr(owner, name)

        def wrapped(*given, **named):
            before = enter(phase)
            try:
                return inner(*given, **named)
            finally:
                SHARED[0] = before

        setattr(owner, name, wrapped)

    within(Checkpoint, "_save", "snapshot")
    within(sinks.FileSink, "write", "embedding")
    within(Work, "mark", "export")
    started, fitted = RunWriter.layer_started, RunWriter.layer_fitted
    RunWriter.layer_started = lambda *given: (enter("training"), started(*given))[1]
    RunWriter.layer_fitted = lambda *given: (enter("elsewhere"), fitted(*given))[1]


for name in COMMANDS:
    import_module(f"lrgi.cli.{name}_command")  # before the first fork, and as the source is now


def child(task: dict, log: int) -> int:
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(task["threads"])
    watch()
    with disk.on(disk.Disk(dawdle=task.get("dawdle", 0.0))):
        return main(task["words"])


def run(task: dict) -> dict:
    """Fork, wait, kill if told to."""
    SHARED[:] = bytes(len(SHARED))
    log = tempfile.TemporaryFile()  # noqa: SIM115 - the child's, too
    begun, pid = time.monotonic(), os.fork()
    if pid == 0:
        code = 70
        try:
            code = child(task, log.fileno())
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    phase, times = task.get("phase") or ("elsewhere", 0)
    counted = begun if times == 0 else None
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        now = time.monotonic()
        if counted is None and entered(phase) >= times:
            counted = now
        if task.get("after") is not None and counted is not None and now - counted >= task["after"]:
            os.kill(pid, task.get("signal", signal.SIGKILL))
            _, status = os.waitpid(pid, 0)
            break
        time.sleep(0.0003)
    log.seek(0)
    return {
        "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        "phase": PHASES[SHARED[0]],
        "entered": {name: entered(name) for name in PHASES},
        "seconds": time.monotonic() - begun,
        "said": log.read().decode(errors="replace")[-4000:],
    }


def warm_up() -> None:
    """Load every kernel before the first fork. With one thread, none is started here."""
    from lrgi.graph.store import save_graph
    from reference.tiny import tiny_graph

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        save_graph(tiny_graph(), f"{folder}/g")
        settings = [
            "--width",
            "8",
            "--updates",
            "1",
            "--layers",
            "2",
            "--no-probe",
            "--quiet",
            "--threads",
            "1",
        ]
        assert main(["fit", f"{folder}/g", "--out", f"{folder}/r", *settings]) == 0
        assert main(["embed", f"{folder}/r", f"{folder}/g", "--out", f"{folder}/e", "--quiet"]) == 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    warm_up()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
