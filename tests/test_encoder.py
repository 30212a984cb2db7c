"""Encoders on disk, and as PyG modules."""

from __future__ import annotations

import json
from mmap import mmap

import numpy as np
import pytest
import torch

from lrgi.card import CARD
from lrgi.directory import write_sealed
from lrgi.encoder import CONFIG, WEIGHTS, Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.pyg import to_pyg
from lrgi.interop.pyg_module import to_pyg_module
from lrgi.layers.pyg import PyGLayer
from lrgi.seed import torch_stream
from lrgi.training.fit import new_layer
from lrgi.training.plan import FitPlan


@pytest.fixture(scope="module")
def graph():
    return planted_communities(nodes=500, edges=4_000, features=20, seed=2)


def make(kind: str = "gat") -> Encoder:
    plan = FitPlan(layers=2, width=16, layer=kind, seed=5)
    layers = [new_layer(plan, 1, 20), new_layer(plan, 2, 16)]
    for layer in layers:
        torch.nn.init.normal_(layer.bias, generator=torch_stream(1, "bias"))
    return Encoder(layers, {"note": "ö"})


@pytest.mark.parametrize("kind", ["gat", "sage", "gcn"])
def test_saved_and_loaded_embeds_the_same_bits(graph, tmp_path, kind):
    encoder = make(kind)
    encoder.save(tmp_path / "e")
    encoder.save(tmp_path / "e")  # its own kind may be replaced
    loaded = Encoder.load(tmp_path / "e")
    assert np.array_equal(loaded.embed(graph).array, encoder.embed(graph).array)
    assert loaded.extra == {"note": "ö"}
    assert sorted(p.name for p in (tmp_path / "e").iterdir()) == [CARD, CONFIG, WEIGHTS]


@pytest.mark.parametrize("kind", ["gat", "sage", "gcn"])
def test_the_pyg_module_gives_the_same_embeddings_and_gradients(graph, kind):
    encoder = make(kind)
    module, data = to_pyg_module(encoder), to_pyg(graph)
    out = module(data.x, data.edge_index)
    np.testing.assert_allclose(out.detach().numpy(), encoder.embed(graph).array, atol=1e-5)
    out.square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in module.parameters())


def test_every_layers_table(graph):
    tables = list(make().tables(graph))
    assert [t.shape for t in tables] == [(500, 16), (500, 16)]
    assert np.array_equal(tables[-1].array, make().embed(graph).array)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap | mmap):
        array = getattr(array, "base", None)
    return array is not None


def test_tables_in_mapped_files_are_those_in_memory_and_leave_no_file(tmp_path):
    graph = planted_communities(nodes=300, edges=2_000, features=20)
    for mapped, held in zip(make().tables(graph, tmp_path), make().tables(graph), strict=True):
        assert is_mapped(mapped.array) and not is_mapped(held.array)
        assert np.array_equal(mapped.array, held.array)
        assert not list(tmp_path.iterdir())


def test_a_graph_with_other_columns_is_refused():
    other = planted_communities(nodes=300, edges=2_000, features=21)
    with pytest.raises(InputError, match="must have the 20 feature columns of the fit, got 21"):
        make().embed(other)


def test_other_places_are_refused(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"place for an encoder must be free, got .*something else"):
        make().save(tmp_path / "x")
    assert (tmp_path / "x" / "thesis.txt").read_text() == "mine"
    with pytest.raises(FormatError, match=r"must be a directory with a config\.json of format"):
        Encoder.load(tmp_path / "x")


def test_a_newer_version_and_torn_weights_are_refused(tmp_path):
    make().save(tmp_path / "e")
    config = json.loads((tmp_path / "e" / CONFIG).read_text())
    (tmp_path / "e" / CONFIG).write_text(json.dumps({**config, "version": 2}))
    with pytest.raises(FormatError, match="version must be from 1 to 1, got 2"):
        Encoder.load(tmp_path / "e")
    write_sealed(tmp_path / "e" / CONFIG, config)
    weights = (tmp_path / "e" / WEIGHTS).read_bytes()
    for torn in (weights[:-5], weights[:4], b"", weights[:8] + b"x" + weights[9:]):
        (tmp_path / "e" / WEIGHTS).write_bytes(torn)
        with pytest.raises(FormatError, match="must belong together"):
            Encoder.load(tmp_path / "e")
    (tmp_path / "e" / WEIGHTS).write_bytes(weights)
    (tmp_path / "e" / CONFIG).write_text(json.dumps({**config, "layers": config["layers"][:1]}))
    with pytest.raises(FormatError, match="must belong together"):
        Encoder.load(tmp_path / "e")


def test_a_wrapped_convolution_is_not_saved(tmp_path):
    from torch_geometric.nn import SAGEConv

    with pytest.raises(InputError, match="must have gat, sage or gcn layers, got a wrapped PyG convolution"):
        Encoder([PyGLayer(SAGEConv(4, 4), 4, 4)]).save(tmp_path / "e")
    assert not list(tmp_path.iterdir())
