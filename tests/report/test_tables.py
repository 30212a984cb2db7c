"""Tables line up."""

from lrgi.report.tables import Column, markdown_table, pairs, plain_table

COLUMNS = [Column("", text=True), Column("score", 3), Column("nodes"), Column("note", text=True)]
ROWS = [("raw features", 0.5, 20_000, None), ("LRGI", 0.91239, 7, "best"), ("long", 1234.5, None, "")]


def test_plain():
    assert plain_table(COLUMNS, ROWS).splitlines() == [
        "                  score   nodes  note",
        "------------  ---------  ------  ----",
        "raw features      0.500  20,000  -",
        "LRGI              0.912       7  best",
        "long          1,234.500       -",
    ]


def test_markdown():
    assert markdown_table(COLUMNS, ROWS[:1]).splitlines() == [
        "|  | score | nodes | note |",
        "| :--- | ---: | ---: | :--- |",
        "| raw features | 0.500 | 20,000 | - |",
    ]


def test_pairs():
    assert pairs([("a", "1"), ("long", "2")]) == "  a     1\n  long  2"
