"""`lrgi neighbors`: what it lists, what it keeps, what it refuses."""

import shutil

import numpy as np
import pytest

from lrgi.graph.store import open_graph
from lrgi.outputs import embed_layers
from lrgi.training.run import open_run
from reference.tiny import SMALL


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """`g` from tables, and `run`, fitted on it."""
    from lrgi.cli.main import main

    folder = tmp_path_factory.mktemp("people")
    random = np.random.default_rng(0)
    ends = random.integers(0, 120, (600, 2))
    (folder / "e.csv").write_text("src,dst\n" + "".join(f"p{a},p{b}\n" for a, b in ends))
    rows = [f"p{i},{i % 7},{'Rome' if i % 3 else ''},2020-01-{i % 28 + 1:02d}\n" for i in range(120)]
    (folder / "n.csv").write_text("id,age,city,joined\n" + "".join(rows))
    words = [
        "--edges",
        folder / "e.csv",
        "--nodes",
        folder / "n.csv",
        "--out",
        folder / "g",
        "--split",
        "random",
    ]
    assert main([str(word) for word in ["import", *words, "--quiet"]]) == 0
    fit = ["fit", folder / "g", "--out", folder / "run", *SMALL, "--no-probe", "--quiet"]
    assert main([str(word) for word in fit]) == 0
    return folder


def test_of_a_run_with_attributes(lrgi, people):
    found = lrgi("neighbors", people / "run", "--id", "p4", "p9", "-k", 3, "--json").json
    assert set(found) == {"command", "path", "embedding", "layers", "view", "search", "nodes"}
    vectors = embed_layers(open_run(people / "run").encoder, open_graph(people / "g"))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for node, row in zip(found["nodes"], (4, 9), strict=True):
        order = np.argsort(-(unit @ unit[row]))
        near = [(f"p{at}", float(unit[at] @ unit[row])) for at in order if at != row][:3]
        assert [entry["id"] for entry in node["neighbors"]] == [name for name, _ in near]
        cosines = [entry["cosine"] for entry in node["neighbors"]]
        np.testing.assert_allclose(cosines, [cosine for _, cosine in near], atol=1e-5)
        for entry in [node, *node["neighbors"]]:
            place = int(entry["id"][1:])
            city = "Rome" if place % 3 else None
            joined = f"2020-01-{place % 28 + 1:02d}"
            assert entry["attributes"] == {"age": place % 7, "city": city, "joined": joined}
    answer = lrgi("neighbors", people / "run", "--id", "p4", "-k", 3)
    assert "embedding" not in answer.err  # kept
    assert "p4: age 4, city Rome, joined 2020-01-05" in answer.out
    assert "cosine  id " in answer.out
    assert "(120 vectors of 8 columns, all compared)" in answer.out
    answer = lrgi("neighbors", people / "run", "--id", "p4", "-k", 3, "--layers", "all")
    assert "embedding 120 nodes, kept in" in answer.err
    assert "cosine of layer 1, 2 (120 vectors of 16 columns" in answer.out
    assert "attributes" not in lrgi("neighbors", people / "run", "--id", "p4", "--no-attributes").out
    assert lrgi("verify", people / "run").code == 0


def test_of_an_embedding_and_of_a_part_of_the_nodes(lrgi, people):
    for name, words in [
        ("whole", []),
        ("part", ["--training-subgraph"]),
        ("npy", ["--training-subgraph", "--format", "npy"]),
    ]:
        made = lrgi("embed", people / "run", people / "g", "--out", people / name, *words)
        assert f"neighbors {people / name} --id p" in made.out
        some = np.load(people / "npy" / "ids.npy")[1] if name == "npy" else "p4"
        if name == "part":
            import pyarrow.parquet as pq

            some = pq.read_table(people / "part" / "vectors")["id"][1].as_py()
        (node,) = lrgi("neighbors", people / name, "--id", some, "-k", 2, "--json").json["nodes"]
        for entry in [node, *node["neighbors"]]:
            assert entry["attributes"]["age"] == int(entry["id"][1:]) % 7


def test_a_changed_graph_leaves_the_attributes_out(lrgi, people, tmp_path):
    shutil.copytree(people / "g", tmp_path / "g")
    assert lrgi("embed", people / "run", tmp_path / "g", "--out", tmp_path / "e").code == 0
    again = ["--edges", people / "e.csv", "--nodes", people / "n.csv", "--out", tmp_path / "g", "--overwrite"]
    assert lrgi("import", *again).code == 0
    answer = lrgi("neighbors", tmp_path / "e", "--id", "p4", "-k", 2)
    assert "has changed since it was embedded: attributes are left out" in answer.err
    shutil.rmtree(tmp_path / "g")
    answer = lrgi("neighbors", tmp_path / "e", "--id", "p4", "-k", 2)
    assert (answer.code, answer.err) == (0, "")


def test_a_graph_of_arrays_shows_its_classes(lrgi, place):
    (node,) = lrgi("neighbors", place / "run", "--id", 5, "-k", 2, "--json").json["nodes"]
    labels = open_graph(place / "graph").labels
    for entry in [node, *node["neighbors"]]:
        assert entry["attributes"] == {"label": int(labels[entry["id"]])}


def test_mistakes(lrgi, people, tmp_path):
    assert lrgi("embed", people / "run", people / "g", "--out", tmp_path / "e").code == 0
    for words, sentence in [
        ([people / "run", "--id", "q"], "an id must be one of the 120 nodes in"),
        ([people / "run", tmp_path / "no", "--id", "p1"], "the graph of a run must be there, got"),
        ([tmp_path / "e", "--id", "p1", "--layers", "1"], "--layers must go with a run, got"),
        ([tmp_path / "e", people / "g", "--id", "p1"], "GRAPH must go with a run, got"),
        ([tmp_path / "e", "--id", "p1", "-k", "0"], "-k must be at least 1, got 0"),
        ([people / "g", "--id", "p1"], "a run must be a directory with a run.json"),
    ]:
        answer = lrgi("neighbors", *words)
        assert (answer.code, answer.out) == (2, "")
        assert sentence in answer.err
