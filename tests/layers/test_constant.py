"""A layer on constants is the layer: values and gradients, on every kind of hop that reads all neighbours."""

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.encoder import embed_layer
from lrgi.graph.features import DenseTable
from lrgi.layers.constant import AggregatedTable, OnConstants, constant_bytes, has_constants
from lrgi.layers.gat import GATLayer
from lrgi.layers.gcn import GCNLayer
from lrgi.layers.mean import MeanLayer
from lrgi.layers.plain_gcn import PlainGCNLayer
from lrgi.layers.rows import Rows
from lrgi.layers.sage import SAGELayer
from lrgi.sampling.block import graph_hop
from lrgi.sampling.sample import ALL, sample_block, whole_graph
from reference.graphs import random_graph

KINDS = (SAGELayer, GCNLayer, PlainGCNLayer)


def made(kind):
    layer = kind(9, 7)
    layer.reset(randomness.torch_stream(0, "weights"))
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-1, 1, 7))
    return layer


def aggregated(layer, graph):
    return AggregatedTable(graph.features.array, embed_layer(layer.constant(), graph, graph.features))


def gradients(layer, u):
    for parameter in layer.parameters():
        parameter.grad = None
    (u * torch.linspace(-1, 1, u.numel()).view_as(u)).sum().backward()
    return [parameter.grad.clone() for parameter in layer.parameters()]


@pytest.mark.parametrize("kind", KINDS)
def test_u_and_its_gradients_are_those_of_all_neighbours(kind):
    graph = random_graph(2, width=9)
    layer = made(kind)
    table = aggregated(layer, graph)
    block = sample_block(graph, np.array([3, 0, 5], np.int32), (ALL, ALL), np.uint64(1))
    whole = whole_graph(graph, 0, 1)
    hops = {
        "sampled": (Rows.of(graph.features, block), Rows.of(table, block), block.hop(1)),
        "whole": (Rows.of(graph.features, whole), Rows.of(table, whole), whole.hop(0)),
    }
    for x, constants, hop in hops.values():
        u = layer(x, hop)
        on_constants = OnConstants(layer)(constants)[: hop.num_rows]
        torch.testing.assert_close(on_constants, u, rtol=1e-5, atol=1e-5)
        for mine, theirs in zip(gradients(layer, on_constants), gradients(layer, u), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_constant_layer_sums_as_the_layer_does(kind):
    graph = random_graph(3, width=9)
    constant = made(kind).constant()
    hop = graph_hop(graph.indptr, graph.indices, 2, graph.num_nodes - 1)
    forward = constant(Rows(graph.features), hop)
    embedded = embed_layer(constant, graph, graph.features).array[2:-1]
    torch.testing.assert_close(forward, torch.from_numpy(embedded.copy()))


def test_rows_and_ranges_keep_their_aggregates():
    rng = np.random.default_rng(0)
    own, beside = (rng.standard_normal((6, 3), np.float32) for _ in range(2))
    table = AggregatedTable(own, DenseTable(beside))
    part, some = table.slice(1, 4), table.take([5, 0])
    np.testing.assert_array_equal(part.array, own[1:4])
    np.testing.assert_array_equal(part.aggregates.array, beside[1:4])
    np.testing.assert_array_equal(some.array, own[[5, 0]])
    np.testing.assert_array_equal(some.aggregates.array, beside[[5, 0]])


def test_which_layers_have_constants_and_what_they_take():
    dense, sparse = random_graph(2, width=9), random_graph(2, width=9, sparse=True)
    assert all(has_constants(kind(9, 7), False) for kind in KINDS)
    assert not any(has_constants(kind(9, 7), True) for kind in KINDS)
    assert not has_constants(GATLayer(9, 8), False)
    assert not has_constants(MeanLayer(9, 8), False)
    assert constant_bytes(SAGELayer(9, 7), dense.features) == 4 * 9 * dense.num_nodes
    assert constant_bytes(SAGELayer(9, 7), sparse.features) == 0
