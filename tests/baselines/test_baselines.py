"""Propagated features against scipy; an untrained encoder is where a fit begins."""

import numpy as np
import pytest
import scipy.sparse
import torch

from lrgi.baselines.propagate import propagate
from lrgi.baselines.untrained import untrained_encoder
from lrgi.errors import InputError
from lrgi.training.fit import new_layer
from lrgi.training.plan import FitPlan
from reference.graphs import random_graph


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_propagation_is_a_power_of_the_mean_matrix(sparse, steps, monkeypatch):
    monkeypatch.setattr("lrgi.encoder.CHUNK_EDGES", 7)
    graph = random_graph(1, sparse=sparse)
    mean = scipy.sparse.csr_matrix(
        (np.ones(graph.num_edges), graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes)
    )
    mean = scipy.sparse.diags(1 / np.maximum(graph.degrees(), 1)) @ mean
    expected = graph.features.rows(np.arange(graph.num_nodes)).astype(np.float64)
    for _ in range(steps):
        expected = mean @ expected
    np.testing.assert_allclose(propagate(graph, graph.features, steps).array, expected, atol=1e-5)


def test_propagation_needs_the_graphs_own_table():
    graph = random_graph(1)
    with pytest.raises(InputError, match=r"the table must have one row per node \(40\), got 3 rows"):
        propagate(graph, graph.features.slice(0, 3), 1)
    with pytest.raises(InputError, match="steps must be at least 0, got -1"):
        propagate(graph, graph.features, -1)


def test_untrained_is_where_a_fit_begins():
    plan = FitPlan(layers=2, width=8, per_layer=({"width": 12},))
    encoder = untrained_encoder(plan, 6)
    assert [(layer.in_dim, layer.out_dim) for layer in encoder.layers] == [(6, 12), (12, 8)]
    first = new_layer(plan, 1, 6).state_dict()
    for name, value in encoder.layers[0].state_dict().items():
        assert torch.equal(value, first[name])
