"""NetworkX graphs: direction, ids, attributes."""

import networkx as nx
import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.interop.networkx_graphs import from_networkx


def edges_of(graph):
    receivers = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    return {(int(s), int(r)) for s, r in zip(graph.indices, receivers, strict=True)}


def people(kind=nx.Graph):
    given = kind(name="people")
    for name, age, place, club in (
        ("eve", 30, [1.0, 2.0], "a"),
        ("bob", 40, [3, 4], "b"),
        ("al", 5, [5, 6], "a"),
    ):
        given.add_node(name, age=age, place=place, club=club)
    given.add_edges_from([("eve", "bob"), ("bob", "al"), ("al", "al")])
    return given


def test_nodes_keep_their_order_and_names():
    graph = from_networkx(people(), ["age", "place"], labels="club")
    assert graph.ids.tolist() == ["eve", "bob", "al"]
    assert graph.features.array.tolist() == [[30, 1, 2], [40, 3, 4], [5, 5, 6]]
    assert graph.labels.tolist() == [0, 1, 0]
    assert edges_of(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert graph.name == "people"


def test_directions_and_several_edges_between_two_nodes():
    assert edges_of(from_networkx(people(nx.DiGraph), "age")) == {(0, 1), (1, 2)}
    many = people(nx.MultiDiGraph)
    many.add_edge("eve", "bob")
    assert edges_of(from_networkx(many, "age")) == {(0, 1), (1, 2)}


def test_whole_numbers_stay_numbers_and_all_else_is_text():
    given = nx.Graph([(10, 3), (3, 2**40)])
    assert from_networkx(given, np.eye(3)).ids.tolist() == [10, 3, 2**40]
    grid = nx.grid_graph((2, 2))
    assert from_networkx(grid, features_from="degree").ids.tolist()[:2] == ["(0, 0)", "(0, 1)"]
    with pytest.raises(InputError, match=r"nodes must differ as text, got two that read '1'; relabel them"):
        from_networkx(nx.Graph([(1, "1")]), features_from="degree")


def test_the_usual_names_are_found_and_may_lack():
    given = nx.path_graph(3)
    nx.set_node_attributes(given, {n: {"x": [n, 1.0], "y": n % 2} for n in given})
    graph = from_networkx(given, split=[1, 2, 3])
    assert graph.features.array.tolist() == [[0, 1], [1, 1], [2, 1]]
    assert graph.labels.tolist() == [0, 1, 0]
    assert graph.split.tolist() == [1, 2, 3]
    bare = from_networkx(nx.path_graph(3), features_from="degree")
    assert bare.labels is None
    with pytest.raises(InputError, match="a graph must have features, got none"):
        from_networkx(nx.path_graph(3))


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        ({}, {"features": "size"}, "every node must have the attribute 'size', got none on node 'eve'"),
        ({"x": 1}, {}, "every node must have the attribute 'x', got none on node 'eve'; set it"),
        ({}, {"features": "club"}, "the attribute 'club' must be a number or a list of as many numbers"),
        (
            {"place": [1]},
            {"features": "place"},
            "the attribute 'place' must be a number or a list of as many",
        ),
        ({}, {"features": "age", "labels": "size"}, "every node must have the attribute 'size'"),
        ({}, {"features": np.eye(2)}, r"features must have one row per node \(3\), got 2 rows"),
    ],
)
def test_mistakes(change, options, sentence):
    given = people()
    given.nodes["bob"].update(change)
    with pytest.raises(InputError, match=sentence):
        from_networkx(given, **options)
