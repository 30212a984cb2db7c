"""Whole graphs to each part of a split; a graph in a few numbers."""

from itertools import pairwise

import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.graph.assign import split_by_graph
from lrgi.graph.graph import Graph
from lrgi.graph.summary import summarize
from reference.graphs import random_graph
from reference.tiny import tiny_graph


@pytest.mark.parametrize(
    ("graphs", "parts"), [(3, [1, 1, 1]), (7, [5, 1, 1]), (20, [14, 3, 3]), (24, [16, 4, 4])]
)
def test_shares(graphs, parts):
    offsets = np.concatenate([[0], np.cumsum(np.arange(1, graphs + 1))])
    split = split_by_graph(offsets, 0)
    by_graph = [np.unique(split[a:b]).tolist() for a, b in pairwise(offsets)]
    assert all(len(part) == 1 for part in by_graph)
    assert [by_graph.count([part]) for part in (1, 2, 3)] == parts
    np.testing.assert_array_equal(split, split_by_graph(offsets, 0))


def test_the_seed_shuffles():
    offsets = np.arange(31)
    assert any((split_by_graph(offsets, 0) != split_by_graph(offsets, seed)).any() for seed in (1, 2))


def test_two_graphs_are_too_few():
    with pytest.raises(InputError, match="must have at least 3 graphs, got 2; split it at random"):
        split_by_graph(np.array([0, 4, 9]), 0)


def test_a_summary():
    facts = summarize(tiny_graph())
    assert (facts["nodes"], facts["edges"], facts["mean_degree"]) == (240, 2400, 10.0)
    assert facts["features"] == {"kind": "dense", "columns": 12}
    assert facts["labels"] == {"kind": "one class", "classes": 4, "labelled_nodes": 240}
    assert facts["split"] == {"train": 144, "validation": 48, "test": 48}
    bare = summarize(random_graph(0, sparse=True))
    assert bare["labels"] is bare["split"] is None
    assert bare["features"]["kind"] == "sparse"
    assert bare["isolated_nodes"] >= 5
    many = Graph.from_edges([[0], [1]], np.eye(3), labels=np.eye(3, 2, dtype=np.uint8))
    assert summarize(many)["labels"] == {"kind": "many labels", "classes": 2, "labelled_nodes": 3}
