"""`lrgi update`: what it prints, and that embed and neighbors read what it keeps."""

import shutil

import numpy as np

from lrgi.graph.store import open_graph
from lrgi.outputs import embed_layers
from lrgi.training.run import open_run


def test_words_json_and_what_reads_the_tables(lrgi, place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    shutil.copytree(place / "graph", tmp_path / "graph")
    here = ("update", tmp_path / "run", tmp_path / "graph")
    first = lrgi(*here)
    assert first.code == 0
    assert "The run kept no outputs of this graph: all were made" in first.out
    (tmp_path / "e.csv").write_text("src,dst\n1,200\n1,200\n3,3\n")
    found = lrgi(*here, "--edges", tmp_path / "e.csv", "--json").json
    assert set(found) == {
        "command", "path", "graph", "directed", "changed", "nodes", "edges", "removed_edges",
        "features_changed", "layers", "had_tables", "graph_seconds", "seconds", "saved_seconds",
    }  # fmt: skip
    assert (found["changed"], found["had_tables"], found["directed"]) == (True, True, False)
    assert (found["edges"]["added"], found["edges"]["repeated"], found["edges"]["self_loops"]) == (1, 1, 1)
    shares = [layer["share"] for layer in found["layers"]]
    assert shares[0] == 2 / 240 < shares[1]
    assert set(found["layers"][0]) == {
        "layer", "nodes", "touched", "share", "edges", "made", "seconds", "scratch_seconds",
    }  # fmt: skip
    words = lrgi(*here, "--remove-edges", tmp_path / "e.csv").out
    assert "3 read, 1 gone, 0 absent" in words
    assert "0.83%" in words
    assert lrgi("verify", tmp_path / "run").code == 0
    made = lrgi("embed", *here[1:], "--out", tmp_path / "emb", "--format", "npy")
    assert "taking the layers' outputs from the tables that the run keeps" in made.err
    expected = embed_layers(open_run(tmp_path / "run").encoder, open_graph(tmp_path / "graph"))
    np.testing.assert_array_equal(np.load(tmp_path / "emb" / "embeddings.npy"), expected)
    assert "nothing was to be made" in lrgi(*here).out


def test_mistakes(lrgi, place, tmp_path):
    for words, sentence in [
        ([place / "run", place / "graph.npz"], "a graph to update must be a graph directory, got"),
        ([place / "run", tmp_path / "no"], "the graph of a run must be there, got"),
        ([place / "graph"], "a run must be a directory with a run.json"),
    ]:
        answer = lrgi("update", *words)
        assert (answer.code, answer.out) == (2, "")
        assert sentence in answer.err
