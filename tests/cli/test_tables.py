"""The commands on tables: what they print, and what they take together."""

from pathlib import Path

import pytest

from lrgi.graph.store import open_graph

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tables(tmp_path):
    """Edges and nodes as CSV, in a folder."""
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\nc,a\nc,c\na,b\nd,\n")
    (tmp_path / "n.csv").write_text("id,age,city,y\na,1,Rome,x\nb,,Oslo,z\nc,3,Rome,x\n")
    return tmp_path


def test_import_says_what_became_of_every_row(lrgi, tables):
    words = ["import", "--edges", tables / "e.csv", "--nodes", tables / "n.csv", "--out", tables / "g"]
    answer = lrgi(*words)
    assert answer.code == 0
    for line in (
        "edge rows  6 read, 3 kept",
        "  dropped  1 without a sender or receiver, 1 from a node to itself",
        "  merged   1 that say an edge once more",
        "node rows  3 read",
        "  added    1 nodes that only edges name (their attributes are gaps)",
        "  city     category, 2 values",
        "6 directed",
    ):
        assert line in answer.out
    assert "src = 'src' (guessed)" in answer.err
    found = lrgi(*words[:-1], tables / "h", "--directed", "--src", "src", "--json").json
    assert set(found) == {"command", "path", "graph", "tables"}
    assert set(found["tables"]) == {"edges", "nodes", "columns", "guessed"}
    assert found["graph"]["edges"] == 3
    assert found["tables"]["guessed"] == ["dst", "id", "label"]
    text = (ROOT / "docs" / "json.md").read_text()
    keys = {*found["tables"], *found["tables"]["edges"], *found["tables"]["nodes"]}
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_import_like_a_graph_and_from_the_structure(lrgi, tables):
    base = ["import", "--edges", tables / "e.csv", "--out"]
    assert lrgi(*base, tables / "g", "--nodes", tables / "n.csv").code == 0
    (tables / "more.csv").write_text("id,age,city\na,2,Rome\nb,2,Rome\nc,2,Paris\n")
    answer = lrgi(*base, tables / "h", "--nodes", tables / "more.csv", "--like", tables / "g")
    assert answer.code == 0, answer.err
    assert open_graph(tables / "h").encoding.columns == open_graph(tables / "g").encoding.columns
    answer = lrgi(*base, tables / "s", "--features-from", "random-walk")
    assert "16 columns made from the structure: chances of a random walk to be back" in answer.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "g"], "an import must be of FILE.npz or of --edges, got neither"),
        (
            ["a.npz", "--edges", "e.csv", "--out", "g"],
            "an import must be of FILE.npz or of --edges, got both",
        ),
        (["a.npz", "--nodes", "n.csv", "--out", "g"], "--nodes must go with --edges, got a.npz beside it"),
        (
            ["--edges", "e.csv", "--out", "g", "--split", "by-graph"],
            "--split of tables must be auto, random or none",
        ),
        (
            ["--edges", "e.csv", "--out", "g", "--like", "x"],
            "--like must name a graph directory or a run, got x",
        ),
        (
            ["--edges", "none.csv", "--out", "g"],
            "--edges must be a file, a glob or a folder of tables, got none.csv",
        ),
    ],
)
def test_mistakes(lrgi, tables, monkeypatch, words, sentence):
    monkeypatch.chdir(tables)
    answer = lrgi("import", *words)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert not (tables / "g").exists()
