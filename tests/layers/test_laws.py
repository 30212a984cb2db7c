"""Laws of every kind of layer: names of nodes do not matter, nor do chunks; stacks differentiate through."""

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.layers import gat as gat_module
from lrgi.layers import gcn as gcn_module
from lrgi.layers import twin
from lrgi.layers.gat import GATLayer
from lrgi.layers.gcn import GCNLayer
from lrgi.layers.layer import glorot_
from lrgi.layers.pyg import PyGLayer
from lrgi.layers.rows import Rows
from lrgi.layers.sage import SAGELayer
from lrgi.layers.stack import Stack
from lrgi.sampling.block import graph_hop
from lrgi.sampling.sample import sample_block
from reference.graphs import random_graph
from reference.pyg import SAGEConv

KINDS = {
    "gat": lambda a, b: GATLayer(a, b, 4),
    "sage": SAGELayer,
    "gcn": GCNLayer,
    "pyg": lambda a, b: PyGLayer(SAGEConv((a, a), b), a, b),
}


def made(kind, in_dim=6, out_dim=8):
    layer = KINDS[kind](in_dim, out_dim)
    layer.reset(randomness.torch_stream(0, kind))
    return layer


def whole(graph):
    return graph_hop(graph.indptr, graph.indices, 0, graph.num_nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_renaming_nodes_renames_the_output(kind):
    graph = random_graph(3)
    new_name = np.random.default_rng(1).permutation(graph.num_nodes)
    receivers = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    features = np.empty_like(graph.features.array)
    features[new_name] = graph.features.array
    edges = np.stack([new_name[graph.indices], new_name[receivers]])
    renamed = Graph.from_edges(edges, features, directed=True)
    layer = made(kind)
    with torch.no_grad():
        out = layer(Rows(graph.features), whole(graph))
        other = layer(Rows(renamed.features), whole(renamed))
    assert not torch.allclose(other, out, atol=1e-3)
    torch.testing.assert_close(other[new_name], out, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1, 7, 40])
def test_in_chunks_equals_at_once(kind, sparse, size):
    graph = random_graph(3, sparse=sparse)
    layer, rows = made(kind), Rows(graph.features)
    with torch.no_grad():
        expected = layer(rows, whole(graph))
        sources = tuple(
            torch.cat(parts)
            for parts in zip(
                *(layer.sources(rows.range(a, min(a + 9, 40))) for a in range(0, 40, 9)), strict=True
            )
        )
        chunks = []
        for start in range(0, 40, size):
            stop = min(start + size, 40)
            hop = graph_hop(graph.indptr, graph.indices, start, stop)
            chunks.append(layer.from_sources(sources, rows.range(start, stop), hop))
    torch.testing.assert_close(torch.cat(chunks), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_with_all_neighbours_is_the_whole_graphs_row(kind):
    """A block of full neighbourhoods gives the same rows as the whole graph does."""
    graph = random_graph(3)
    targets = np.array([5, 31, 2, 17])
    block = sample_block(graph, targets, (None,), randomness.key(0))
    layer = made(kind)
    with torch.no_grad():
        expected = layer(Rows(graph.features), whole(graph))[targets]
        ours = layer(Rows(graph.features, block.nodes), block.hop(0))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_reset_is_a_function_of_the_stream(kind):
    one, two = made(kind), made(kind)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    one.reset(randomness.torch_stream(1, kind))
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_glorot_stays_in_its_bound_and_fills_it():
    weight = torch.empty(100, 50)
    glorot_(weight, randomness.torch_stream(0))
    bound = np.sqrt(6 / 150)
    assert 0.95 * bound < float(weight.abs().max()) <= bound
    assert float(weight.std()) == pytest.approx(bound / np.sqrt(3), rel=0.03)


@pytest.mark.parametrize("kinds", [("gat", "gat"), ("gat", "gcn", "sage"), ("sage", "pyg", "gat")])
@pytest.mark.parametrize("sampled", [False, True])
def test_gradient_of_a_stack_is_autograds(kinds, sampled, monkeypatch):
    """The same stack with every compiled aggregation replaced by its plain torch twin."""
    graph = random_graph(3)
    widths = [6, 8, 12, 4]
    stack = Stack([made(kind, a, b) for kind, a, b in zip(kinds, widths, widths[1:], strict=False)])
    assert (stack.in_dim, stack.out_dim, stack.hops) == (6, widths[len(kinds)], len(kinds))
    if sampled:
        block = sample_block(graph, np.array([5, 31, 2, 17, 0]), (3, 2, 2)[: len(kinds)], randomness.key(0))
        hops = [block.hop(t) for t in reversed(range(len(kinds)))]
        nodes = block.nodes
    else:
        hops, nodes = [whole(graph)] * len(kinds), np.arange(40)
    rows = Rows(graph.features, nodes)

    def run(x):
        stack.zero_grad()
        out = stack(x, *hops)
        out.backward(torch.randn(*out.shape, generator=torch.Generator().manual_seed(7)))
        return [out.detach(), *(p.grad.clone() for p in stack.parameters())]

    ours = run(rows)
    monkeypatch.setattr(gat_module, "attend", twin.attend)
    monkeypatch.setattr(gcn_module, "scaled_sum", twin.scaled_sum)
    monkeypatch.setattr("lrgi.layers.aggregate.scaled_sum", twin.scaled_sum)
    expected = run(rows.dense())
    assert len(ours[0]) == (5 if sampled else 40)
    for a, b in zip(ours, expected, strict=True):
        assert float((a - b).abs().max()) <= 1e-5 * max(1.0, float(b.abs().max()))


def test_reset_of_a_stack_gives_its_layers_different_weights():
    stack = Stack([made("sage", 6, 6), made("sage", 6, 6)])
    stack.reset(randomness.torch_stream(0))
    first, second = stack.layers
    assert not torch.equal(first.weight, second.weight)


def test_a_stack_needs_one_hop_per_layer():
    graph = random_graph(3)
    with pytest.raises(ValueError, match="shorter"):
        Stack([made("sage", 6, 6), made("sage", 6, 6)])(Rows(graph.features), whole(graph))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_the_tables_rows(sparse):
    graph = random_graph(3, sparse=sparse)
    full = graph.features.rows(np.arange(40))
    nodes = np.array([7, 0, 39, 7])
    weight = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    for rows, expected in (
        (Rows(graph.features), full),
        (Rows(graph.features, nodes), full[nodes]),
        (Rows(graph.features).range(3, 20), full[3:20]),
        (Rows(graph.features, nodes).range(1, 3), full[nodes[1:3]]),
    ):
        assert (rows.count, rows.width) == expected.shape
        assert np.array_equal(rows.dense().numpy(), expected)
        product = rows.product(weight).numpy()
        assert np.abs(product - expected @ weight.numpy().T).max() <= 1e-5


def test_a_dense_table_is_not_copied():
    table = DenseTable(np.ones((4, 3), np.float32))
    assert Rows(table).dense().data_ptr() == table.array.ctypes.data
