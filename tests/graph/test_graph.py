"""Graphs against a dictionary of sets, and the sentence for every kind of bad input."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrgi.errors import InputError
from lrgi.graph import edges as edges_module
from lrgi.graph.edges import in_neighbours
from lrgi.graph.graph import NO_SPLIT, TEST, TRAIN, VALIDATION, Graph
from lrgi.graph.split import split_from_masks

EDGES = np.array([[0, 1, 2], [1, 2, 3]])
X = np.eye(4, dtype=np.float32)

edge_lists = st.integers(2, 9).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40),
    )
)


def slow_neighbours(pairs, nodes, directed):
    found = {node: set() for node in range(nodes)}
    for sender, receiver in pairs:
        if sender != receiver:
            found[receiver].add(sender)
            if not directed:
                found[sender].add(receiver)
    return [sorted(found[node]) for node in range(nodes)]


@pytest.mark.parametrize("chunk", [3, 1 << 22])
@given(given_edges=edge_lists, directed=st.booleans())
@settings(max_examples=150, deadline=None)
def test_in_neighbours_equal_a_dictionary_of_sets(chunk, given_edges, directed):
    nodes, pairs = given_edges
    edges = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges_module, "_CHUNK", chunk)
        built = in_neighbours(edges, nodes, directed=directed)
    rows = [list(built.indices[built.indptr[i] : built.indptr[i + 1]]) for i in range(nodes)]
    assert rows == slow_neighbours(pairs, nodes, directed)
    assert built.indptr.dtype == np.int64
    assert built.indices.dtype == np.int32
    loops = sum(s == t for s, t in pairs)
    kinds = {(s, t) if directed else frozenset((s, t)) for s, t in pairs if s != t}
    assert (built.self_loops, built.duplicates) == (loops, len(pairs) - loops - len(kinds))
    if len(built.indices):
        Graph(built.indptr, built.indices, np.zeros((nodes, 1)))  # passes its own check


def test_directed_edges_are_read_by_the_receiver_only():
    graph = Graph.from_edges([[0], [3]], X, directed=True)
    np.testing.assert_array_equal(graph.degrees(), [0, 0, 0, 1])
    np.testing.assert_array_equal(graph.indices, [0])
    assert (graph.num_nodes, graph.num_edges, graph.num_graphs, graph.num_features) == (4, 1, 1, 4)


def test_fields_get_their_types_and_are_read_only():
    graph = Graph.from_edges(
        torch.tensor(EDGES),
        scipy.sparse.eye(4, format="coo"),
        labels=np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=np.float32),
        split=[TRAIN, VALIDATION, TEST, NO_SPLIT],
        ids=["a", "b", "c", "dd"],
        offsets=None,
    )
    assert graph.labels.dtype == np.uint8
    assert graph.split.dtype == np.uint8
    assert graph.ids.dtype == np.dtype("<U2")
    np.testing.assert_array_equal(graph.offsets, [0, 4])
    for array in (graph.indptr, graph.indices, graph.labels, graph.split, graph.ids, graph.offsets):
        assert not array.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "other"
    assert Graph.from_edges(EDGES, X, labels=[0, 1, -1, 2]).labels.dtype == np.int64


def test_replacing_a_field_checks_again():
    graph = Graph.from_edges(EDGES, X)
    assert dataclasses.replace(graph, split=[1, 2, 3, 0]).split.tolist() == [1, 2, 3, 0]
    with pytest.raises(InputError, match="split must lie in 0 to 3, got 7 for node 3; use 0 none"):
        dataclasses.replace(graph, split=[1, 2, 3, 7])


def test_trusted_looks_at_shapes_only():
    graph = Graph.trusted(np.array([0, 1, 2]), np.array([9, 9], dtype=np.int32), np.full((2, 1), np.nan))
    assert graph.num_edges == 2
    with pytest.raises(InputError, match="in-neighbours must lie in 0 to 1, got 9 for node 0"):
        graph.check()
    with pytest.raises(InputError, match=r"features must have one row per node \(2\), got 3 rows"):
        Graph.trusted(np.array([0, 1, 2]), np.array([1, 0]), X[:3])
    with pytest.raises(TypeError, match="no fields"):
        Graph.trusted(np.array([0, 1, 2]), np.array([1, 0]), X[:2], label=None)


def edges_of(**rest):
    given = {"edges": EDGES, "features": X, **rest}
    return lambda: Graph.from_edges(**given)


def nan_at(row, column, value=np.nan):
    x = X.copy()
    x[row, column] = value
    return x


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (edges_of(edges=[[0, 1], [1, 4]]), "must be below the number of nodes 4, got 4 in edge 1; give feat"),
        (edges_of(edges=[[0, -2], [1, 2]]), "node ids in edges must be 0 or more, got -2 in edge 1; number"),
        (edges_of(edges=EDGES.T), r"edges must have shape \(2, E\), got \(3, 2\); transpose them"),
        (edges_of(edges=[0, 1]), r"edges must have shape \(2, E\), got \(2,\); give senders and receivers"),
        (edges_of(edges=EDGES / 1.0), "edges must be integers, got dtype float64; convert node ids to int64"),
        (edges_of(num_nodes=5), r"features must have one row per node \(5\), got 4 rows; give one row"),
        (edges_of(features=nan_at(2, 1)), "features must be finite, got nan in row 2, column 1; replace"),
        (edges_of(features=nan_at(3, 0, np.inf)), "features must be finite, got inf in row 3, column 0"),
        (edges_of(features=X[:0]), "a graph must have at least one node, got none; give at least one row"),
        (
            edges_of(edges=np.empty((2, 0), dtype=int)),
            "a graph must have at least one edge between two different nodes, got none; give edges",
        ),
        (edges_of(edges=[[1], [1]]), "must have at least one edge between two different nodes, got none"),
        (edges_of(labels=[0, 1]), r"labels must have one entry or row per node \(4\), got shape \(2,\); use"),
        (edges_of(labels=[0.5] * 4), "labels must be integers, got dtype float64; number the classes"),
        (edges_of(labels=[0, -3, 0, 0]), "labels must lie in -1 to .*, got -3 for node 1; number classes"),
        (edges_of(labels=np.full((4, 2), 2)), "labels of many classes must be 0 or 1, got other values"),
        (edges_of(labels=np.full((4, 2), 2, np.uint8)), "labels must lie in 0 to 1, got 2 for node 0"),
        (edges_of(split=[0, 1]), r"split must be integers of shape \(4,\), got int64 of shape \(2,\); use 0"),
        (edges_of(split=[0, 1, 2, 9]), "split must lie in 0 to 3, got 9 for node 3; use 0 none"),
        (edges_of(ids=np.array([{}] * 4)), "ids must be integers or strings of shape .* got object of shape"),
        (edges_of(offsets=[0, 3]), r"offsets must rise from 0 to the number of nodes 4, got \[0 3\]; give"),
        (edges_of(offsets=[0, 2, 2, 4]), r"offsets must rise .* got \[0 2 2 4\]"),
        (edges_of(offsets=[0, 2, 4]), "edges must stay within one graph, got node 1 with a neighbour in ano"),
        (lambda: Graph([0, 1, 1], [0], X[:2]), "without the node itself, got 0 for node 0; build the graph"),
        (lambda: Graph([0, 2, 2, 2, 2], [2, 1], X), "sorted, distinct and .* got 1 for node 0; build"),
        (lambda: Graph([0, 1, 0, 1, 1], [1], X), "indptr must not fall, got a fall after node 1; build"),
        (lambda: Graph([0, 1, 1, 1, 3], [1], X), "must run from 0 to the number of edges 1, got 0 to 3"),
        (lambda: Graph([[0]], [1], X), "indptr must be integers of shape"),
        (lambda: Graph([0, 1, 1, 1, 1], [1.5], X), "indices must be integers of shape"),
        (lambda: Graph([0, 1, 1, 1, 1], [2**33], X), "in-neighbours must lie in 0 to 3, got 8589934592"),
    ],
)
def test_sentences(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_masks_become_a_split():
    train, test = [True, False, False], [False, False, True]
    np.testing.assert_array_equal(split_from_masks(3, train, None, test), [TRAIN, NO_SPLIT, TEST])
    assert split_from_masks(3) is None
    with pytest.raises(InputError, match="must not overlap, got node 0 in both train and validation; put"):
        split_from_masks(3, train, train)
    with pytest.raises(InputError, match=r"test mask must have shape \(3,\), got \(2,\); give one truth"):
        split_from_masks(3, test=[True, False])
