"""Features of the structure against definitions, and what adding nodes leaves as it was."""

import numpy as np
import pytest

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.structural import SOURCES, feature_names, in_words, plan_features, structural_features
from reference.tiny import tiny_graph

GRAPH = tiny_graph()


def transition() -> np.ndarray:
    """P [N, N]: from a node to each of its neighbours alike."""
    step = np.zeros((GRAPH.num_nodes, GRAPH.num_nodes))
    for node in range(GRAPH.num_nodes):
        near = GRAPH.indices[GRAPH.indptr[node] : GRAPH.indptr[node + 1]]
        step[node, near] = 1 / max(len(near), 1)
    return step


@pytest.mark.parametrize("source", SOURCES)
def test_columns_are_named_finite_and_standardised(source):
    made = plan_features(GRAPH, source, None)
    x = structural_features(GRAPH, made)
    assert x.shape == (GRAPH.num_nodes, len(feature_names(made)))
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    assert in_words(made).startswith(f"{x.shape[1]} columns made from the structure: ")
    np.testing.assert_array_equal(x, structural_features(GRAPH, made))
    if source != "random":
        varied = x.std(0) > 0
        np.testing.assert_allclose(x.std(0)[varied], 1, rtol=1e-3)
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-4)


def test_degrees_are_degrees():
    made = plan_features(GRAPH, "degree", None)
    raw = structural_features(GRAPH, made) * made["scale"] + made["mean"]
    degree = GRAPH.degrees()
    log = np.log1p(degree)
    step = transition()
    np.testing.assert_allclose(raw[:, 0], log, rtol=1e-4)
    np.testing.assert_allclose(raw[:, 1], step @ log, rtol=1e-4)
    np.testing.assert_allclose(
        raw[:, 2], np.sqrt(np.maximum(step @ log**2 - (step @ log) ** 2, 0)), atol=2e-3
    )
    np.testing.assert_allclose(raw[:, 3], step @ step @ log, rtol=1e-4)
    np.testing.assert_allclose(raw[:, 4], log, rtol=1e-4)  # undirected
    np.testing.assert_array_equal(raw[:, 5:].argmax(1), np.floor(np.log2(degree + 1)))


def test_chances_to_return_are_estimated_without_bias():
    step = transition()
    exact = np.diag(np.linalg.matrix_power(step, 2))
    found = []
    for seed in range(20):
        made = plan_features(GRAPH, "random-walk", None, seed)
        found.append(structural_features(GRAPH, made)[:, 0] * made["scale"][0] + made["mean"][0])
    error = np.mean(found, 0) - exact
    spread = np.std(found, 0) / np.sqrt(20)
    assert abs(error.mean()) < 4 * np.sqrt((spread**2).sum()) / len(error)
    assert np.abs(error / spread).mean() < 1.5


@pytest.mark.parametrize("source", ["random", "random-walk"])
def test_nodes_added_at_the_end_change_nothing_far_away(source):
    """Two parts without an edge between them: the second one's coming leaves the first as it was."""
    edges = np.stack([np.repeat(np.arange(GRAPH.num_nodes), GRAPH.degrees()), GRAPH.indices])
    more = np.concatenate([edges, [[240], [241]]], axis=1)
    larger = Graph.from_edges(more, DenseTable(np.zeros((242, 1))))
    made = plan_features(GRAPH, source, None)
    np.testing.assert_array_equal(structural_features(larger, made)[:240], structural_features(GRAPH, made))


def test_statistics_are_those_of_the_training_nodes():
    training = np.arange(GRAPH.num_nodes) < 100
    x = structural_features(GRAPH, plan_features(GRAPH, "degree", training))
    assert abs(x[:100, 0].mean()) < 1e-5
    assert abs(x[100:, 0].mean()) > 1e-4


def test_mistakes():
    with pytest.raises(
        InputError, match="features must be made from one of degree, random-walk, random, got 'x'"
    ):
        plan_features(GRAPH, "x", None)
    for made in ({}, {"from": "x", "seed": 0, "mean": [], "scale": []}, {"from": "degree", "seed": 0}):
        with pytest.raises(FormatError, match="features made from the structure must say how"):
            structural_features(GRAPH, made)
