"""The commands on tables: what they print, and what they take together."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from lrgi.graph.store import open_graph
from lrgi.training.run import open_run
from reference.tiny import SMALL

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tables(tmp_path):
    """Edges and nodes as CSV, in a folder."""
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,c\nc,a\nc,c\na,b\nd,d\ntotal,\n")
    (tmp_path / "n.csv").write_text("id,age,city,y\na,1,Rome,x\nb,,Oslo,z\nc,3,Rome,x\n")
    return tmp_path


def test_import_says_what_became_of_every_row(lrgi, tables):
    words = ["import", "--edges", tables / "e.csv", "--nodes", tables / "n.csv", "--out", tables / "g"]
    answer = lrgi(*words)
    assert answer.code == 0
    for line in (
        "edge rows  7 read, 3 kept",
        "  dropped  1 without a sender or receiver, 2 from a node to itself",
        "  merged   1 that say an edge once more",
        "node rows  3 read",
        "  added    1 node that only edges name (their attributes are gaps)",
        "  city     category, 2 values",
        "6 directed",
    ):
        assert line in answer.out
    assert "src = 'src' (guessed)" in answer.err
    found = lrgi(*words[:-1], tables / "h", "--directed", "--src", "src", "--json").json
    assert set(found) == {"command", "path", "graph", "tables"}
    assert set(found["tables"]) == {"edges", "nodes", "columns", "guessed", "hints"}
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


def test_the_round_trip_of_string_ids(lrgi, tmp_path):
    """String ids in Parquet in, Parquet out: every id once, in order, as the array interface has it."""
    random = np.random.default_rng(0)
    names = np.array([f"user {i:04d} ü" for i in random.permutation(500)])
    edges = pa.table(
        {"src": names[random.integers(0, 500, 3000)], "dst": names[random.integers(0, 500, 3000)]}
    )
    pq.write_table(edges, tmp_path / "e.parquet")
    nodes = pa.table({"id": names[:400], "x": random.normal(size=400), "k": random.choice(["a", "b"], 400)})
    pq.write_table(nodes, tmp_path / "n.parquet")
    words = ["import", "--edges", tmp_path / "e.parquet", "--nodes", tmp_path / "n.parquet"]
    assert lrgi(*words, "--out", tmp_path / "g").code == 0
    assert lrgi("fit", tmp_path / "g", "--out", tmp_path / "run", *SMALL, "--no-probe").code == 0
    assert lrgi("embed", tmp_path / "run", tmp_path / "g", "--out", tmp_path / "emb").code == 0
    frame = pd.read_parquet(tmp_path / "emb" / "vectors")
    assert frame["id"].tolist() == [*names[:400].tolist(), *sorted(names[400:].tolist())]
    assert frame["id"].is_unique
    run, graph = open_run(tmp_path / "run"), open_graph(tmp_path / "g")
    np.testing.assert_array_equal(np.stack(frame["embedding"]), run.encoder.embed(graph).array)
    answer = lrgi("embed", tmp_path / "run", tmp_path / "g", "--out", tmp_path / "emb")
    assert "which holds an embedding; choose another path or pass --overwrite" in answer.err


def test_another_graph_is_treated_as_the_fitted_one(lrgi, tables):
    """Its own statistics are other ones; missing and extra columns are one sentence."""
    base = ["import", "--edges", tables / "e.csv", "--out"]
    assert lrgi(*base, tables / "g", "--nodes", tables / "n.csv").code == 0
    assert lrgi("fit", tables / "g", "--out", tables / "run", *SMALL, "--no-probe").code == 0
    (tables / "more.csv").write_text("id,city,age\na,Oslo,7\nb,Rome,9\nc,Paris,\n")
    assert lrgi(*base, tables / "own", "--nodes", tables / "more.csv").code == 0
    assert lrgi(*base, tables / "like", "--nodes", tables / "more.csv", "--like", tables / "run").code == 0
    found = []
    for name in ("own", "like"):
        answer = lrgi(
            "embed", tables / "run", tables / name, "--out", tables / f"{name}-emb", "--format", "npy"
        )
        assert answer.code == 0, answer.err
        assert ("making the features once more" in answer.err) == (name == "own")
        found.append(np.load(tables / f"{name}-emb" / "embeddings.npy"))
    np.testing.assert_array_equal(*found)
    for content, sentence in [
        ("id,age\na,1\nb,3\nc,2\n", "must have the columns of the fit, got none called 'city'"),
        ("id,age,city,z\na,1,x,1\nb,2,y,2\nc,2,y,3\n", "the columns of the fit, got one more called 'z'"),
        ("id,age,city\na,old,x\nb,new,y\nc,2,y\n", "column 'age' must hold numbers as at the fit, got 'old'"),
    ]:
        (tables / "other.csv").write_text(content)
        assert lrgi(*base, tables / "other", "--nodes", tables / "other.csv", "--overwrite").code == 0
        answer = lrgi("embed", tables / "run", tables / "other", "--out", tables / "no")
        assert answer.code == 2
        assert sentence in answer.err
        assert not (tables / "no").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "g"], "an import must be of a PATH or of --edges, got neither"),
        (
            ["a.npz", "--edges", "e.csv", "--out", "g"],
            "an import must be of a PATH or of --edges, got both",
        ),
        (["a.npz", "--nodes", "n.csv", "--out", "g"], "--nodes must go with --edges, got a.npz beside it"),
        (
            ["--edges", "e.csv", "--features", "x.npy", "--out", "g"],
            "--features must go with an adjacency matrix, got --edges beside it; drop one of them",
        ),
        (
            ["--edges", "e.csv", "--out", "g", "--split", "by-graph"],
            "--split of tables must be auto, random or none",
        ),
        (
            ["--edges", "e.csv", "--out", "g", "--like", "x"],
            "--like must name a graph directory, a run or an encoder, got x",
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


def test_folders_and_matrices_of_other_libraries(lrgi, tmp_path):
    """`lrgi import PATH`, with features where there are some and made ones where there are none."""
    matrix = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    sp.save_npz(tmp_path / "a.npz", matrix)
    np.save(tmp_path / "x.npy", np.eye(3))
    bolt = tmp_path / "bolt"
    bolt.mkdir()
    np.save(bolt / "edges.npy", np.array([[0, 1], [1, 2]]))
    np.save(bolt / "x.npy", np.eye(3))
    (bolt / "metadata.yaml").write_text(
        "dataset_name: bolt\n"
        "graph: {nodes: [{num: 3}], edges: [{format: numpy, path: edges.npy}]}\n"
        "feature_data: [{domain: node, name: feat, format: numpy, path: x.npy}]\n"
    )
    ogb = tmp_path / "ogbn_mine" / "raw"
    ogb.mkdir(parents=True)
    counts = {"num_nodes_list": [3], "num_edges_list": [2]}
    np.savez(ogb / "data.npz", edge_index=[[0, 1], [1, 2]], node_feat=np.eye(3), **counts)
    for given in ([tmp_path / "a.npz", "--features", tmp_path / "x.npy"], [bolt], [ogb.parent]):
        answer = lrgi("import", *given, "--out", tmp_path / "g", "--overwrite", "--json")
        assert answer.code == 0, answer.err
        assert answer.json["graph"]["edges"] == 4
        np.testing.assert_array_equal(open_graph(tmp_path / "g").features.array, np.eye(3))
    answer = lrgi(
        "import", tmp_path / "a.npz", "--out", tmp_path / "d", "--directed", "--features-from", "degree"
    )
    assert "21 columns made from the structure" in answer.err
    assert open_graph(tmp_path / "d").num_edges == 2
    assert open_graph(tmp_path / "d").encoding.made["from"] == "degree"
    answer = lrgi("import", tmp_path / "a.npz", "--out", tmp_path / "n")
    assert (answer.code, answer.out) == (2, "")
    assert "a graph must have features, got none; give x [N, d]" in answer.err
    answer = lrgi("import", tmp_path, "--out", tmp_path / "n")
    assert "a folder to import must hold metadata.yaml (GraphBolt) or raw/edge.csv.gz (OGB)" in answer.err
