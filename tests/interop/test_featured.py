"""Features made of the structure for graphs of other libraries: alone, beside others, and once more alike."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.interop.featured import featured, no_features
from lrgi.structural import feature_names, plan_features, structural_features
from reference.tiny import tiny_graph

GRAPH = replace(tiny_graph(), split=None)
BARE = Graph.trusted(GRAPH.indptr, GRAPH.indices, no_features(GRAPH.num_nodes))


def test_a_graph_without_features_is_refused_and_one_with_them_is_left_alone():
    with pytest.raises(InputError, match=r"a graph must have features, got none; give x .*--features-from"):
        featured(BARE)
    assert featured(GRAPH) is GRAPH


def test_alone_and_beside_others_with_the_encoding_that_says_so():
    alone, beside = featured(BARE, "degree"), featured(GRAPH, "degree")
    made = plan_features(BARE, "degree", None)
    np.testing.assert_array_equal(alone.features.array, structural_features(BARE, made))
    np.testing.assert_array_equal(beside.features.array[:, :12], GRAPH.features.array)
    np.testing.assert_array_equal(beside.features.array[:, 12:], alone.features.array)
    assert alone.encoding.made == beside.encoding.made == made
    assert len(beside.encoding.features) + len(feature_names(made)) == beside.num_features
    np.testing.assert_array_equal(beside.labels, GRAPH.labels)


def test_another_graph_gets_the_same_statistics():
    other = Graph.from_edges([[0, 1, 2], [1, 2, 3]], no_features(4))
    alike = featured(other, featured(BARE, "degree").encoding.made)
    np.testing.assert_array_equal(
        alike.features.array, structural_features(other, plan_features(BARE, "degree", None))
    )
    assert not np.allclose(alike.features.array, featured(other, "degree").features.array)


def test_statistics_are_those_of_the_training_nodes():
    split = np.where(np.arange(BARE.num_nodes) < 100, 1, 3)
    seen = featured(Graph.trusted(BARE.indptr, BARE.indices, BARE.features, split=split), "degree")
    assert seen.encoding.made == plan_features(BARE, "degree", split == 1)


def test_sparse_features_and_unknown_sources_are_refused():
    sparse = Graph.from_edges([[0], [1]], sp.eye_array(2, format="csr"))
    with pytest.raises(InputError, match=r"made from degree must stand beside dense ones, got sparse ones"):
        featured(sparse, "degree")
    with pytest.raises(InputError, match="made from one of degree, random-walk, random, got 'rank'"):
        featured(BARE, "rank")
