"""Embeddings of chosen layers, and their directory."""

import json

import numpy as np
import pytest

from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import ArrayEntry, verify_array
from lrgi.graph.graph import Graph
from lrgi.outputs import chosen_layers, embed_layers, open_embedding, save_embedding
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan
from reference.tiny import SMALL_PLAN, tiny_graph

GRAPH = tiny_graph()
ENCODER = fit_encoder(GRAPH, FitPlan(**SMALL_PLAN))


def test_choosing_layers():
    for given, numbers in [
        ("last", (3,)), ("all", (1, 2, 3)), ("2", (2,)), ("3,1", (3, 1)), (2, (2,)), ([1, 3], (1, 3)),
    ]:  # fmt: skip
        assert chosen_layers(given, 3) == numbers
    for given in ("", "first", "0", "4", "1,1", [], [0], 4):
        with pytest.raises(InputError, match="layers must be 'last', 'all' or different numbers from 1 to 3"):
            chosen_layers(given, 3)


@pytest.mark.parametrize("layers", ["last", "all", "2,1", "1"])
def test_a_directory_holds_what_memory_holds(tmp_path, layers):
    manifest = save_embedding(ENCODER, GRAPH, tmp_path / "e", layers, about={"run": "r"})
    array, read = open_embedding(tmp_path / "e")
    assert read == manifest
    np.testing.assert_array_equal(array, embed_layers(ENCODER, GRAPH, layers))
    verify_array(tmp_path / "e", ArrayEntry.from_json(manifest["arrays"]["embeddings"], "array"))
    assert sorted(p.name for p in (tmp_path / "e").iterdir()) == ["embeddings.npy", "manifest.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["e"]


def test_ids_come_along(tmp_path):
    names = np.array([f"node {i}" for i in range(GRAPH.num_nodes)])
    graph = Graph(GRAPH.indptr, GRAPH.indices, GRAPH.features, ids=names)
    save_embedding(ENCODER, graph, tmp_path / "e")
    np.testing.assert_array_equal(np.load(tmp_path / "e" / "ids.npy"), names)


def test_nothing_appears_when_embedding_fails(tmp_path, monkeypatch):
    def fails(*given, **named):
        raise InputError("no")

    monkeypatch.setattr("lrgi.outputs.embed_layers", fails)
    with pytest.raises(InputError, match="no"):
        save_embedding(ENCODER, GRAPH, tmp_path / "e")
    assert list(tmp_path.iterdir()) == []


def test_something_else_or_newer_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"an embedding must be a directory with a manifest.json"):
        open_embedding(tmp_path)
    save_embedding(ENCODER, GRAPH, tmp_path / "e")
    file = tmp_path / "e" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 2}))
    with pytest.raises(FormatError, match="an embedding's version must be from 1 to 1, got 2"):
        open_embedding(tmp_path / "e")
