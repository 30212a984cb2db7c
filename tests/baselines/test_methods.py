"""Laws of every method by name: same seed same bits, no label leaks, it learns; and those of whitening."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lrgi.baselines import untrained
from lrgi.baselines.methods import METHODS, fit_method
from lrgi.baselines.supervised import training_labels
from lrgi.baselines.whiten import fit_whiten
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import disjoint_union, training_subgraph
from lrgi.graph.split import TRAIN
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.npz import read_npz
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.training.fit import fit_encoder, new_layer
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.plan import FitPlan
from reference.graphs import random_graph

PLAN = FitPlan(
    layers=2, width=8, heads=2, expansion=2, batch_size=50, neighbours=5, next_neighbours=3, updates=6, seed=4
)
END_TO_END = ("dgi", "gbt", "graphmae", "bgrl", "cca-ssg", "rgi", "supervised")
FITTED = (*END_TO_END, "whiten", "lrgi")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_communities(nodes=300, edges=2_400, features=12, seed=2)


def bits(fitted: Any, graph: Graph) -> list[np.ndarray]:
    weights = [p.detach().numpy().copy() for layer in fitted.layers for p in layer.parameters()]
    return [*weights, fitted.embed(graph).array]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_a_table_per_layer_of_any_graph(graph, name):
    other = planted_communities(nodes=250, edges=2_000, features=12, seed=9)
    fitted = fit_method(name, graph, PLAN)
    tables = list(fitted.tables(other))
    assert len(tables) == (1 if name == "raw" else 2)
    width = 12 if name in ("raw", "propagate") else 8
    assert all(table.shape == (250, width) and np.isfinite(table.array).all() for table in tables)
    assert np.array_equal(fitted.embed(other).array, tables[-1].array)


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("batch_size", [0, 50])
def test_same_seed_same_bits_for_one_and_two_threads(graph, restore_threads, name, batch_size):
    results = []
    for threads in (1, 2, 2):
        torch.set_num_threads(threads)
        results.append(bits(fit_method(name, graph, PLAN.with_settings(batch_size=batch_size)), graph))
    assert same(results[0], results[1])
    assert same(results[1], results[2])


@pytest.mark.parametrize("name", END_TO_END)
def test_another_seed_is_another_encoder_and_a_fit_moves_every_layer(graph, name):
    a, b = (fit_method(name, graph, PLAN.with_settings(seed=seed)) for seed in (0, 1))
    assert not same(bits(a, graph), bits(b, graph))
    fresh = untrained.untrained_encoder(PLAN.with_settings(seed=0), graph.num_features)
    for fitted, begun in zip(a.layers, fresh.layers, strict=True):
        for after, before in zip(fitted.parameters(), begun.parameters(), strict=True):
            assert not torch.equal(after, before)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("batch_size", [0, 50])
def test_no_label_of_validation_and_test_nodes_leaks(graph, name, batch_size):
    plan, random = PLAN.with_settings(batch_size=batch_size), np.random.default_rng(0)
    before = bits(fit_method(name, graph, plan), graph)
    held_out = np.flatnonzero(graph.split != TRAIN)
    labels = graph.labels.copy()
    labels[held_out] = random.permutation(labels[held_out])
    assert not np.array_equal(labels, graph.labels)
    assert same(before, bits(fit_method(name, replace(graph, labels=labels), plan), graph))
    if name != "supervised":
        assert same(before, bits(fit_method(name, replace(graph, labels=None, split=None), plan), graph))


def test_supervised_reads_the_labels_of_training_nodes(graph):
    labels = graph.labels.copy()
    train = np.flatnonzero(graph.split == TRAIN)
    labels[train] = np.random.default_rng(0).permutation(labels[train])
    a, b = (fit_method("supervised", g, PLAN) for g in (graph, replace(graph, labels=labels)))
    assert not same(bits(a, graph), bits(b, graph))


def test_supervised_with_many_labels_unknown_ones_and_none_at_all(graph):
    many = (np.arange(300)[:, None] % np.arange(2, 7) == 0).astype(np.uint8)
    fit_method("supervised", replace(graph, labels=many), PLAN)
    unknown = np.where(np.arange(300) % 2 == 0, graph.labels, -1)
    nodes, known = training_labels(replace(graph, labels=unknown))
    assert (graph.split[nodes] == TRAIN).all()
    assert (nodes % 2 == 0).all()
    assert np.array_equal(known, graph.labels[nodes])
    for bad in (replace(graph, labels=None), replace(graph, split=None)):
        with pytest.raises(InputError, match="must have labels and a split, got no"):
            fit_method("supervised", bad, PLAN)
    with pytest.raises(InputError, match="must have labelled training nodes, got none"):
        fit_method("supervised", replace(graph, labels=np.full(300, -1)), PLAN)


class Heard(Listener):
    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self.calls: list[str] = []

    def layer_started(self, layer, plan, steps) -> None:
        self.calls.append(f"start {layer}: {steps}")

    def layer_fitted(self, layer, module) -> None:
        self.calls.append(f"fitted {layer}: {module.out_dim}")

    def step_taken(self, record: StepRecord) -> None:
        self.records.append(record)


def test_supervised_batches_hold_training_nodes_only(graph):
    heard = Heard()
    fit_method("supervised", graph, PLAN, Journal(heard))
    seen = np.concatenate([r.block.nodes[: r.block.num_targets] for r in heard.records])
    assert set(seen.tolist()) == set(np.flatnonzero(graph.split == TRAIN).tolist())


@pytest.mark.parametrize(
    ("name", "fan_outs"),
    [("rgi", (5, 5, 3)), ("graphmae", (5, 5, 3)), ("dgi", (5, 5)), ("supervised", (5, 5))],
)  # fmt: skip
def test_blocks_have_as_many_hops_as_the_method_reads(graph, name, fan_outs):
    heard = Heard()
    fit_method(name, graph, PLAN, Journal(heard))
    for record in heard.records:
        block = record.block
        starts = (0, *block.ring_ends[:-2])
        assert block.depth == len(fan_outs)
        for start, stop, most in zip(starts, block.ring_ends[:-1], fan_outs, strict=True):
            rows = block.nodes[start:stop]
            degrees = np.minimum(graph.degrees()[rows], most)
            assert np.array_equal(np.diff(block.indptr[start : stop + 1]), degrees)
        assert np.isfinite(float(record.terms.total(PLAN.weights)))


def test_rgi_of_one_layer_is_lrgi_of_one_layer(graph):
    plan = PLAN.with_settings(layers=1, inputs="given")
    assert same(bits(fit_method("rgi", graph, plan), graph), bits(fit_encoder(graph, plan), graph))


@pytest.mark.parametrize("name", END_TO_END)
def test_a_journal_hears_of_one_fit(graph, name):
    heard = Heard()
    fit_method(name, graph, PLAN.with_settings(batch_size=0), Journal(heard))
    assert heard.calls == ["start 1: 6", "fitted 1: 8"]
    assert [record.place.step for record in heard.records] == [1, 2, 3, 4, 5, 6]
    for record in heard.records:
        parts = record.terms._asdict()
        assert parts
        assert not any(part.requires_grad for part in parts.values())


@pytest.mark.parametrize("name", END_TO_END)
def test_bf16_stays_close(graph, name):
    full, narrow = (
        fit_method(name, graph, PLAN.with_settings(precision=p)).embed(graph).array
        for p in ("float32", "bf16")
    )
    assert 0 < np.abs(full - narrow).mean() < 0.05


@pytest.mark.parametrize("name", FITTED)
def test_fitted_encoders_go_to_disk_and_back(graph, tmp_path, name):
    fitted = fit_method(name, graph, PLAN)
    fitted.save(tmp_path / "encoder")
    assert np.array_equal(Encoder.load(tmp_path / "encoder").embed(graph).array, fitted.embed(graph).array)


@pytest.mark.parametrize("name", END_TO_END)
def test_many_graphs_are_batches_of_their_own(graph, name):
    parts = [planted_communities(nodes=n, edges=8 * n, features=12, seed=n) for n in (220, 240, 260)]
    many = disjoint_union(parts)
    heard = Heard()
    fit_method(name, many, PLAN.with_settings(batch_size=0, updates=1, epochs=2), Journal(heard))
    assert sorted(r.block.num_targets for r in heard.records) == [220, 220, 240, 240, 260, 260]


# What is learned. Two layers on a graph whose classes show in neighbourhoods more than in nodes.

TRAINED = FitPlan(layers=2, width=32, layer="sage", batch_size=0, updates=60, learning_rate=2e-2, expansion=2)


@pytest.fixture(scope="module")
def learnable() -> Graph:
    return planted_communities(nodes=2_000, edges=24_000, seed=0)


@pytest.fixture
def without_skip(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Layers whose linear skip is held at zero."""

    def layer_without_skip(plan, number, in_dim):
        layer = new_layer(plan, number, in_dim)
        torch.nn.init.zeros_(layer.skip)
        layer.skip.requires_grad_(False)
        return layer

    monkeypatch.setattr(untrained, "new_layer", layer_without_skip)
    yield


def score(graph: Graph, fitted: Any) -> float:
    """Test and validation nodes together, 800 of them: a deviation of 1.8 points."""
    result = probe_table(Views(graph), fitted.embed(graph), None, ProbePlan(epochs=200, seeds=(0,)))
    return (result.validation_mean + result.test_mean) / 2


def test_methods_beat_the_untrained_encoder(learnable):
    before = score(learnable, fit_method("random", learnable, TRAINED))
    gains = {}
    for name in ("dgi", "graphmae", "rgi", "lrgi", "supervised"):
        gains[name] = score(learnable, fit_method(name, learnable, TRAINED)) - before
    assert min(gains.values()) > 0.08, gains


def test_methods_of_invariance_learn_without_the_linear_skip(learnable, without_skip):
    """With it they do not on this graph: see the next test."""
    before = score(learnable, fit_method("random", learnable, TRAINED))
    gains = {}
    for name in ("gbt", "cca-ssg"):
        gains[name] = score(learnable, fit_method(name, learnable, TRAINED)) - before
    slower = TRAINED.with_settings(learning_rate=1e-2, updates=150)  # the target has to come after
    fitted = fit_method("bgrl", learnable, slower, settings={"inertia": 0.9})
    gains["bgrl"] = score(learnable, fitted) - before
    assert min(gains.values()) > 0.03, gains


CORA = Path(__file__).resolve().parents[3] / "shared" / "data" / "cora.npz"


@pytest.mark.skipif(not CORA.exists(), reason=f"{CORA} is not there")
def test_all_beat_the_untrained_encoder_on_a_real_graph():
    """Where features are words and not noise, methods of invariance learn too."""
    cora = read_npz(CORA)
    words = np.diff(cora.features.indptr)
    share = (10 * cora.features.data / np.repeat(words, words)).astype(np.float32)
    cora = replace(cora, features=replace(cora.features, data=share))
    plan = TRAINED.with_settings(layer="plain-gcn", updates=40, learning_rate=5e-3)
    before = score(cora, fit_method("random", cora, plan))
    gains = {}
    for name in ("dgi", "gbt", "graphmae", "bgrl", "cca-ssg", "rgi"):
        settings = {"inertia": 0.9} if name == "bgrl" else {}
        gains[name] = score(cora, fit_method(name, cora, plan, settings=settings)) - before
    assert min(gains.values()) > 0.05, gains


def test_why_methods_of_invariance_need_it_gone(learnable):
    """A node's own features reach both views through the skip, whatever edges are dropped.

    What both views have in common is kept, noise and all, so embeddings come to depend on the node's own
    features more than those of the untrained encoder do. Methods that foretell neighbourhoods turn to these.
    """
    alone = Graph.from_edges(np.array([[0], [1]]), learnable.features, num_nodes=learnable.num_nodes)

    def share_of_own_features(encoder: Encoder) -> float:
        """The columns' mean correlation with what they are when a node has no neighbours."""
        whole, own = encoder.embed(learnable).array, encoder.embed(alone).array
        whole, own = ((x - x.mean(0)) / (x.std(0) + 1e-6) for x in (whole, own))
        return float(np.mean(whole * own))

    names = ("random", "gbt", "cca-ssg", "bgrl", "dgi", "rgi")
    shares = {name: share_of_own_features(fit_method(name, learnable, TRAINED)) for name in names}
    assert min(shares[name] for name in ("gbt", "cca-ssg", "bgrl")) > shares["random"] + 0.02, shares
    assert max(shares[name] for name in ("dgi", "rgi")) < shares["random"] - 0.1, shares


@pytest.mark.parametrize("name", ["dgi", "graphmae", "rgi", "supervised"])
def test_sampled_fits_learn_too(learnable, name):
    plan = TRAINED.with_settings(batch_size=500, neighbours=8, next_neighbours=5)
    gain = score(learnable, fit_method(name, learnable, plan)) - score(
        learnable, fit_method("random", learnable, plan)
    )
    assert gain > 0.05


# Whitening.


@pytest.mark.parametrize("sparse", [False, True])
def test_whitened_steps_have_mean_zero_and_covariance_one(sparse):
    graph = random_graph(2, nodes=200, edges=1_500, width=6, sparse=sparse)
    for table in fit_whiten(graph, PLAN.with_settings(width=6)).tables(graph):
        x = table.array.astype(np.float64)
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-4)
        np.testing.assert_allclose(x.T @ x / len(x), np.eye(6), atol=5e-3)


def test_whitening_is_numpys(graph):
    rows = np.repeat(np.arange(300), np.diff(graph.indptr))
    mean = np.zeros((300, 12))
    np.add.at(mean, rows, graph.features.array[graph.indices].astype(np.float64))
    mean /= np.maximum(graph.degrees(), 1)[:, None]
    centred = mean - mean.mean(0)
    _, deviations, directions = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(directions[np.arange(12), np.abs(directions).argmax(1)])
    expected = centred @ (directions * signs[:, None]).T / deviations * np.sqrt(300)
    (table,) = fit_whiten(graph, PLAN.with_settings(layers=1)).tables(graph)
    np.testing.assert_allclose(table.array, expected[:, :8], atol=2e-3)


def test_whitening_is_fitted_on_the_nodes_it_is_given_and_embeds_others(graph):
    seen, ids = training_subgraph(graph, "train")
    changed = graph.features.array.copy()
    changed[np.setdiff1d(np.arange(300), ids)] += 7
    other = replace(graph, features=DenseTable(changed))
    a = fit_whiten(seen, PLAN)
    b = fit_whiten(training_subgraph(other, "train")[0], PLAN)
    assert same(bits(a, graph), bits(b, graph))


def test_columns_that_say_nothing_do_not_blow_up(graph):
    values = graph.features.array.copy()
    values[:, 3], values[:, 4] = 1.0, values[:, 5]
    flat = replace(graph, features=DenseTable(values))
    table = fit_whiten(flat, PLAN.with_settings(width=12)).embed(flat)
    assert np.abs(table.array).max() < 100


def test_unknown_names_are_refused(graph):
    with pytest.raises(InputError, match=r"method must be one of raw, random, .*, supervised, got 'svd'"):
        fit_method("svd", graph, PLAN)
    with pytest.raises(InputError, match="a setting of gbt must be one of edges, columns, got 'edge'"):
        fit_method("gbt", graph, PLAN, settings={"edge": 0.1})
    with pytest.raises(InputError, match="a setting of dgi must be left out, for it has none, got 'edges'"):
        fit_method("dgi", graph, PLAN, settings={"edges": 0.1})
