"""Commands on a disk that is full, read-only or failing, and under clocks that jump: what is left afterwards.

Whatever fails: one sentence, exit code 2, what was complete before is whole, and the same command on a sound
disk gives the files of one that never failed.
"""

import errno
import io
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.cli.main import main
from reference import disk
from reference.tiny import npz_arrays, tiny_graph

SETTINGS = ["--width", "8", "--layers", "2", "--batch-size", "60", "--updates", "2", "--expansion", "2",
            "--no-probe", "--snapshot-seconds", "0", "--quiet"]  # fmt: skip
COMMANDS = ("import", "import tables", "fit", "grow", "embed", "embed parquet", "embed word2vec")
FAULTS = {
    "full disk": (errno.ENOSPC, False),
    "I/O error": (errno.EIO, True),
    "read-only": (errno.EROFS, False),
}


def called(words: list[str]) -> tuple[int, str]:
    """Exit code and what was said on the error stream."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return code, err.getvalue()


def is_one_sentence(code: int, said: str) -> bool:
    last = said.strip().splitlines()[-1] if said.strip() else ""
    good = last.startswith("lrgi: error: ") and " must " in last and ", got " in last and "; " in last
    return code == 2 and good and "Traceback" not in said


class Workshop:
    """What commands need, and what each of them makes when nothing fails."""

    def __init__(self, folder: Path, commands: tuple[str, ...] = COMMANDS) -> None:
        self.given, self.whole = folder / "given", folder / "whole"
        self.given.mkdir()
        self.commands = commands
        arrays = npz_arrays(tiny_graph())
        np.savez(self.given / "graph.npz", **arrays)
        edges = [f"n{a},n{b}" for a, b in arrays["edge_index"].T.tolist()]
        (self.given / "edges.csv").write_text("src,dst\n" + "\n".join(edges) + "\n")
        nodes = [f"n{i},{x[0]:.3f},{'ab'[i % 2]}" for i, x in enumerate(arrays["x"])]
        (self.given / "nodes.csv").write_text("id,x,kind\n" + "\n".join(nodes) + "\n")
        self._must("import", str(self.given / "graph.npz"), "--out", str(self.given / "graph"), "--quiet")
        graph, run = str(self.given / "graph"), str(self.given / "run")
        self._must("fit", graph, "--out", run, *SETTINGS)
        self.whole.mkdir()
        for command in commands:
            self.prepare(command, self.whole)
            self._must(*self.words(command, self.whole))

    def _must(self, *words: str) -> None:
        code, said = called(list(words))
        assert code == 0, said

    def words(self, command: str, place: Path) -> list[str]:
        graph, run = str(self.given / "graph"), str(self.given / "run")
        tables = ["--edges", str(self.given / "edges.csv"), "--nodes", str(self.given / "nodes.csv")]
        kind = command.partition(" ")[2] or "npy"
        return {
            "import": ["import", str(self.given / "graph.npz"), "--out", str(place / "graph"), "--quiet"],
            "import tables": ["import", *tables, "--out", str(place / "tables"), "--quiet"],
            "fit": ["fit", graph, "--out", str(place / "run"), *SETTINGS],
            "grow": ["grow", str(place / "grown"), "--layers", "3", "--snapshot-seconds", "0", "--quiet"],
        }.get(command) or [
            "embed", run, graph, "--out", str(place / kind), "--format", kind, "--shard-rows", "50",
            "--quiet",
        ]  # fmt: skip

    def prepare(self, command: str, place: Path) -> None:
        if command == "grow" and not (place / "grown").exists():
            shutil.copytree(self.given / "run", place / "grown")

    def operations(self, command: str, place: Path) -> int:
        """How many operations of the disk a command takes."""
        self.prepare(command, place)
        with disk.on(disk.Disk()) as counted:
            self._must(*self.words(command, place))
        shutil.rmtree(place)
        return counted.count

    def fails_and_recovers(self, command: str, place: Path, fault: str, at: int) -> bool:
        """Fail from operation `at` on (or there alone); returns whether the command noticed."""
        code, once = FAULTS[fault]
        place.mkdir(exist_ok=True)
        self.prepare(command, place)
        with disk.on(disk.Disk(at, code, once=once)):
            exit_code, said = called(self.words(command, place))
        assert exit_code == 0 or is_one_sentence(exit_code, said), (command, fault, at, exit_code, said)
        self.recovers(command, place)
        shutil.rmtree(place)
        return exit_code != 0

    def recovers(self, command: str, place: Path) -> None:
        """What was complete is whole; the same command again makes the rest."""
        before = [self.given / "graph", self.given / "run"]
        if command == "grow":
            before.append(place / "grown")
        for path in before:
            code, said = called(["verify", str(path)])
            settled = "must be settled" in said or (path / "grown").exists()  # its own files, changing places
            assert code == 0 or settled, (command, path, said)
        code, said = called(self.words(command, place))
        holds = "which holds" in said or "must be more than" in said  # it was complete all the same
        assert code == 0 or holds, (command, said)
        self.check(command, place)

    def check(self, command: str, place: Path) -> None:
        for name in files_of(command):
            folder = self.whole / name
            for whole in folder.rglob("*"):
                if whole.suffix in (".npy", ".parquet", ".txt", ".safetensors") and whole.name != "table.txt":
                    made = place / whole.relative_to(self.whole)
                    assert made.read_bytes() == whole.read_bytes(), (command, made)
            left = {p.name for p in (place / name).iterdir()} - {p.name for p in folder.iterdir()}
            assert not {n for n in left if not n.startswith("events.out")}, (command, left)


def read_only(shop: Workshop, place: Path) -> int | None:
    """Every command that makes something, in a folder that is mounted read-only; None where it may not be."""
    with small_disk(place, 64 << 20) as mounted:
        if not mounted:
            return None
        shop.prepare("grow", place)
        remounted(place, "ro")
        for command in shop.commands:
            code, said = called(shop.words(command, place))
            assert is_one_sentence(code, said) and "must be writable" in said, (command, said)
        return len(shop.commands)


def files_of(command: str) -> list[str]:
    """The directories that a command makes in its place."""
    named = {"import": "graph", "import tables": "tables", "fit": "run", "grow": "grown", "embed": "npy"}
    return [named.get(command) or command.partition(" ")[2]]


def inject(shop: Workshop, folder: Path, each: int, seed: int = 0) -> Counter[str]:
    """Every fault at `each` operations of every command (0: at all of them); counts of what was noticed."""
    rng, found = random.Random(seed), Counter[str]()
    for command in shop.commands:
        total = shop.operations(command, _made(folder / "count"))
        for fault in FAULTS:
            places = range(total) if not each or each >= total else sorted(rng.sample(range(total), each))
            for at in places:
                found[f"{command}: {fault}"] += 1
                found["noticed"] += shop.fails_and_recovers(command, folder / "try", fault, at)
                found["injected"] += 1
    return found


@contextmanager
def jumping_clocks(seed: int = 0) -> Iterator[None]:
    """Clocks that jump by days, back and forth, at every look."""
    rng, kept = (
        random.Random(seed),
        {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")},
    )

    def jumping(name: str) -> Any:
        return lambda: kept[name]() + rng.choice((-1, 1)) * rng.random() * 1e6 + 2e6

    try:
        for name in kept:
            setattr(time, name, jumping(name))
        yield
    finally:
        for name, clock in kept.items():
            setattr(time, name, clock)


def jump(shop: Workshop, place: Path) -> int:
    """Every command under such clocks, twice where it can go on; returns how many."""
    for command in shop.commands:
        place.mkdir(exist_ok=True)
        shop.prepare(command, place)
        with jumping_clocks():
            code, said = called(shop.words(command, place))
        assert code == 0, (command, said)
        shop.check(command, place)
    return len(shop.commands)


def small_disks(shop: Workshop, place: Path, sizes: int) -> dict[str, int]:
    """Every command on a tmpfs of growing size until it fits, and after each failure on one that suffices.

    Nothing where this process may not mount one.
    """
    tried = dict.fromkeys(shop.commands, 0)
    for command in shop.commands:
        for at in range(sizes):
            with small_disk(place, 16384 + 32768 * at * at) as mounted:
                if not mounted:
                    return {}
                try:
                    shop.prepare(command, place)
                except OSError:  # not even what is given has room
                    continue
                code, said = called(shop.words(command, place))
                assert code == 0 or is_one_sentence(code, said), (command, at, said)
                remounted(place, "size=64m")
                shop.recovers(command, place)
                tried[command] += 1
                if code == 0:
                    break
    return tried


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[bool]:
    """A tmpfs of so many bytes at `place`; False where this process may not mount one."""
    place.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, check=False
    )
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(place)], check=True)


def remounted(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def _made(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    return place
