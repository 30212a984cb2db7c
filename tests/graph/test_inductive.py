"""Induced subgraphs against a plain Python twin, and unions against their parts."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from lrgi.errors import InputError
from lrgi.graph import features as features_module
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import disjoint_union, induced_subgraph, training_subgraph


def random_graph(seed, nodes=40, edges=150, sparse=False, **rest):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((nodes, 3)).astype(np.float32)
    return Graph.from_edges(
        rng.integers(0, nodes, (2, edges)),
        scipy.sparse.csr_matrix(x) if sparse else x,
        directed=bool(seed % 2),
        labels=rng.integers(0, 4, nodes),
        split=rng.integers(0, 4, nodes),
        **rest,
    )


def rows(graph):
    return [graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist() for i in range(graph.num_nodes)]


@given(seed=st.integers(0, 1000), keep=st.sets(st.integers(0, 39), min_size=12), sparse=st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_induced_subgraph_equals_the_slow_one(seed, keep, sparse):
    graph = random_graph(seed, edges=600, sparse=sparse, ids=[f"n{i}" for i in range(40)])
    mask = np.isin(np.arange(40), list(keep))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features_module.row_chunks, "__defaults__", (50,))
        part, ids = induced_subgraph(graph, list(keep) if seed % 3 else mask)
    place = {node: at for at, node in enumerate(sorted(keep))}
    whole = rows(graph)
    assert ids.tolist() == sorted(keep)
    assert rows(part) == [[place[j] for j in whole[i] if j in place] for i in sorted(keep)]
    part.check()
    np.testing.assert_array_equal(part.features.rows(np.arange(len(ids))), graph.features.rows(ids))
    for name in ("labels", "split", "ids"):
        np.testing.assert_array_equal(getattr(part, name), getattr(graph, name)[ids])
    np.testing.assert_array_equal(part.offsets, [0, len(keep)])


def test_the_training_subgraph_takes_its_part_of_the_split():
    graph = random_graph(4)
    part, ids = training_subgraph(graph)
    np.testing.assert_array_equal(ids, np.flatnonzero(graph.split == 1))
    part, ids = training_subgraph(graph, "train+validation")
    np.testing.assert_array_equal(ids, np.flatnonzero((graph.split == 1) | (graph.split == 2)))
    assert part.num_nodes == len(ids)
    part, ids = training_subgraph(graph, "all")
    assert part is graph
    np.testing.assert_array_equal(ids, np.arange(40))


def test_graphs_of_a_union_stay_apart_and_come_back():
    graphs = [random_graph(seed, nodes=10 + seed) for seed in range(3)]
    union = disjoint_union(graphs, name="three")
    union.check()
    assert union.offsets.tolist() == [0, 10, 21, 33]
    assert (union.num_graphs, union.name) == (3, "three")
    assert disjoint_union([union, graphs[0]]).offsets.tolist() == [0, 10, 21, 33, 43]
    for at, graph in enumerate(graphs):
        part, _ = induced_subgraph(union, np.arange(union.offsets[at], union.offsets[at + 1]))
        assert rows(part) == rows(graph)
        assert part.num_graphs == 1
        np.testing.assert_array_equal(part.features.array, graph.features.array)
        np.testing.assert_array_equal(part.labels, graph.labels)
    two, _ = induced_subgraph(union, np.r_[0:10, 21:33])  # the graph without a node is left out
    assert two.offsets.tolist() == [0, 10, 22]


def test_a_union_of_sparse_features_stays_sparse():
    graphs = [random_graph(seed, sparse=True) for seed in (1, 2)]
    union = disjoint_union(graphs)
    np.testing.assert_array_equal(union.features.rows([1, 41]), [g.features.rows([1])[0] for g in graphs])


def plain(width=2, **rest):
    return Graph.from_edges([[0], [1]], np.ones((3, width), dtype=np.float32), **rest)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: training_subgraph(plain(), "test"), "fit_on must be 'train', .* got 'test'; choose one"),
        (
            lambda: training_subgraph(plain()),
            "to fit on 'train' must have a split, got none; give a split or",
        ),
        (
            lambda: training_subgraph(plain(split=[2, 2, 0]), "train+validation"),
            r"to fit on 'train\+validation' must have training nodes, got none; mark some with 1",
        ),
        (lambda: training_subgraph(plain(split=[1, 2, 0])), "must have at least one edge .* got none"),
        (lambda: induced_subgraph(plain(), [0, 3]), "nodes must lie in 0 to 2, got 3; correct the ids"),
        (lambda: induced_subgraph(plain(), [-1, 0]), "nodes must lie in 0 to 2, got -1; correct the ids"),
        (
            lambda: induced_subgraph(plain(), [True]),
            r"ids or a mask of shape \(3,\), got bool of shape \(1,\)",
        ),
        (lambda: disjoint_union([]), "a union must have at least one graph, got none; give some graphs"),
        (
            lambda: disjoint_union([plain(), plain(3)]),
            r"features of one width, got widths \[2, 3\]; give every",
        ),
        (
            lambda: disjoint_union([plain(), Graph.from_edges([[0], [1]], scipy.sparse.eye(2))]),
            "features all dense or all sparse, got both; convert some",
        ),
        (
            lambda: disjoint_union([plain(), plain(labels=[0, 1, 0])]),
            "must all have labels or none, got 1 of 2 with them; add or remove them",
        ),
        (
            lambda: disjoint_union([plain(split=[0, 1, 0]), plain()]),
            "must all have split or none, got 1 of 2 with them",
        ),
        (
            lambda: disjoint_union([plain(labels=np.eye(3, dtype=np.uint8)), plain(labels=[0, 1, 0])]),
            "must have labels of one kind, got",
        ),
    ],
)
def test_sentences(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()
