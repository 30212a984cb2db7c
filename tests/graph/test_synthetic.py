"""The generators: laws of the graphs they make, and the numbers that the demo leans on."""

import numpy as np
import pytest
import scipy.sparse

from lrgi.errors import InputError
from lrgi.graph._planting import community_bounds
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities, products_training
from lrgi.seed import stream


def adjacency(graph: Graph) -> scipy.sparse.csr_matrix:
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.csr_matrix((np.ones(graph.num_edges), graph.indices, graph.indptr), shape=shape)


@pytest.fixture(scope="module")
def demo() -> Graph:
    return planted_communities()


@pytest.fixture(scope="module")
def products() -> Graph:
    return products_training(nodes=10_000)


@pytest.mark.parametrize("make", [planted_communities, products_training])
def test_a_seed_decides_everything(make):
    one, same, other = (make(nodes=2_000, seed=seed, **SMALL[make]) for seed in (5, 5, 6))
    for name in ("indptr", "indices", "labels", "split"):
        assert np.array_equal(getattr(one, name), getattr(same, name)), name
    assert np.array_equal(one.features.array, same.features.array)
    assert not np.array_equal(one.indices[:100], other.indices[:100])
    assert not np.array_equal(one.features.array, other.features.array)


SMALL = {planted_communities: {"edges": 20_000}, products_training: {"mean_degree": 20.0}}


def test_demo_has_the_numbers_it_promises(demo):
    assert (demo.num_nodes, demo.num_edges, demo.num_features) == (20_000, 400_000, 64)
    assert np.bincount(demo.split, minlength=4).tolist() == [0, 12_000, 4_000, 4_000]
    assert set(np.unique(demo.labels)) == set(range(10))
    degrees = demo.degrees()
    assert 10 <= np.median(degrees) <= 16
    assert 300 <= degrees.max() <= 600
    assert demo.features.array.std() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("which", ["demo", "products"])
def test_edges_go_both_ways_without_self_loops(which, request):
    matrix = adjacency(request.getfixturevalue(which))
    assert (matrix != matrix.T).nnz == 0
    assert matrix.diagonal().sum() == 0
    assert matrix.max() == 1


def test_products_has_the_degrees_of_products(products):
    degrees = products.degrees()
    assert degrees.mean() == pytest.approx(57, rel=0.01)
    assert np.median(degrees) == pytest.approx(38, rel=0.08)
    assert degrees.max() > 15 * degrees.mean()
    assert 0.05 < (degrees < 10).mean() < 0.15
    assert products.num_features == 100
    assert (products.split == 1).all()


def test_node_order_says_nothing_about_the_label(demo):
    same = (demo.labels[1:] == demo.labels[:-1]).mean()
    assert same == pytest.approx(0.1, abs=0.02)


def test_most_edges_join_a_class_but_far_from_all(demo):
    receiver = np.repeat(np.arange(demo.num_nodes), demo.degrees())
    share = (demo.labels[receiver] == demo.labels[demo.indices]).mean()
    assert 0.5 < share < 0.75


def test_every_community_has_a_node():
    bounds = community_bounds(100, 90, 2.0, stream(0, "test"))
    assert bounds[0] == 0
    assert bounds[-1] == 100
    assert (np.diff(bounds) >= 1).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: planted_communities(edges=3), "edges must be an even number of directed edges"),
        (lambda: planted_communities(nodes=50), "nodes must be at least 20 per class (200), got 50; ask for"),
        (lambda: planted_communities(classes=1), "classes must be at least 2, got 1; ask for"),
        (lambda: planted_communities(features=0), "features must be at least 1, got 0; ask for"),
        (lambda: products_training(nodes=1_000, mean_degree=400), "mean_degree must be from 2 to below"),
        (lambda: planted_communities(nodes=200, edges=39_800), "edges must leave room for distinct pairs"),
    ],
)
def test_wrong_sizes_are_refused_in_a_sentence(make, sentence):
    with pytest.raises(InputError) as caught:
        make()
    assert sentence in str(caught.value)
    assert "; " in str(caught.value)
