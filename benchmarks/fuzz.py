"""Every reader of files is handed inputs that a coverage-guided fuzzer (atheris) makes of valid ones.

    make fuzz                                      # all readers, and the record results/reliability/fuzz.json
    python benchmarks/fuzz.py --reader npz --inputs 5000

The readers, valid inputs and mutations that know a format are tests/reference/readers.py. A reader may read
or refuse with a sentence of ours. Found wanting is: any other exception, an input that takes longer than
TIMEOUT, and memory beyond CONSTANT + MULTIPLE times the input (growth of the process's peak). Python code is
instrumented; what is compiled (DuckDB, PyArrow, safetensors) is fuzzed without seeing inside. The first
failure is printed with its traceback, its input is kept, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

INPUTS = 10_000  # of a reader that is fast; the others get a share
PROCESSES = 6
TIMEOUT = 60  # seconds for one input, on a machine that has other work to do
CONSTANT, MULTIPLE = 384 << 20, 64  # DuckDB alone may take 256 MiB here


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reader", action="append", help="only these")
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop then, and count what was done")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, metavar="RESULTS", help="keep a record in this folder")
    parser.add_argument("--stats", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stats:
        fuzz(given.reader, given.inputs, given.seed, given.stats, given.until)
        return
    from reference.readers import READERS

    begun = time.monotonic()
    names, until = given.reader or list(READERS), time.time() + 60 * given.minutes
    with ThreadPoolExecutor(PROCESSES) as pool:
        shares = [names[at::PROCESSES] for at in range(min(PROCESSES, len(names)))]
        several = list(
            pool.map(partial(in_own_process, inputs=given.inputs, seed=given.seed, until=until), shares)
        )
    rows = [row for found in several for row in found[:-1]]
    last = {"grown_mib": max(found[-1]["grown_mib"] for found in several)}
    for row in rows:
        print(json.dumps(row))
    print(f"{sum(row['inputs'] for row in rows):,} inputs, {len(rows)} readers, nothing found wanting")
    if given.record:
        measures = {"readers": rows, **last, "seconds": round(time.monotonic() - begun)}
        keep(given.record, measures, given.inputs, given.seed)


def in_own_process(names: list[str], inputs: int, seed: int, until: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        stats = Path(folder) / "stats.json"
        words = [sys.executable, str(Path(__file__).absolute()), "--inputs", str(inputs), "--seed", str(seed)]
        words += ["--until", str(until)]
        words += [word for name in names for word in ("--reader", name)]
        with (Path(folder) / "log").open("wb") as log:
            done = subprocess.run(
                [*words, "--stats", str(stats)], stdout=log, stderr=subprocess.STDOUT, cwd=folder
            )
        if not stats.exists():  # libFuzzer complains of the exit when all is done
            for kept in (*Path(folder).glob("crash-*"), *Path(folder).glob("timeout-*")):
                shutil.copy(kept, ROOT / f"{kept.name}.input")
            said = (Path(folder) / "log").read_text(errors="replace")
            print(said[-6000:], file=sys.stderr, flush=True)
            raise SystemExit(f"exit code {done.returncode} with {', '.join(names)}")
        rows: list[dict[str, Any]] = json.loads(stats.read_text())
        return rows


def fuzz(names: list[str], inputs: int, seed: int, stats: Path, until: float) -> None:
    """One fuzzer for all readers: an input's first byte says which. Ends the process when all had theirs."""
    import atheris

    package = ROOT / "src" / "lrgi"
    for path in (*package.rglob("_*kernels.py"), *package.glob("compute/*.py")):  # numba's, not to be touched
        import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
    with atheris.instrument_imports(include=["lrgi"]):
        from reference.readers import READERS, mutate_bytes, refused
    import torch

    torch.set_num_threads(1)
    corpus = Path("corpus").absolute()
    corpus.mkdir()
    folders, seeds, rows = [], [], []
    for at, name in enumerate(names):
        folders.append(Path(f"files-{at}").absolute())
        folders[at].mkdir()
        seeds.append(READERS[name].prepare(folders[at]))
        for number, data in enumerate(seeds[at]):
            (corpus / f"{at}-{number}").write_bytes(bytes([at]) + data)
            for _ in range(2):  # what is imported and compiled on the way is none of the inputs' memory
                refused(READERS[name], data, folders[at])
        wanted = round(inputs * READERS[name].share)
        rows.append({"reader": name, "inputs": 0, "refused": 0, "slowest_seconds": 0.0, "wanted": wanted})
    base, most = peak(), 4 * max(len(data) for kind in seeds for data in kind)
    left = list(range(len(names)))

    def one(data: bytes) -> None:
        at = data[0] if data else 0
        if at not in left:
            return
        row, begun = rows[at], time.monotonic()
        no = refused(READERS[names[at]], data[1:], folders[at])
        row["inputs"] += 1
        row["refused"] += no
        row["slowest_seconds"] = round(max(row["slowest_seconds"], time.monotonic() - begun), 3)
        if row["inputs"] % 500 == 0:
            print(row, flush=True)
        grown = peak() - base
        if grown > CONSTANT + MULTIPLE * len(data):
            raise MemoryError(f"{grown:,} bytes after an input of {len(data):,} for {names[at]}")
        if row["inputs"] == row["wanted"]:
            left.remove(at)
        if not left or time.time() > until:
            for row in rows:
                del row["wanted"]
            stats.write_text(json.dumps([*rows, {"grown_mib": round(grown / 2**20, 1)}]))
            os._exit(0)

    def mutated(data: bytes, longest: int, number: int) -> bytes:
        rng = random.Random(number)
        at = data[0] if data else 0
        if at not in left or rng.random() < 0.2:
            at = rng.choice(left)
            data = bytes([at]) + rng.choice(seeds[at])
        if rng.random() < 0.3:
            return bytes([at]) + bytes(atheris.Mutate(data[1:], longest - 1))
        change: Callable[[bytes, random.Random], bytes] = READERS[names[at]].mutate or mutate_bytes
        return bytes([at]) + change(data[1:], rng)[: longest - 1]

    flags = ["-runs=-1", f"-seed={seed}", f"-timeout={TIMEOUT}", f"-max_len={most}", "-rss_limit_mb=0"]
    atheris.Setup(
        [sys.argv[0], *flags, "-len_control=0", "-verbosity=0", str(corpus)], one, custom_mutator=mutated
    )
    atheris.Fuzz()


def peak() -> int:
    """Of resident memory, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def keep(results: Path, measures: dict[str, Any], inputs: int, seed: int) -> None:
    from importlib.metadata import version

    from lrgi.compute.machine import versions
    from lrgi.report.record import RunRecord, save_record

    settings = {
        "inputs": inputs, "seed": seed, "timeout_seconds": TIMEOUT, "constant_mib": CONSTANT >> 20,
        "multiple": MULTIPLE,
    }  # fmt: skip
    packages = ("atheris", "duckdb", "pyarrow", "safetensors")
    save_record(
        RunRecord(
            "table:reliability", "fuzz", settings,
            measures=measures,
            versions={**versions(), **{name: version(name) for name in packages}}, command="make fuzz",
        ),
        results,
    )  # fmt: skip


if __name__ == "__main__":
    main()
