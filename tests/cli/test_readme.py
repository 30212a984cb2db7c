"""README's "On your own graph", word for word, on tables as spreadsheet programs write them."""

import csv
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lrgi.graph.store import open_graph
from reference.tiny import SMALL

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["ada", "grace", 'mary "m"', "Zoë; Köln", *(f"p{i}" for i in range(60))]
TOWNS, REMARKS = ("Rom", "Oslo", ""), {1: "says\r\nmuch"}
PEOPLE = [["id", "age", "town", "remark", "class"]] + [
    [name, "" if at % 9 == 4 else f"{20 + at},5", TOWNS[at % 3], REMARKS.get(at, ""), "xy"[at % 2]]
    for at, name in enumerate(NAMES)
]
FOLLOWS = [["from", "to"]] + [
    [NAMES[at], NAMES[(at * step + 1) % len(NAMES)]] for at in range(len(NAMES)) for step in (1, 2, 5)
]
STYLES = {  # delimiter, line end, encoding, quotes everywhere, stray last lines by number of columns
    "Excel, CSV UTF-8": (";", "\r\n", "utf-8-sig", False, {5: ";;;;\r\n", 2: ";\r\n\r\n"}),
    "Excel, Unicode text": ("\t", "\r\n", "utf-16", False, {5: "\t\t\t\t\r\n", 2: "\t\r\n"}),
    "LibreOffice": (",", "\n", "utf-8", True, {5: '"","","","",""\n\n', 2: '"Total",""\n'}),
}


def commands() -> list[list[str]]:
    section = (ROOT / "README.md").read_text().split("## On your own graph")[1].split("\n## ")[0]
    (block,) = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert all(words[0] == ".venv/bin/lrgi" for words in lines)
    return [words[1:] for words in lines]


def write(path: Path, rows: list[list[str]], style: str) -> None:
    delimiter, end, encoding, quoted, last = STYLES[style]
    points = [[re.sub(r"^(\d+),5$", r"\1.5", cell) for cell in row] for row in rows]
    file = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows(rows if delimiter == ";" else points)
    path.write_bytes((file.getvalue() + last[len(rows[0])]).encode(encoding))


@pytest.mark.parametrize("style", STYLES)
def test_the_commands_work_on_a_spreadsheets_csv(lrgi, tmp_path, monkeypatch, style):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "people.csv", PEOPLE, style)
    write(tmp_path / "follows.csv", FOLLOWS, style)
    read, fit, embed, *others = commands()
    answer = lrgi(*read)
    assert answer.code == 0, answer.err
    graph = open_graph("mine")
    assert graph.ids.tolist() == NAMES
    kinds = {column.name: (column.kind, column.missing) for column in graph.encoding.columns}
    assert kinds == {"age": ("number", True), "town": ("category", True), "remark": ("category", True)}
    if style != "Excel, CSV UTF-8":
        return
    quick = {"probe": ["--epochs", "2", "--seeds", "0"], "fit": [*SMALL, "--no-probe"]}
    for words in ([*words, *quick.get(words[0], [])] for words in (fit, embed, *others)):
        answer = lrgi(*words)
        assert answer.code == 0, (words, answer.err)
    frame = pd.read_parquet("emb/vectors")
    assert frame["id"].tolist() == NAMES
    assert np.isfinite(np.stack(frame["embedding"])).all()
