"""Epochs: all targets once, even batches, and every choice a function of (seed, layer, epoch, node)."""

import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.sampling.sample import ALL, Batches, Sampling
from reference.graphs import random_graph
from reference.sampling import check_laws


def batches(graph, batch_size=16, fan_outs=(3, 2), seed=0, layer=1):
    return Batches(graph, Sampling(batch_size, fan_outs), seed, layer)


def order_of(blocks):
    return [block.nodes[: block.num_targets].tolist() for block in blocks]


@pytest.mark.parametrize("batch_size", [1, 3, 7, 16, 39, 40, 41, 1000])
def test_an_epoch_has_every_node_once_in_even_batches(batch_size):
    graph = random_graph(0, nodes=40)
    source = batches(graph, batch_size)
    parts = order_of(source.epoch(0))
    assert len(parts) == len(source)
    assert sorted(node for part in parts for node in part) == list(range(40))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert abs(len(source) - 40 / batch_size) <= 0.5 or len(source) == 1


def test_blocks_of_an_epoch_obey_the_laws():
    graph = random_graph(4, nodes=120, edges=2000)
    for block in batches(graph, 25, (4, ALL)).epoch(3):
        check_laws(block, graph, block.nodes[: block.num_targets].tolist(), (4, ALL))


def fingerprint(source, epoch):
    return [(b.nodes.tolist(), b.indices.tolist()) for b in source.epoch(epoch)]


def test_an_epoch_is_a_function_of_seed_layer_and_epoch():
    graph = random_graph(4, nodes=120, edges=2000)
    source = batches(graph)
    expected = fingerprint(source, 2)
    assert fingerprint(source, 2) == expected  # asked again, after other epochs or none
    fingerprint(source, 0)
    assert fingerprint(batches(graph), 2) == expected
    others = [
        fingerprint(source, 3),
        fingerprint(batches(graph, layer=2), 2),
        fingerprint(batches(graph, seed=1), 2),
    ]
    for other in others:
        assert order_of_fingerprint(other) != order_of_fingerprint(expected)
        assert neighbours_of(graph, other) != neighbours_of(graph, expected)


def order_of_fingerprint(blocks):
    return [nodes[:5] for nodes, _ in blocks]


def neighbours_of(graph, blocks):
    """Nodes met in batches, as sets: what was drawn, whatever the order of the targets."""
    return {frozenset(nodes) for nodes, _ in blocks}


def test_neighbours_differ_between_epochs_layers_and_seeds_even_for_the_same_batch():
    """One batch of all nodes: only the neighbours can differ, once rows are put in order of their nodes."""
    graph = random_graph(4, nodes=120, edges=4000)

    def drawn(seed, layer, epoch):
        (block,) = batches(graph, 1000, (3,), seed, layer).epoch(epoch)
        rows = {}
        for r, node in enumerate(block.nodes[: block.num_targets].tolist()):
            rows[node] = sorted(block.nodes[block.indices[block.indptr[r] : block.indptr[r + 1]]].tolist())
        return rows

    base = drawn(0, 1, 0)
    assert drawn(0, 1, 0) == base
    free = [node for node in range(120) if graph.degrees()[node] > 20]
    assert len(free) > 50
    for other in (drawn(1, 1, 0), drawn(0, 2, 0), drawn(0, 1, 1)):
        assert sum(other[node] == base[node] for node in free) < 0.1 * len(free)


def test_targets_come_in_uniform_order():
    """Each node is as likely in the first half of an epoch: 400 epochs, 40 nodes, within 4.5 deviations."""
    graph = random_graph(0, nodes=40)
    source = batches(graph, 20, (1,))
    first = np.zeros(40)
    for epoch in range(400):
        block = next(iter(source.epoch(epoch)))
        first[block.nodes[: block.num_targets]] += 1
    assert first.sum() == 400 * 20
    assert np.abs(first - 200).max() <= 4.5 * np.sqrt(400 * 0.25)


def test_whole_graphs_as_batches():
    edges = np.array([[0, 1, 3, 4, 5, 7], [1, 2, 4, 5, 6, 8]])
    graph = Graph.from_edges(edges, np.zeros((10, 2), np.float32), offsets=[0, 3, 7, 10])
    source = batches(graph, 0, (5, 5))
    assert len(source) == 3
    orders = set()
    for epoch in range(12):
        blocks = list(source.epoch(epoch))
        assert sorted(block.span for block in blocks) == [(0, 3), (3, 7), (7, 10)]
        assert sum(block.hop(0).num_edges for block in blocks) == graph.num_edges
        orders.add(tuple(block.span for block in blocks))
    assert len(orders) > 1
    again = {block.span: block for block in source.epoch(0)}
    assert all(again[block.span] is block for block in source.epoch(1)), "whole graphs are made once"


def test_no_hops_is_a_sentence():
    with pytest.raises(InputError, match="fan_outs must name at least one hop, got none; give one"):
        batches(random_graph(0), fan_outs=())
