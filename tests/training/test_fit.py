"""Laws of a fit: determinism, independence of layers, what is refused."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from lrgi.compute.threads import lanes
from lrgi.encoder import Encoder, embed_layer
from lrgi.errors import DivergedError, InputError
from lrgi.graph.features import DenseTable, SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.store import open_graph, save_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.layers.stack import Stack
from lrgi.sampling.sample import Batches
from lrgi.training.fit import fit_encoder, fit_layer, new_layer
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.objective import views
from lrgi.training.optimize import learning_rate
from lrgi.training.plan import FitPlan
from lrgi.training.presets import PRESETS, preset

PLAN = FitPlan(layers=2, width=16, batch_size=64, updates=12, learning_rate=5e-3, seed=3)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_communities(nodes=600, edges=6_000, features=24, seed=1)


class Losses(Listener):
    def __init__(self) -> None:
        self.totals: list[float] = []
        self.tables: dict[int, np.ndarray] = {}

    def step_taken(self, record: StepRecord) -> None:
        self.totals.append(float(record.terms.total(PLAN.weights)))

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        self.tables[layer] = table.array


def weights_of(encoder: Encoder) -> list[np.ndarray]:
    return [p.detach().numpy().copy() for layer in encoder.layers for p in layer.parameters()]


@pytest.mark.parametrize("kind", ["gat", "sage", "gcn"])
@pytest.mark.parametrize("batch_size", [64, 0])
def test_same_bits_for_one_two_and_three_threads(graph, restore_threads, kind, batch_size):
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        encoder = fit_encoder(graph, PLAN.with_settings(layer=kind, batch_size=batch_size, updates=5))
        results.append([*weights_of(encoder), encoder.embed(graph).array])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.array_equal(a, b)


def test_another_seed_is_another_encoder(graph):
    a, b = (fit_encoder(graph, PLAN.with_settings(seed=seed, layers=1)) for seed in (0, 1))
    assert not np.allclose(a.embed(graph).array, b.embed(graph).array, atol=1e-2)


def test_layer_two_fitted_alone_from_the_stored_table_is_the_same(graph):
    heard = Losses()
    whole = fit_encoder(graph, PLAN, Journal(heard))
    alone = new_layer(PLAN, 2, PLAN.width)
    fit_layer(alone, graph, DenseTable(heard.tables[1].copy()), PLAN, 2)
    for a, b in zip(whole.layers[1].parameters(), alone.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_mapped_graph_fits_and_embeds_as_one_in_memory(graph, tmp_path):
    save_graph(graph, tmp_path / "g")
    mapped = open_graph(tmp_path / "g")
    a, b = fit_encoder(graph, PLAN), fit_encoder(mapped, PLAN)
    assert np.array_equal(a.embed(graph).array, b.embed(mapped).array)


def test_the_loss_falls(graph):
    heard = Losses()
    fit_encoder(
        graph,
        PLAN.with_settings(layers=1, updates=150, predictors="network", reconstruction=25.0),
        Journal(heard),
    )
    assert np.mean(heard.totals[-20:]) < 0.5 * np.mean(heard.totals[:5])


def test_sparse_features_fit_as_the_same_features_dense(graph):
    dense = graph.features.array * (np.abs(graph.features.array) > 0.8)
    n, d = dense.shape
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(n + 1))
    sparse = SparseTable(indptr, columns.astype(np.int32), dense[rows, columns], d)
    embedded = []
    for table in (DenseTable(dense), sparse):
        g = Graph(graph.indptr, graph.indices, table)
        embedded.append(fit_encoder(g, PLAN.with_settings(updates=6, inputs="given")).embed(g).array)
    assert np.abs(embedded[0] - embedded[1]).max() < 5e-3  # sums in another order, then Adam


@pytest.mark.parametrize("chunk", [1, 50, 700])
@pytest.mark.parametrize("kind", ["gat", "sage", "gcn"])
def test_embedding_in_chunks_is_embedding_at_once(graph, monkeypatch, kind, chunk):
    import lrgi.encoder as module

    layer = new_layer(PLAN.with_settings(layer=kind), 1, graph.num_features)
    at_once = embed_layer(layer, graph, graph.features).array
    monkeypatch.setattr(module, "CHUNK_EDGES", chunk)
    monkeypatch.setattr(module, "CHUNK_ROWS", max(chunk // 3, 1))
    monkeypatch.setattr(module, "SCRATCH_IN_MEMORY", 0)
    in_chunks = embed_layer(layer, graph, graph.features).array
    np.testing.assert_allclose(in_chunks, at_once, rtol=0, atol=2e-6)


def test_embedding_to_a_mapped_file(graph, tmp_path):
    layer = new_layer(PLAN, 1, graph.num_features)
    out = np.lib.format.open_memmap(tmp_path / "u.npy", "w+", np.float32, (graph.num_nodes, PLAN.width))
    embed_layer(layer, graph, graph.features, out)
    assert np.array_equal(np.load(tmp_path / "u.npy"), embed_layer(layer, graph, graph.features).array)
    assert [p.name for p in tmp_path.iterdir()] == ["u.npy"]


def test_renaming_nodes_renames_embeddings(graph):
    encoder = fit_encoder(graph, PLAN)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    new_name = np.argsort(order)  # node order[i] becomes i
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    edges = np.stack([new_name[graph.indices], new_name[rows]])
    renamed = Graph.from_edges(edges, graph.features.array[order], directed=True)
    difference = encoder.embed(renamed).array - encoder.embed(graph).array[order]
    assert np.abs(difference).max() < 1e-5


def test_bf16_stays_close_and_its_weights_are_float32(graph):
    full = fit_encoder(graph, PLAN)
    narrow = fit_encoder(graph, PLAN.with_settings(precision="bf16"))
    difference = np.abs(full.embed(graph).array - narrow.embed(graph).array)
    assert 0 < difference.mean() < 0.05
    assert all(p.dtype == torch.float32 for layer in narrow.layers for p in layer.parameters())


def test_whole_graphs_as_batches(graph):
    plan = PLAN.with_settings(batch_size=0, neighbours=0, next_neighbours=0, epochs=3, layers=1)
    heard = Losses()
    fit_encoder(graph, plan, Journal(heard))
    assert len(heard.totals) == 3


def test_views_of_a_stack_are_those_of_its_layers_applied_to_all_nodes(graph):
    layers = [new_layer(PLAN, number, d) for number, d in ((1, graph.num_features), (2, PLAN.width))]
    sampling = PLAN.with_settings(batch_size=0).sampling_over(2, 1)
    (block,) = Batches(graph, sampling, 0, 1).epoch(1)
    with torch.no_grad():
        u, v = views(Stack(layers), graph.features, block)
    table = graph.features
    for layer in layers:
        table = embed_layer(layer, graph, table)
    np.testing.assert_allclose(u.numpy(), table.array, atol=1e-5)
    mean = np.stack(
        [table.array[graph.indices[a:b]].mean(0) if b > a else np.zeros(PLAN.width)
         for a, b in pairwise(graph.indptr)]
    )  # fmt: skip
    np.testing.assert_allclose(v.numpy(), mean, atol=1e-5)


def test_rgi_end_to_end_is_the_one_layer_fit_on_a_stack(graph):
    layers = [new_layer(PLAN, number, d) for number, d in ((1, graph.num_features), (2, PLAN.width))]
    heard = Losses()
    plan = PLAN.with_settings(batch_size=0, neighbours=0, next_neighbours=0, epochs=30, learning_rate=5e-3)
    stack = Stack(layers)
    before = [p.detach().clone() for p in layers[0].parameters()]

    fit_layer(stack, graph, graph.features, plan, 1, journal=Journal(heard))
    assert heard.totals[-1] < 0.8 * heard.totals[0]
    assert all(not torch.equal(a, b) for a, b in zip(before, layers[0].parameters(), strict=True))


def test_per_layer_settings_reach_their_layer(graph):
    plan = PLAN.with_settings(per_layer=({}, {"width": 32, "layer": "sage"}))
    encoder = fit_encoder(graph, plan)
    assert [layer.kind for layer in encoder.layers] == ["gat", "sage"]
    assert encoder.embed(graph).shape == (600, 32)
    assert FitPlan.from_mapping(json.loads(json.dumps(plan.to_mapping()))).to_mapping() == plan.to_mapping()


def test_a_loss_that_is_not_finite_is_refused_with_its_place(graph):
    with pytest.raises(
        DivergedError, match=r"loss must be finite, got .* at layer 1, epoch \d+, step \d+ of"
    ):
        fit_encoder(graph, PLAN.with_settings(learning_rate=1e30))


def test_the_learning_rate_rises_and_falls():
    plan = FitPlan(learning_rate=1.0, warmup=0.1)
    rates = [learning_rate(plan, step, 100) for step in range(1, 101)]
    assert rates[:10] == pytest.approx(np.arange(1, 11) / 10)
    assert rates[10] == 1.0
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert rates[55] == pytest.approx(0.5 * (1 + math.cos(math.pi * 45 / 90)))
    constant = FitPlan(learning_rate=2.0, warmup=0.0, schedule="constant")
    assert {learning_rate(constant, step, 7) for step in range(1, 8)} == {2.0}


def test_threads_are_restored_after_a_fit(graph, restore_threads):
    torch.set_num_threads(2)
    fit_encoder(graph, PLAN.with_settings(layers=1, updates=2))
    assert torch.get_num_threads() == 2
    with pytest.raises(DivergedError), lanes():
        fit_encoder(graph, PLAN.with_settings(learning_rate=1e30))
    assert torch.get_num_threads() == 2


def test_presets_are_the_papers_table():
    table = {  # L, D, B, S_L, S_K, epochs, lr, decay, lambda 1 to 3, as printed in the paper
        "ppi": (3, 1024, 0, 0, 0, 1000, 1e-4, 1e-5, 25, 25, 20),
        "reddit": (2, 512, 128, 10, 5, 100, 1e-4, 1e-5, 50, 25, 10),
        "products": (3, 128, 512, 10, 5, 100, 1e-4, 1e-5, 25, 10, 1),
    }
    assert set(PRESETS) == set(table)
    for name, row in table.items():
        p = preset(name)
        numbers = (p.layers, p.width, p.batch_size, p.neighbours, p.next_neighbours, p.epochs)
        assert (*numbers, p.learning_rate, p.weight_decay, *p.weights) == row
        assert (p.layer, p.heads, p.expansion, p.schedule) == ("gat", 4, 8, "constant")
    with pytest.raises(InputError, match="preset must be one of ppi, reddit, products, got 'cora'"):
        preset("cora")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"width": 30}, "width must be divisible by the number of heads, got width 30 and 4 heads"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"layer": "gin"}, "layer must be one of gat, sage, gcn, plain-gcn, got 'gin'"),
        ({"batch_size": 1}, "batch_size must be 0 or at least 2, got 1"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"width": 12.5}, "width must be a whole number, got 12.5"),
        ({"warmup": 1.0}, "warmup must be a share from 0 to below 1, got 1.0"),
        ({"covariance": -1.0}, "covariance must be 0 or more, got -1.0"),
        ({"per_layer": ({"seed": 1},)}, "per_layer must not set seed, got it for layer 1"),
        ({"per_layer": ({},) * 4}, "per_layer must name at most 3 layers, got 4"),
        ({"per_layer": ({"depth": 1},)}, "a setting must be one of .*, got 'depth'"),
    ],
)
def test_plans_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        FitPlan(**settings)


@pytest.mark.parametrize(
    ("settings", "batches", "epochs"),
    [({}, 2, 20), ({}, 10, 10), ({}, 100, 2), ({}, 1000, 1), ({"batch_size": 0}, 1, 200),
     ({"updates": 30}, 4, 8), ({"epochs": 3}, 1000, 3)],
)  # fmt: skip
def test_how_often_nodes_are_passed_over(settings, batches, epochs):
    """Ten passes where nothing is said, but 40 to 200 steps; a whole graph is one step."""
    assert FitPlan(**settings).epochs_of(batches) == epochs
