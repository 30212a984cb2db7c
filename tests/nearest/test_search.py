"""Nodes nearest to a node: of embeddings of every kind, by comparing all and by an index."""

import json

import numpy as np
import pytest

from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.graph import Graph
from lrgi.interop.export import ExportPlan, export_embedding
from lrgi.interop.stored_vectors import StoredVectors
from lrgi.interop.usearch_index import index_is_fresh
from lrgi.nearest import search as module
from lrgi.nearest.search import nearest_nodes
from lrgi.outputs import verify_embedding
from reference.tiny import tiny_graph

BARE = tiny_graph()
NAMES = np.array([f"node {i} ä" for i in range(BARE.num_nodes)])[::-1]
GRAPH = Graph(BARE.indptr, BARE.indices, BARE.features, ids=NAMES)
RAW = Encoder([], num_features=BARE.num_features)  # its vectors are the features
PLANS = [ExportPlan(kind="parquet", shard_rows=70), ExportPlan(kind="npy")]


def expected(row, k):
    vectors = BARE.features.array.astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    order = [int(at) for at in np.argsort(-(unit @ unit[row]), kind="stable") if at != row]
    return [NAMES[at] for at in order[:k]]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize("search", ["exact", "index"])
def test_ids_in_ids_out(tmp_path, plan, search):
    export_embedding(RAW, GRAPH, tmp_path / "e", plan)
    asked = [str(NAMES[row]) for row in (3, 200, 71)]
    found = nearest_nodes(tmp_path / "e", [*asked, asked[0]], 5, search=search)
    assert found.by == search
    assert [answer.id for answer in found.answers] == asked
    for answer, row in zip(found.answers, (3, 200, 71), strict=True):
        assert answer.row == row
        assert list(answer.ids) == expected(row, 5)
    assert (tmp_path / "e" / "index").exists() == (search == "index")


def test_whole_numbers_and_places(tmp_path):
    numbers = np.arange(BARE.num_nodes) * 10 - 50
    export_embedding(
        RAW, Graph(BARE.indptr, BARE.indices, BARE.features, ids=numbers), tmp_path / "n", ExportPlan()
    )
    (answer,) = nearest_nodes(tmp_path / "n", [-20], 2).answers
    assert (answer.id, answer.row) == (-20, 3)
    export_embedding(RAW, BARE, tmp_path / "p", ExportPlan(kind="parquet"))
    (answer,) = nearest_nodes(tmp_path / "p", ["7"], 1000).answers
    assert (answer.id, len(answer.ids)) == (7, BARE.num_nodes - 1)
    for wrong in ("07", "1.0", "7 ", "x", "9" * 30):
        with pytest.raises(InputError, match="which is none of them; ids there are such as '0', '1', '2'"):
            nearest_nodes(tmp_path / "p", ["7", wrong])


def test_a_stale_or_damaged_index_is_made_again(tmp_path):
    place, told = tmp_path / "e", []
    export_embedding(RAW, GRAPH, place, ExportPlan())

    def ask():
        told.clear()
        return nearest_nodes(place, [NAMES[3]], 3, index_from=10, tell=told.append)

    assert ask().by == "index"
    assert told[0] == "making an index of 240 vectors, once"
    verify_embedding(place)
    ask()
    assert told == []
    about = place / "index" / "index.json"
    about.write_text(about.read_text().replace('"vectors": 240', '"vectors": 241'))
    with pytest.raises(FormatError, match=r"index.json must be as lrgi wrote it"):
        verify_embedding(place)
    ask()
    assert told
    with (place / "index" / "vectors.usearch").open("ab") as file:
        file.write(b"x")
    assert not index_is_fresh(place)
    ask()
    copy = tmp_path / "copy"
    export_embedding(RAW, GRAPH, copy, ExportPlan(dtype="float16"))
    (place / "index").rename(copy / "index")
    assert not index_is_fresh(copy)  # of other vectors
    export_embedding(RAW, GRAPH, copy, ExportPlan(), overwrite=True)
    assert not (copy / "index").exists()


def test_auto_compares_all_where_that_is_quick_or_memory_is_short(tmp_path, monkeypatch):
    export_embedding(RAW, GRAPH, tmp_path / "e", ExportPlan())
    assert nearest_nodes(tmp_path / "e", [NAMES[0]]).by == "exact"
    monkeypatch.setattr(module, "available_memory", lambda: 1000)
    told = []
    assert nearest_nodes(tmp_path / "e", [NAMES[0]], index_from=10, tell=told.append).by == "exact"
    assert told[0].startswith("comparing all vectors: an index would need")
    with pytest.raises(InputError, match=r"the memory must suffice to make an index, got a need of .* GB"):
        nearest_nodes(tmp_path / "e", [NAMES[0]], search="index")


def test_mistakes(tmp_path):
    export_embedding(RAW, GRAPH, tmp_path / "e", ExportPlan())
    for given, sentence in [
        ({"search": "fast"}, "search must be one of auto, exact, index, got 'fast'"),
        ({"k": 0}, "k must be at least 1, got 0"),
    ]:
        with pytest.raises(InputError, match=sentence):
            nearest_nodes(tmp_path / "e", [NAMES[0]], **given)
    with pytest.raises(InputError, match="ids must be at least one, got none"):
        nearest_nodes(tmp_path / "e", [])
    words = Graph(BARE.indptr, BARE.indices, BARE.features, ids=np.arange(BARE.num_nodes))
    export_embedding(RAW, words, tmp_path / "w", ExportPlan(kind="word2vec"))
    with pytest.raises(InputError, match=r"an embedding to search must be Parquet or .npy, got 'word2vec'"):
        StoredVectors(tmp_path / "w")
    assert json.loads((tmp_path / "w" / "manifest.json").read_text())["kind"] == "word2vec"
