"""Layers without a skip: the plain GCN against PyG, the mean against its definition, both against gcn."""

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.encoder import Encoder, embed_layer
from lrgi.layers.gcn import GCNLayer
from lrgi.layers.mean import MeanLayer
from lrgi.layers.plain_gcn import PlainGCNLayer
from reference.graphs import HOPS, edge_index, hop_of, random_graph
from reference.pyg import GCNConv


def made(kind, in_dim=6, out_dim=7):
    layer = kind(in_dim, out_dim)
    layer.reset(randomness.torch_stream(0, "weights"))
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-1, 1, out_dim))
    return layer


@pytest.mark.parametrize("where", HOPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_plain_gcn_is_gcn_with_a_skip_of_zero(where, sparse):
    hop, rows = hop_of(random_graph(4, sparse=sparse), where)
    plain, full = made(PlainGCNLayer), made(GCNLayer)
    with torch.no_grad():
        full.skip.zero_()
        full.weight.copy_(plain.weight)
    torch.testing.assert_close(plain(rows, hop), full(rows, hop))
    plain(rows, hop).square().sum().backward()
    full(rows, hop).square().sum().backward()
    torch.testing.assert_close(plain.weight.grad, full.weight.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plain.bias.grad, full.bias.grad, rtol=1e-4, atol=1e-5)


def test_plain_gcn_is_pygs():
    graph = random_graph(4)  # directed, where PyG counts in-degrees as we do; isolated nodes included
    hop, rows = hop_of(graph, "whole")
    layer, conv = made(PlainGCNLayer), GCNConv(6, 7)
    with torch.no_grad():
        conv.lin.weight.copy_(layer.weight)
        conv.bias.copy_(layer.bias)
        edges = torch.from_numpy(edge_index(hop, own=False))
        expected = torch.nn.functional.elu(conv(rows.dense(), edges))
    table = embed_layer(layer, graph, graph.features)
    np.testing.assert_allclose(table.array, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("where", HOPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_mean_layer_is_the_projected_mean(where, sparse):
    hop, rows = hop_of(random_graph(4, sparse=sparse), where)
    layer, x = made(MeanLayer), rows.dense().double()
    means = torch.zeros(hop.num_rows, x.shape[1], dtype=torch.float64)
    for row in range(hop.num_rows):
        mine = hop.indices[hop.indptr[row] : hop.indptr[row + 1]]
        if len(mine):
            means[row] = x[torch.from_numpy(mine.astype(np.int64))].mean(0)
    expected = means @ layer.weight.double().t() + layer.bias.double()
    torch.testing.assert_close(layer(rows, hop).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [PlainGCNLayer, MeanLayer])
def test_embedding_is_a_forward_pass_and_goes_to_disk(kind, tmp_path):
    graph, layer = random_graph(4), made(kind)
    hop, rows = hop_of(graph, "whole")
    table = embed_layer(layer, graph, graph.features).array
    np.testing.assert_allclose(table, layer(rows, hop).detach(), rtol=1e-6, atol=1e-6)
    Encoder([layer]).save(tmp_path / "e")
    assert np.array_equal(Encoder.load(tmp_path / "e").embed(graph).array, table)
