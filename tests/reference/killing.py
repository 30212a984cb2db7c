"""Runs that are killed at random moments until they are done, and what came of them."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lrgi.graph.store import save_graph
from reference.tiny import tiny_graph

SETTINGS = [
    "--width", "8", "--layers", "2", "--batch-size", "60", "--updates", "6", "--expansion", "2",
    "--no-probe", "--quiet",
]  # fmt: skip
DAWDLE = 0.002  # seconds of every operation of the disk
KINDS = ("npy", "parquet", "word2vec")
AIMS = (None, "training", "snapshot", "embedding", "export")  # None: any moment at all


class Victim:
    """The process of victim.py, asked over its pipes."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process

    def run(self, *words: object, **how: Any) -> dict[str, Any]:
        task = {"words": [str(word) for word in words], "threads": 1, **how}
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def victim() -> Iterator[Victim]:
    words = [sys.executable, str(Path(__file__).with_name("victim.py"))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Victim(process)
        finally:
            process.stdin.close()


class Torture:
    """One graph, the files of an uninterrupted run of it, and a count of the kills that others survived."""

    def __init__(
        self, process: Victim, folder: Path, seed: int, *, grow: bool, kinds: tuple[str, ...]
    ) -> None:
        self.victim, self.folder, self.random, self.grow, self.kinds = (
            process, folder, random.Random(seed), grow, kinds,
        )  # fmt: skip
        self.kills: Counter[str] = Counter()
        self.runs = 0
        save_graph(tiny_graph(), folder / "graph")
        self.whole = folder / "whole"
        self.usual: dict[str, dict[str, Any]] = {}
        for command in self.commands(self.whole, self.kinds):
            answer = process.run(*command, dawdle=DAWDLE)
            assert answer["code"] == 0, answer["said"]
            self.usual[command[0]] = answer

    def commands(self, place: Path, kinds: tuple[str, ...]) -> list[list[str]]:
        """What is done in a place; each goes on where it was killed."""
        run, graph = str(place / "run"), str(self.folder / "graph")
        found = [["fit", graph, "--out", run, *SETTINGS, "--snapshot-seconds", "0"]]
        if self.grow:
            found.append(["grow", run, "--layers", "3", "--snapshot-seconds", "0", "--quiet"])
        return found + [
            ["embed", run, graph, "--out", str(place / kind), "--layers", "all", "--format", kind,
             "--shard-rows", "50", "--quiet"] for kind in kinds
        ]  # fmt: skip

    def survive(self, kills: int, threads: int) -> None:
        """Kill that often; every run that was hit must end with the bits of the one that was not."""
        until = self.kills.total() + kills
        while self.kills.total() < until:
            self.runs += 1
            place = self.folder / f"run-{self.runs}"
            for command in self.commands(place, self.kinds[self.runs % len(self.kinds) :][:1]):
                for left in range(12, -1, -1):
                    aim = self._aim(command[0]) if left and self.kills.total() < until else {}
                    answer = self.victim.run(*command, threads=threads, dawdle=DAWDLE, **aim)
                    if not answer["killed"]:
                        break
                    self.kills[answer["phase"]] += 1
                assert answer["code"] == 0, (command, answer)
            self.check(place)

    def _aim(self, command: str) -> dict[str, Any]:
        """A moment to kill at: any, or within some phase of what the command usually does."""
        usual = self.usual[command]
        phases = [aim for aim in AIMS if aim is None or usual["entered"][aim]]
        phase = self.random.choice(phases)
        if phase is None:
            return {"after": self.random.random() * usual["seconds"]}
        times = self.random.randint(1, usual["entered"][phase])
        return {"phase": [phase, times], "after": self.random.random() * 0.03}

    def check(self, place: Path) -> None:
        """Every bit that decides something is that of the uninterrupted run."""
        for made in sorted(place.rglob("*")):
            name = made.relative_to(place)
            whole = self.whole / name
            if made.suffix in (".npy", ".parquet", ".txt", ".safetensors"):
                assert made.name == "table.txt" or made.read_bytes() == whole.read_bytes(), name
        assert steps_of(place) == steps_of(self.whole), place
        answer = self.victim.run("verify", place / "run")
        assert answer["code"] == 0, answer["said"]


def steps_of(place: Path) -> list[dict[str, Any]]:
    """What every step said, but for its seconds."""
    lines = map(json.loads, (place / "run" / "steps.jsonl").read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
