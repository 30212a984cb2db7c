"""The generator of ogbn-products' shape: its laws, its kernels beside slow ones, its published targets."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

from lrgi.errors import InputError
from lrgi.graph import _products_kernels as kernels
from lrgi.graph import products
from lrgi.graph.edges import in_neighbours
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.products import Sizes, write_products
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.graph.store import open_graph, verify_graph
from lrgi.seed import key, stream
from reference.products import draw_key


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("products") / "graph"
    write_products(path, 0.02)
    return path


@pytest.fixture(scope="module")
def graph(made: Path) -> Graph:
    return open_graph(made)


def test_the_full_size_is_the_published_one():
    assert Sizes.at(1) == Sizes(2_449_029, 61_859_140, 196_615, 39_323)
    assert Sizes.at(1).nodes - 196_615 - 39_323 == 2_213_091


def test_what_is_written_keeps_every_rule_of_a_graph(made):
    verify_graph(made)


def test_counts_are_exact(graph):
    sizes = Sizes.at(0.02)
    assert (graph.num_nodes, graph.num_edges) == (sizes.nodes, 2 * sizes.edges)
    parts = np.bincount(graph.split, minlength=4)
    assert parts[[TRAIN, VALIDATION]].tolist() == [sizes.training, sizes.validating]
    assert parts[0] == 0
    assert parts[TEST] == sizes.nodes - sizes.training - sizes.validating
    assert graph.features.shape == (sizes.nodes, 100)


def test_edges_go_both_ways(graph):
    shape = (graph.num_nodes, graph.num_nodes)
    matrix = scipy.sparse.csr_matrix((np.ones(graph.num_edges), graph.indices, graph.indptr), shape=shape)
    assert (matrix != matrix.T).nnz == 0


def test_training_nodes_are_the_popular_ones_and_their_part_is_as_dense_as_the_papers(graph):
    degrees = graph.degrees()
    assert degrees[graph.split == TRAIN].mean() > 1.8 * degrees[graph.split == TEST].mean()
    seen, _ = training_subgraph(graph)
    assert seen.degrees().mean() == pytest.approx(57, rel=0.01)
    assert np.median(seen.degrees()) == pytest.approx(38, rel=0.1)


def test_classes_are_unequal_and_all_there(graph):
    counts = np.bincount(graph.labels, minlength=47)
    assert counts.min() > 0
    assert 0.15 < counts.max() / counts.sum() < 0.45


def test_neighbours_share_the_class_only_in_part(graph):
    rows = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    same = (graph.labels[rows] == graph.labels[graph.indices]).mean()
    chance = ((np.bincount(graph.labels) / graph.num_nodes) ** 2).sum()
    assert chance + 0.1 < same < 0.8


def test_a_seed_decides_everything_whatever_the_threads(tmp_path):
    before = torch.get_num_threads()
    try:
        for name, seed, threads in (("one", 5, 1), ("same", 5, 2), ("other", 6, 2)):
            torch.set_num_threads(threads)
            write_products(tmp_path / name, 0.002, seed)
    finally:
        torch.set_num_threads(before)
    for file in (tmp_path / "one").glob("*.npy"):
        assert file.read_bytes() == (tmp_path / "same" / file.name).read_bytes(), file.name
        if file.stem != "split":
            assert file.read_bytes() != (tmp_path / "other" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("scale", [0, 0.001, 1.01, float("nan")])
def test_a_scale_out_of_range_is_refused(scale, tmp_path):
    with pytest.raises(InputError, match=r"scale must lie in 0\.002 to 1"):
        write_products(tmp_path / "g", scale)
    assert not list(tmp_path.iterdir())


def test_draws_agree_with_the_slow_ones():
    sizes = Sizes.at(0.002)
    training, others, shares = products._sides(sizes, 3)
    order = stream(3, "test").permutation(sizes.nodes)
    word = key(3, "test")
    for source, goal in ((training, others), (others, others)):
        sources = (source.weights, source.guide, source.community, source.first)
        goals = (goal.weights, goal.guide, goal.bounds, goal.first)
        keys = np.full(3000, -7, dtype=np.int64)
        kernels.draw_keys(sources, goals, shares, order, word, (1000, 3000), keys)
        slow = [draw_key(sources, goals, shares, order, int(word), i) for i in range(1000, 3000)]
        assert keys[1000:].tolist() == slow
        assert (keys[:1000] == -7).all()


def test_ends_are_placed_as_from_edges_places_them():
    pairs = stream(0, "pairs").integers(50, size=(2, 400))
    pairs = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
    keys = np.sort(pairs[0] * 50 + pairs[1])
    keys = keys[: kernels.distinct(keys)]
    indptr, indices = np.zeros(51, np.int64), np.empty(2 * len(keys), np.int32)
    kernels.count_ends(keys, 50, indptr)
    kernels.place_ends(keys, 50, indptr[:-1].copy(), indices)
    expected = in_neighbours(pairs, 50)
    assert np.array_equal(indptr, expected.indptr)
    assert np.array_equal(indices, expected.indices)


def test_distinct_drops_what_is_no_edge():
    keys = np.array([-1, -1, 0, 3, 3, 9], dtype=np.int64)
    assert keys[: kernels.distinct(keys)].tolist() == [0, 3, 9]
