"""Embeddings to take away: what readers find, what an interruption costs, what is refused."""

import json

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import ArrayEntry, FileEntry, verify_array
from lrgi.graph.graph import Graph
from lrgi.interop.export import KINDS, ExportPlan, export_embedding
from lrgi.interop.export_files import read_vectors
from lrgi.interop.export_work import Work
from lrgi.outputs import embed_layers, open_embedding, read_manifest
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan
from reference.tiny import SMALL_PLAN, tiny_graph

BARE = tiny_graph()
NAMES = np.array([f"node-{i}-ä" for i in range(BARE.num_nodes)])[::-1]
GRAPH = Graph(BARE.indptr, BARE.indices, BARE.features, ids=NAMES)
ENCODER = fit_encoder(GRAPH, FitPlan(**SMALL_PLAN))
PLANS = [
    ExportPlan(kind="parquet", shard_rows=70),
    ExportPlan(kind="parquet", layers="all", dtype="float16"),
    ExportPlan(kind="npy"),
    ExportPlan(kind="npy", layers="2,1", view="both", dtype="float16"),
    ExportPlan(kind="npy", layers=1, view="v"),
    ExportPlan(kind="word2vec", layers="2", shard_rows=100),
]


def export(path, plan, graph=GRAPH, **more):
    return export_embedding(ENCODER, graph, path, plan, **more)


def vectors_of(path, plan):
    """(ids, vectors) as somebody else's reader finds them."""
    if plan.kind == "parquet":
        frame = pd.read_parquet(path / "vectors")
        return frame["id"].to_numpy(), np.stack(frame["embedding"])
    if plan.kind == "npy":
        return np.load(path / "ids.npy"), np.load(path / "embeddings.npy")
    head, *lines = (path / "embeddings.txt").read_text().splitlines()
    rows = [line.split(" ") for line in lines]
    assert head == f"{len(rows)} {len(rows[0]) - 1}"
    return np.array([row[0] for row in rows]), np.array([row[1:] for row in rows], dtype=np.float32)


@pytest.mark.parametrize("plan", PLANS)
def test_every_id_is_there_once_in_order_with_its_vector(tmp_path, plan):
    manifest = export(tmp_path / "e", plan, about={"run": "r"})
    expected = embed_layers(ENCODER, GRAPH, plan.layers, view=plan.view)
    ids, vectors = vectors_of(tmp_path / "e", plan)
    np.testing.assert_array_equal(ids, NAMES)
    assert vectors.dtype == np.dtype(plan.dtype)
    if plan.kind == "word2vec":
        np.testing.assert_allclose(vectors, expected, rtol=1e-6)
    else:
        np.testing.assert_array_equal(vectors, expected.astype(plan.dtype))
    assert read_manifest(tmp_path / "e") == manifest
    assert (manifest["nodes"], manifest["columns"]) == expected.shape
    left = {path.name for path in (tmp_path / "e").iterdir()}
    assert left <= {"manifest.json", "vectors", "embeddings.npy", "ids.npy", "embeddings.txt"}
    assert [path.name for path in tmp_path.iterdir()] == ["e"]


def test_duckdb_reads_the_shards_and_they_have_a_fixed_size(tmp_path):
    export(tmp_path / "e", ExportPlan(kind="parquet", shard_rows=100, dtype="float16"))
    files = sorted((tmp_path / "e" / "vectors").iterdir())
    assert [file.name for file in files] == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    assert str(pq.read_schema(files[0]).field("embedding").type) == "fixed_size_list<element: halffloat>[8]"
    found = duckdb.sql(f"SELECT id, embedding FROM '{tmp_path}/e/vectors/*.parquet'").fetchall()
    assert [row[0] for row in found] == NAMES.tolist()
    expected = embed_layers(ENCODER, GRAPH).astype(np.float16)
    np.testing.assert_array_equal(np.array([row[1] for row in found], dtype=np.float16), expected)


def by_pandas(folder):
    frame = pd.read_parquet(folder / "vectors")
    return frame["id"].tolist(), np.stack(frame["embedding"])


def by_duckdb(folder):
    found = duckdb.sql(f"FROM '{folder}/vectors/*.parquet'").fetchall()
    return [name for name, _ in found], np.array([vector for _, vector in found])


def by_pyarrow(folder):
    table = pq.read_table(folder / "vectors")
    flat = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return table["id"].to_pylist(), flat.reshape(len(table), -1)


def by_polars(folder):
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(folder / "vectors" / "*.parquet")
    return frame["id"].to_list(), np.array(frame["embedding"].to_list())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("read", [by_pandas, by_duckdb, by_pyarrow, by_polars])
def test_every_reader_finds_the_same_ids_and_numbers(tmp_path, read, dtype):
    export(tmp_path / "e", ExportPlan(kind="parquet", shard_rows=100, dtype=dtype))
    ids, vectors = read(tmp_path / "e")
    assert ids == NAMES.tolist()
    expected = embed_layers(ENCODER, GRAPH).astype(dtype)
    np.testing.assert_array_equal(vectors.astype(dtype), expected)


def test_manifests_hold_checksums(tmp_path):
    manifest = export(tmp_path / "a", ExportPlan(kind="npy"))
    for entry in manifest["arrays"].values():
        verify_array(tmp_path / "a", ArrayEntry.from_json(entry, "array"))
    manifest = export(tmp_path / "b", ExportPlan(kind="parquet"))
    for entry in manifest["shards"]:
        FileEntry.from_json(entry, "shard").verify(tmp_path / "b" / "vectors")
    manifest = export(tmp_path / "c", ExportPlan(kind="word2vec"))
    FileEntry.from_json(manifest["text"], "text").verify(tmp_path / "c")


def test_nodes_of_a_larger_graph_are_named_by_their_places(tmp_path):
    nodes = np.arange(BARE.num_nodes) * 3
    export(tmp_path / "e", ExportPlan(kind="parquet"), graph=BARE, nodes=nodes)
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "e" / "vectors")["id"], nodes)
    export(tmp_path / "f", ExportPlan(), graph=BARE, nodes=nodes)
    np.testing.assert_array_equal(np.load(tmp_path / "f" / "nodes.npy"), nodes)


class Stopped(Exception):
    """Stands for a signal."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", range(7))
def test_an_interrupted_export_goes_on_and_gives_the_same(tmp_path, monkeypatch, kind, at):
    plan = ExportPlan(kind=kind, layers="2,1", view="both", shard_rows=50)
    export(tmp_path / "whole", plan)
    marks = []
    original = Work.mark

    def stops(self, name, entry):
        original(self, name, entry)
        marks.append(name)
        if len(marks) == at + 1:
            raise Stopped

    monkeypatch.setattr(Work, "mark", stops)
    try:
        export(tmp_path / "e", plan)
    except Stopped:
        assert not (tmp_path / "e" / "manifest.json").exists()
        told = []
        monkeypatch.setattr(Work, "mark", original)
        made = {path: path.stat().st_mtime_ns for path in (tmp_path / "e").rglob("part-*.parquet")}
        export(tmp_path / "e", plan, tell=told.append)
        assert told[0].startswith(f"going on with the export in {tmp_path / 'e'}")
        assert all(path.stat().st_mtime_ns == when for path, when in made.items())
    for name in ("embeddings.npy", "embeddings.txt", "ids.npy"):
        if (tmp_path / "whole" / name).exists():
            assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "e" / name).read_bytes()
    if kind != "word2vec":
        for (ids, rows), (other_ids, others) in zip(
            read_vectors(tmp_path / "whole"), read_vectors(tmp_path / "e"), strict=True
        ):
            np.testing.assert_array_equal(ids, other_ids)
            np.testing.assert_array_equal(rows, others)
    assert not (tmp_path / "e" / "state").exists()


def test_a_part_of_a_line_is_cut_off(tmp_path, monkeypatch):
    """A process killed between writing and recording leaves more text than is on record."""
    plan = ExportPlan(kind="word2vec", shard_rows=50)
    export(tmp_path / "whole", plan)
    original = Work.mark

    def stops(self, name, entry):
        original(self, name, entry)
        if entry.get("rows") == 100:
            raise Stopped

    monkeypatch.setattr(Work, "mark", stops)
    with pytest.raises(Stopped):
        export(tmp_path / "e", plan)
    with (tmp_path / "e" / ".embeddings.txt.part").open("ab") as file:
        file.write(b"node-torn 0.1 0.")
    monkeypatch.setattr(Work, "mark", original)
    export(tmp_path / "e", plan)
    whole = (tmp_path / "whole" / "embeddings.txt").read_bytes()
    assert (tmp_path / "e" / "embeddings.txt").read_bytes() == whole


def test_another_export_is_not_gone_on_with(tmp_path, monkeypatch):
    def stops(self, name, entry):
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Work, "mark", stops)
        with pytest.raises(Stopped):
            export(tmp_path / "e", ExportPlan(), source="one")
    for other, first in [
        ({"plan": ExportPlan(layers="1"), "source": "one"}, "the same layers, got .* and"),
        ({"plan": ExportPlan(dtype="float16"), "source": "one"}, "same dtype, got 'float32' in .* 'float16'"),
        ({"plan": ExportPlan(), "source": "two"}, "same graph, got "),
    ]:
        with pytest.raises(
            InputError, match=f"an unfinished export to go on with must be of {first}|{first}"
        ):
            export(tmp_path / "e", **other)
    manifest = export(tmp_path / "e", ExportPlan(layers="1"), overwrite=True)
    assert manifest["layers"] == [1]


def test_places_and_plans_that_are_refused(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("mine")
    with pytest.raises(
        InputError, match=r"must be free, got .*, which holds something else; choose another path$"
    ):
        export(tmp_path / "taken", ExportPlan(), overwrite=True)
    export(tmp_path / "e", ExportPlan())
    with pytest.raises(InputError, match="which holds an embedding; choose another path or pass --overwrite"):
        export(tmp_path / "e", ExportPlan())
    export(tmp_path / "e", ExportPlan(kind="parquet"), overwrite=True)
    assert not (tmp_path / "e" / "embeddings.npy").exists()
    for wrong, sentence in [
        ({"kind": "csv"}, "kind must be one of parquet, npy, word2vec, got 'csv'"),
        ({"dtype": "int8"}, "dtype must be one of float32, float16, got 'int8'"),
        ({"view": "w"}, "view must be one of u, v, both, got 'w'"),
        ({"shard_rows": -1}, "shard_rows must be 0 or more, got -1"),
    ]:
        with pytest.raises(InputError, match=sentence):
            ExportPlan(**wrong)


def test_words_have_no_spaces_and_float16_has_an_end(tmp_path):
    spaced = Graph(GRAPH.indptr, GRAPH.indices, GRAPH.features, ids=np.array(["a b", *NAMES[1:]]))
    with pytest.raises(InputError, match="ids in word2vec text must have no spaces, got 'a b'"):
        export(tmp_path / "e", ExportPlan(kind="word2vec"), graph=spaced)
    assert not (tmp_path / "e").exists()
    huge = Graph(GRAPH.indptr, GRAPH.indices, np.full(GRAPH.features.shape, 7e4, np.float32))
    raw = Encoder([], num_features=GRAPH.num_features)
    with pytest.raises(InputError, match="embeddings in float16 must lie within 65504, got 70000"):
        export_embedding(raw, huge, tmp_path / "h", ExportPlan(dtype="float16"))


def test_something_else_or_newer_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"an embedding must be a directory with a manifest.json"):
        open_embedding(tmp_path)
    export(tmp_path / "e", ExportPlan())
    file = tmp_path / "e" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 3}))
    with pytest.raises(FormatError, match="an embedding's version must be from 1 to 2, got 3"):
        open_embedding(tmp_path / "e")
    export(tmp_path / "w", ExportPlan(kind="word2vec"))
    with pytest.raises(FormatError, match=r"an embedding to read must be Parquet or .npy, got 'word2vec'"):
        next(read_vectors(tmp_path / "w"))
