"""Bytes that change and files that are cut, one after the other, in every kind of directory.

For each: `lrgi verify` ends with code 2 and names the file, and no command says another result than it did
on the whole directory: it refuses with a sentence, or its result is the same.
"""

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.training.journal import Listener
from lrgi.training.resources import Resources
from lrgi.training.run import fit_run
from reference.faults import SETTINGS, Workshop, called, is_one_sentence
from reference.kills import GRAPH, PLAN

TIMES = (  # and a checksum of the manifest, which may lose its seal and still be right
    "source",
    "seconds",
    "started",
    "finished",
    "fit_seconds",
    "embed_seconds",
    "at",
    "run",
    "path",
    "command",
)


EVERY = 8  # commands are run after one damage in so many


class Museum:
    """One directory of every kind, and the commands that read it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop").mkdir()
        shop = Workshop(folder / "shop", ("import tables", "embed", "embed parquet", "embed word2vec"))
        self.tables = shop.whole / "tables"
        run, graph = shop.given / "run", shop.given / "graph"
        _must("fit", str(self.tables), "--out", str(folder / "named"), *SETTINGS)
        self.unfinished = folder / "unfinished"
        _break_off(self.unfinished)
        # one thread: an index that several make is another one each time
        index = ["--id", "0", "--search", "index", "--threads", "1", "--quiet"]
        _must("neighbors", str(shop.whole / "npy"), *index)
        out = str(folder / "out")
        embed = ["--out", out, "--format", "npy", "--quiet", "--json"]
        self.commands: dict[Path, list[list[str]]] = {
            graph: [
                ["embed", str(run), str(graph), *embed],
                ["probe", str(run), str(graph), "--epochs", "5", "--json"],
                ["fit", str(graph), "--out", out, *SETTINGS, "--json"], ["info", str(graph), "--json"],
            ],
            self.tables: [
                ["embed", str(folder / "named"), str(self.tables), *embed],
                ["neighbors", str(folder / "named"), "--id", "n1", "--quiet", "--json"],
            ],
            run: [
                ["embed", str(run), str(graph), *embed], ["info", str(run), "--json"],
                ["fit", str(graph), "--out", str(run), *SETTINGS, "--json"],
            ],
            shop.whole / "npy": [["neighbors", str(shop.whole / "npy"), *index, "--json"]],
            shop.whole / "parquet": [
                ["neighbors", str(shop.whole / "parquet"), "--id", "3", "--json", "--quiet"]
            ],
            shop.whole / "word2vec": [["info", str(shop.whole / "word2vec"), "--json"]],
            self.unfinished: [],
        }  # fmt: skip
        self.expected = {
            tuple(words): self.result(words) for several in self.commands.values() for words in several
        }

    def result(self, words: list[str]) -> Any:
        """Exit code and what was said, without what time changes; of an embedding its bytes too."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        code, said, printed = _called(words)
        if code:
            assert is_one_sentence(code, said), (words, code, said)
            return None
        made = [p.read_bytes() for p in sorted(out.rglob("*")) if p.suffix in (".npy", ".safetensors")]
        return _timeless(json.loads(printed)), made

    def check(self, directory: Path, file: Path, damaged: bytes, *, commands: bool) -> None:
        """One damage, verified, used, and undone."""
        good = file.read_bytes()
        others = _files_of(directory) if commands else {}
        try:
            file.write_bytes(damaged)
            code, said = called(["verify", str(directory)])
            assert code == 2, (file, "verify finds nothing", said)
            assert file.name in said and "Traceback" not in said, (file, said)
            for words in self.commands[directory] if commands else ():
                found = self.result(words)
                assert found is None or found == self.expected[tuple(words)], (file, words)
        finally:
            for path, data in others.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            file.write_bytes(good)

    def resume(self, file: Path, damaged: bytes, whole: bytes) -> None:
        """An unfinished run goes on from what is left of it, or says why not; never to another end."""
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.unfinished, copy)
        (copy / file.relative_to(self.unfinished)).write_bytes(damaged)
        try:
            run = fit_run(GRAPH, PLAN, copy)
        except Exception as error:
            assert is_one_sentence(2, f"lrgi: error: {error}"), (file, error)
            return
        assert run.encoder.embed(GRAPH).array.tobytes() == whole, file


def damages(data: bytes, rng: random.Random, most: int) -> Iterator[bytes]:
    """A bit flipped at every byte, or at `most` of them; and the file cut at as many places."""
    places = range(len(data)) if len(data) <= most else sorted(rng.sample(range(len(data)), most))
    for at in places:
        yield data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        if at % 4 == 0 or len(places) < 20:
            yield data[:at]


def exhibit(museum: Museum, positions: int, *, every: int, seed: int = 0) -> dict[str, Counter[str]]:
    """Damage all files of all directories; commands are run on one in `every`. Counts by directory."""
    rng, found = random.Random(seed), dict[str, Counter[str]]()
    whole = fit_run(GRAPH, PLAN, museum.folder / "reference").encoder.embed(GRAPH).array.tobytes()
    for directory in museum.commands:
        count = found[directory.name] = Counter()
        for file in sorted(p for p in directory.rglob("*") if p.is_file()):
            count["files"] += 1
            for at, damaged in enumerate(damages(file.read_bytes(), rng, positions)):
                used = at % every == 0
                museum.check(directory, file, damaged, commands=used)
                if used and directory == museum.unfinished:
                    museum.resume(file, damaged, whole)
                count["damages"] += 1
                count["commands"] += used * max(1, len(museum.commands[directory]))
    return found


class _Asks(Listener):
    def step_taken(self, record: Any) -> None:
        import os
        import signal

        if record.place.layer == 2 and record.place.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def _break_off(place: Path) -> None:
    """A run that was asked to end in its second layer: everything it left behind is claimed by its state."""
    try:
        fit_run(GRAPH, PLAN, place, listeners=[_Asks()], resources=Resources(snapshot_seconds=0.0))
    except KeyboardInterrupt:
        return
    raise AssertionError("the run was not broken off")


def _must(*words: str) -> None:
    code, said = called(list(words))
    assert code == 0, said


def _called(words: list[str]) -> tuple[int, str, str]:
    import io
    from contextlib import redirect_stderr, redirect_stdout

    from lrgi.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return code, err.getvalue(), out.getvalue()


def _files_of(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if key not in TIMES}
    if isinstance(value, list):
        return [_timeless(entry) for entry in value]
    return round(value, 9) if isinstance(value, float) and np.isfinite(value) else value
