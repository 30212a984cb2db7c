"""Kills, faults and damage in numbers: the long form of tests/training/test_killed.py and its neighbours.

    make torture                                   # all of it, with records in results/reliability
    python benchmarks/torture.py kills --kills 50 --record results

kills    SIGKILL at random moments of fit, grow and embed, with 1 and with 2 threads: same bits every time
faults   a full disk, an I/O error, a read-only folder at operations of the disk, a tmpfs that is full, clocks
         that jump: one sentence, nothing lost, and the same command again gives the same files
damage   bytes flipped and files cut in graph, run and export directories: `lrgi verify` names the file, no
         command gives another result without a word
The first thing that is wrong ends it with a traceback and exit code 1; nothing is counted as survived then.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

SEED = 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[[], *PARTS], help="default: all")
    parser.add_argument("--kills", type=int, default=50, help="with each number of threads")
    parser.add_argument("--each", type=int, default=0, help="operations to fail in each command; 0: all")
    parser.add_argument("--disks", type=int, default=8, help="sizes of a disk that is too small")
    parser.add_argument("--positions", type=int, default=200, help="bytes to damage in each file, at most")
    parser.add_argument("--record", type=Path, metavar="RESULTS", help="keep records in this folder")
    given = parser.parse_args()
    for what in given.what or PARTS:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            settings, measures = PARTS[what](given, Path(folder))
        measures["seconds"] = round(time.monotonic() - begun)
        print(what, settings, measures, flush=True)
        if given.record:
            keep(given.record, what, {**settings, "seed": SEED}, measures)


def kills(given: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from reference.killing import DAWDLE, KINDS, Torture, victim

    rows = []
    with victim() as process:
        torture = Torture(process, folder, SEED, grow=True, kinds=KINDS)
        for threads in (1, 2):
            torture.kills.clear()
            runs = torture.runs
            torture.survive(given.kills, threads)
            survived = dict(sorted(torture.kills.items()))
            rows.append({"threads": threads, "runs": torture.runs - runs, "kills": survived})
            print(rows[-1], flush=True)
    return {"kills": given.kills, "dawdle_seconds": DAWDLE}, {"rows": rows}


def faults(given: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from reference.faults import FAULTS, Workshop, inject, jump, small_disks

    shop = Workshop(folder)
    counts = inject(shop, folder, given.each, SEED)
    rows = {command: {fault: counts[f"{command}: {fault}"] for fault in FAULTS} for command in shop.commands}
    for command, times in small_disks(shop, folder / "small", given.disks).items():
        rows[command]["small tmpfs"] = times
    jump(shop, folder / "jump")
    for row in rows.values():
        row["clocks"] = 1
    measures = {"rows": rows, "faults": [*FAULTS, "small tmpfs", "clocks"], "noticed": counts["noticed"]}
    return {"each": given.each, "disks": given.disks}, measures


def damage(given: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from reference.damage import EVERY, Museum, exhibit

    rows = {name: dict(row) for name, row in exhibit(Museum(folder), given.positions, every=EVERY).items()}
    return {"positions": given.positions, "used_every": EVERY}, {"rows": rows}


PARTS: dict[str, Callable[[argparse.Namespace, Path], tuple[dict[str, Any], dict[str, Any]]]] = {
    "kills": kills,
    "faults": faults,
    "damage": damage,
}


def keep(results: Path, cell: str, settings: dict[str, Any], measures: dict[str, Any]) -> None:
    from lrgi.report.record import RunRecord, save_record

    record = RunRecord("table:reliability", cell, settings, measures=measures, command="make torture")
    save_record(record, results)


if __name__ == "__main__":
    main()
