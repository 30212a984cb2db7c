"""The first layer on the features' principal directions: against numpy's, and what it hands back."""

import numpy as np
import pytest
import torch

from lrgi.distributed.collectives import present
from lrgi.encoder import embed_layer
from lrgi.graph.features import DenseTable, SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities
from lrgi.layers.make import make_layer
from lrgi.training import inputs as module
from lrgi.training.fit import fit_encoder
from lrgi.training.inputs import directions_of
from lrgi.training.journal import Journal, Listener
from lrgi.training.plan import FitPlan

GRAPH = planted_communities(nodes=500, edges=4_000, features=40, seed=2)


def sparse_like(dense):
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(len(dense) + 1))
    return SparseTable(indptr, columns.astype(np.int32), dense[rows, columns], dense.shape[1])


def numpy_directions(x, count):
    centred = x - x.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(x))
    return values[::-1][:count], vectors[:, ::-1][:, :count]


@pytest.mark.parametrize("count", [5, 40])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_directions_are_those_of_numpy(kind, count):
    random = np.random.default_rng(0)
    scales = 0.8 ** np.arange(40)
    x = (random.standard_normal((500, 40)) * scales @ random.standard_normal((40, 40))).astype(np.float32)
    x[:, 3] = 0.0
    x = x * 7 + 2 if kind == "dense" else x * (np.abs(x) > 0.5)
    table = DenseTable(x) if kind == "dense" else sparse_like(x)
    graph = Graph(GRAPH.indptr, GRAPH.indices, table)
    found = directions_of(graph, table, count, present(), "cpu")
    x = x.astype(np.float64)
    if kind == "dense":
        deviation = x.std(0)
        x = np.where(deviation > 1e-9, x / np.where(deviation > 1e-9, deviation, 1), 0)
        into = found.into.numpy() * np.where(deviation > 1e-9, deviation, 0)[:, None]
    else:
        into = found.into.numpy()
    values, vectors = numpy_directions(x, count)
    into = into * np.sqrt(values.mean())
    kept = values > 1e-6 * values[0]
    overlap = np.linalg.svd(vectors[:, kept].T @ into[:, kept])[1]
    np.testing.assert_allclose(overlap, 1, atol=2e-3)  # the same subspace
    turned = (x - x.mean(0)) @ into / np.sqrt(values.mean())
    np.testing.assert_allclose(turned.var(0).mean(), 1, rtol=2e-3)  # a mean variance of one
    np.testing.assert_allclose(turned.var(0)[kept], (values / values.mean())[kept], rtol=0.05, atol=1e-4)
    np.testing.assert_allclose(
        (found.into.t() @ found.back).numpy()[kept][:, kept], np.eye(kept.sum()), atol=1e-3
    )


@pytest.mark.parametrize("kind", ["gat", "sage", "gcn", "plain-gcn"])
def test_the_layer_of_x_gives_what_the_inner_one_gives_of_x_m(kind):
    directions = directions_of(GRAPH, GRAPH.features, 12, present(), "cpu")
    inner, layer, again = (make_layer(kind, d, 8) for d in (12, 40, 12))
    for one, seed in ((inner, 1), (layer, 2), (again, 3)):
        one.reset(torch.Generator().manual_seed(seed))
    directions.put_back(inner, layer)
    turned = DenseTable(GRAPH.features.array @ directions.into.numpy())
    expected = embed_layer(inner, GRAPH, turned).array
    np.testing.assert_allclose(embed_layer(layer, GRAPH, GRAPH.features).array, expected, atol=2e-4)
    directions.put_into(layer, again)
    for a, b in zip(inner.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)


class Seen(Listener):
    def __init__(self):
        self.columns = []

    def fit_begins(self, module, table):
        self.columns.append(table.shape[1])


@pytest.mark.parametrize("threads", [1, 2])
def test_only_the_first_layer_is_turned_and_the_encoder_takes_features_as_given(
    monkeypatch, restore_threads, threads
):
    monkeypatch.setattr(module, "LEAST_DIRECTIONS", 10)
    torch.set_num_threads(threads)
    plan, seen = FitPlan(layers=2, width=8, batch_size=100, updates=5), Seen()
    encoder = fit_encoder(GRAPH, plan, Journal(seen))
    assert seen.columns == [10, 8]
    assert encoder.widths == [40, 8, 8]
    bag = Graph(GRAPH.indptr, GRAPH.indices, sparse_like(GRAPH.features.array * (GRAPH.features.array > 2)))
    words = Seen()
    fit_encoder(bag, plan, Journal(words))
    assert words.columns == [40, 8]  # a few words each: as given
    given = Seen()
    fit_encoder(GRAPH, plan.with_settings(inputs="given"), Journal(given))
    assert given.columns == [40, 8]
    torch.set_num_threads(3 - threads)
    other = fit_encoder(GRAPH, plan)
    assert np.array_equal(encoder.embed(GRAPH).array, other.embed(GRAPH).array)
