"""`make bench`: every benchmark in its short form, and what got slower since the last committed record.

What is compared is ratios, to the machine's own rates or to another way of doing the same, never seconds.
One that is worse than on record by more than its allowance is measured once more, and the better of the two
counts: a busy neighbour is no regression. Exit code 1 where something got slower.

    python benchmarks/short.py [--only NAME ...]     compare with benchmarks/results/short.json
    python benchmarks/short.py --keep                put this machine's ratios on record instead
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from page import NAMES, question
from question import EXPERIMENT, RESULTS, Better, kept

from lrgi.directory import write_json
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column, plain_table

HERE = Path(__file__).parent
ALLOWED = 1.3  # as much worse as a ratio of seconds may be; two runs of one commit differ by up to 1.15
ALLOWED_OF = {"peak_of_deep_to_shallow": 1.03}  # memory does not depend on neighbours
STEP = {"step_to_floor": "low", "ordinary_to_step": "high"}  # of step.py, whose record has a form of its own

Ratios = dict[str, dict[str, float]]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="put the ratios on record")
    parser.add_argument("--only", nargs="+", choices=("step", *NAMES), default=("step", *NAMES))
    given = parser.parse_args(argv)
    begun, found = time.perf_counter(), {}
    for name in given.only:
        print(f"{name} ...", flush=True)
        found[name] = measured(name)
    if given.keep:
        keep(found)
        return 0
    before = on_record()
    found = confirmed(before, found, measured)
    slower = worse(before, found)
    print(compared(before, found))
    print(f"\n{len(found)} benchmarks in {time.perf_counter() - begun:.0f} s.", verdict(slower, bool(before)))
    return 1 if slower else 0


def measured(name: str) -> dict[str, float]:
    """The ratios of a benchmark's short form, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        form = [] if name == "step" else ["--short"]  # the whole of step.py takes half a minute
        command = [sys.executable, str(HERE / f"{name}.py"), *form, "--json", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        record = json.loads(path.read_text(encoding="utf-8"))
    if name == "step":
        return of_step(record)
    ratios: dict[str, float] = record["measures"]["ratios"]
    return ratios


def of_step(record: Mapping[str, Any]) -> dict[str, float]:
    """The ratios in a record of step.py's form: of its best decile, which a busy neighbour disturbs least."""
    return {ratio: record["ratios"]["best_decile"][ratio] for ratio in STEP}


def on_record() -> Ratios:
    """What to compare with: short.json, and the record of step.py, whose short form is the whole."""
    record, path = kept("short"), RESULTS / "step.json"
    found: Ratios = {} if record is None else dict(record.measures["ratios"])
    if path.is_file():
        found["step"] = of_step(json.loads(path.read_text(encoding="utf-8")))
    return found


def better_of(name: str, ratio: str) -> Better:
    """Whether it should be high or low."""
    known: Mapping[str, Better] = STEP if name == "step" else question(name).better  # type: ignore[assignment]
    return known[ratio]


def change(name: str, ratio: str, before: float, now: float) -> float:
    """How many times worse: above 1 is worse, whichever way the ratio should go."""
    return now / before if better_of(name, ratio) == "low" else before / now


def worse(before: Ratios, found: Ratios) -> dict[str, float]:
    """What got worse by more than is allowed, and how much."""
    changes = {
        f"{name}: {ratio}": (change(name, ratio, before[name][ratio], now), ALLOWED_OF.get(ratio, ALLOWED))
        for name, ratios in found.items()
        for ratio, now in ratios.items()
        if ratio in before.get(name, {})
    }
    return {key: times for key, (times, allowed) in changes.items() if times > allowed}


def confirmed(before: Ratios, found: Ratios, again: Callable[[str], dict[str, float]]) -> Ratios:
    """The same, with a second measurement of every benchmark that has got worse; the better ratios count."""
    result = dict(found)
    for name in {key.partition(":")[0] for key in worse(before, found)}:
        print(f"{name} once more ...", flush=True)
        second = again(name)
        result[name] = {
            ratio: (max if better_of(name, ratio) == "high" else min)(value, second[ratio])
            for ratio, value in found[name].items()
        }
    return result


def compared(before: Ratios, found: Ratios) -> str:
    """A line per ratio: on record, now, and how much better or worse."""
    columns = (
        Column("benchmark", text=True), Column("ratio", text=True), Column("on record", digits=3),
        Column("now", digits=3), Column("", text=True),
    )  # fmt: skip
    rows = []
    for name, ratios in found.items():
        for ratio, now in ratios.items():
            then = before.get(name, {}).get(ratio)
            said = "new" if then is None else _said(change(name, ratio, then, now))
            rows.append((name, ratio.replace("_", " "), then, now, said))
    return plain_table(columns, rows)


def _said(times: float) -> str:
    return f"{times:.2f} times worse" if times > 1 else f"{1 / times:.2f} times better"


def verdict(slower: Mapping[str, float], on_record: bool) -> str:
    """One sentence."""
    if not on_record:
        return "Nothing is on record to compare with: `python benchmarks/short.py --keep` writes it."
    if not slower:
        return "Nothing got slower."
    said = (f"{key.replace('_', ' ')} ({times:.2f} times)" for key, times in slower.items())
    return f"Slower: {'; '.join(said)}."


def keep(found: Ratios) -> None:
    """Put the ratios on record; benchmarks that were left out keep theirs."""
    record = kept("short")
    before: Ratios = {} if record is None else dict(record.measures["ratios"])
    found = {name: ratios for name, ratios in found.items() if name != "step"}
    settings = {"seed": 0, "forms": "short", "allowed": ALLOWED, "allowed_of": ALLOWED_OF}
    made = RunRecord(
        EXPERIMENT, "short", settings, measures={"ratios": before | found},
        command="python benchmarks/short.py --keep",
    )  # fmt: skip
    write_json(RESULTS / "short.json", made.to_json())
    print(f"{RESULTS / 'short.json'} holds the ratios of {len(before | found)} benchmarks")


if __name__ == "__main__":
    sys.exit(main())
