"""docs/benchmarks.md from the committed records, and the figure of growth: `make tables`.

python benchmarks/page.py [docs/benchmarks.md]
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import growth
from question import RESULTS, Question, kept

from lrgi.directory import write_file
from lrgi.experiments.pages import with_blocks
from lrgi.experiments.render import machines
from lrgi.report.figures import draw
from lrgi.report.tables import markdown_table

NAMES = ("sampling", "embed", "constants", "constant_scores", "peers", "growth", "depth")
FIGURE = RESULTS / "growth"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def question(name: str) -> Question:
    """The benchmark of that name."""
    asked: Question = import_module(name).QUESTION
    return asked


def blocks() -> dict[str, str]:
    """The text of every generated part of the page, from the records alone."""
    found = {}
    for name in NAMES:
        record, asked = kept(name), question(name)
        if record is None:
            found[f"benchmark:{name}"] = "Not measured yet."
            continue
        columns, rows, how = asked.table(record)
        parts = [
            markdown_table(columns, rows),
            how,
            "\n".join(f"- {line}" for line in asked.verdicts(record)),
        ]
        if name == "growth":
            digest = growth.figure_of(record).digest
            parts.insert(
                0, f"![Time of a step](../benchmarks/results/growth.svg)\n<!-- drawn from {digest} -->"
            )
        parts.append(f"`{record.command}`, {record.made[:10]}, {machines({name: record})}.")
        found[f"benchmark:{name}"] = "\n\n".join(parts)
    return found


def main() -> None:
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    record = kept("growth")
    if record is not None:
        draw(growth.figure_of(record), FIGURE)
    before = place.read_text(encoding="utf-8")
    after = with_blocks(before, blocks())
    if after != before:
        write_file(place, after)
    print(f"{place} {'was written again' if after != before else 'agrees with the records'}")


if __name__ == "__main__":
    main()
