"""Writes the tables of two records, the drawn graph's and the whole graph's, into docs/scale.md.

python benchmarks/scale_page.py
"""

from __future__ import annotations

from pathlib import Path

import products
import whole_graph
from question import Question, kept

from lrgi.directory import write_file
from lrgi.experiments.pages import with_blocks
from lrgi.report.tables import markdown_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
QUESTIONS = (products.QUESTION, whole_graph.QUESTION)


def blocks() -> dict[str, str]:
    """The text of every record that is there."""
    return {f"benchmark:{one.name}": block(one) for one in QUESTIONS}


def block(question: Question) -> str:
    """A record's table, how to read it, and what was demanded."""
    record = kept(question.name)
    if record is None:
        return "Not measured yet."
    columns, rows, how = question.table(record)
    verdicts = "\n".join(f"- {line}" for line in question.verdicts(record))
    return f"{markdown_table(columns, rows)}\n\n{how}\n\n{verdicts}\n\nMade by `{record.command}`."


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    after = with_blocks(before, blocks())
    if after != before:
        write_file(PAGE, after)
    print(f"{PAGE.name} {'was written again' if after != before else 'agrees with the records'}.")
