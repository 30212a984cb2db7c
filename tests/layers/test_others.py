"""SAGE, GCN and wrapped PyG convolutions against PyG itself; GCN's sampled estimate is unbiased."""

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.layers.gcn import GCNLayer
from lrgi.layers.pyg import PyGLayer
from lrgi.layers.sage import SAGELayer
from lrgi.sampling.sample import sample_block
from reference.graphs import HOPS, edge_index, hop_of, random_graph
from reference.layers import elu, gcn_sum
from reference.layers import neighbour_mean as mean_loop
from reference.pyg import GCNConv, SAGEConv


def made(kind, in_dim, out_dim=7):
    layer = kind(in_dim, out_dim)
    layer.reset(randomness.torch_stream(0, "weights"))
    with torch.no_grad():
        layer.bias.copy_(torch.linspace(-1, 1, out_dim))
    return layer


def dense_of(rows, hop):
    x = rows.dense().double()
    return x, x[hop.first : hop.first + hop.num_rows]


def assert_same(layer, out, expected, grads):
    """Value and gradients of the weights to 1e-5, after one backward pass in a random direction."""
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    direction = torch.randn(*out.shape, generator=torch.Generator().manual_seed(7))
    out.backward(direction)
    expected.backward(direction.double())
    for name, theirs in grads().items():
        torch.testing.assert_close(getattr(layer, name).grad.double(), theirs, rtol=1e-5, atol=1e-5, msg=name)


def copy(*pairs):
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_sage_equals_pyg(kind, sparse):
    hop, rows = hop_of(random_graph(2, width=9, sparse=sparse), kind)
    layer, conv = made(SAGELayer, 9), SAGEConv((9, 9), 7, aggr="mean").double()
    copy((conv.lin_l.weight, layer.weight), (conv.lin_l.bias, layer.bias), (conv.lin_r.weight, layer.skip))
    x, own = dense_of(rows, hop)
    edges = torch.from_numpy(edge_index(hop, own=False))
    expected = torch.nn.functional.elu(conv((x, own), edges, size=(len(x), len(own))))
    assert_same(
        layer, layer(rows, hop), expected,
        lambda: {
            "weight": conv.lin_l.weight.grad, "bias": conv.lin_l.bias.grad, "skip": conv.lin_r.weight.grad
        },
    )  # fmt: skip


@pytest.mark.parametrize("kind", HOPS)
def test_sage_equals_loops(kind):
    hop, rows = hop_of(random_graph(2, width=9), kind)
    layer = made(SAGELayer, 9)
    x, own = (t.numpy() for t in dense_of(rows, hop))
    weight, skip, bias = (getattr(layer, n).detach().double().numpy() for n in ("weight", "skip", "bias"))
    expected = elu(mean_loop(x, hop) @ weight.T + own @ skip.T + bias)
    assert np.abs(layer(rows, hop).detach().numpy() - expected).max() <= 1e-5


@pytest.mark.parametrize("sparse", [False, True])
def test_gcn_equals_pyg_on_a_whole_graph(sparse):
    hop, rows = hop_of(random_graph(2, width=9, sparse=sparse), "whole")
    layer, conv = made(GCNLayer, 9), GCNConv(9, 7).double()
    skip = torch.nn.Linear(9, 7, bias=False).double()
    copy((conv.lin.weight, layer.weight), (conv.bias, layer.bias), (skip.weight, layer.skip))
    x, own = dense_of(rows, hop)
    expected = torch.nn.functional.elu(conv(x, torch.from_numpy(edge_index(hop, own=False))) + skip(own))
    assert_same(
        layer, layer(rows, hop), expected,
        lambda: {"weight": conv.lin.weight.grad, "bias": conv.bias.grad, "skip": skip.weight.grad},
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["whole", "range"])
def test_gcn_equals_loops(kind):
    graph = random_graph(2, width=9)
    hop, rows = hop_of(graph, kind)
    layer = made(GCNLayer, 9)
    x, own = (t.numpy() for t in dense_of(rows, hop))
    weight, skip, bias = (getattr(layer, n).detach().double().numpy() for n in ("weight", "skip", "bias"))
    expected = elu(gcn_sum(x, hop, graph.degrees()) @ weight.T + own @ skip.T + bias)
    assert np.abs(layer(rows, hop).detach().numpy() - expected).max() <= 1e-5


def before_elu(y):
    return torch.where(y > 0, y, torch.log1p(torch.clamp(y, max=0))).detach().numpy()


def test_gcn_sampled_is_an_unbiased_estimate():
    """Before the ELU: the mean over 1500 keys lies within 4 standard errors of the whole sum."""
    graph = random_graph(4, nodes=24, edges=150)
    layer = made(GCNLayer, 6, 3).double()
    x = torch.from_numpy(graph.features.rows(np.arange(24))).double()
    hop, _ = hop_of(graph, "whole")
    exact = before_elu(layer(x, hop))
    estimates = []
    for k in range(1500):
        block = sample_block(graph, np.arange(24), (2,), randomness.key(0, k))
        assert block.num_targets == len(block.nodes)
        estimates.append(before_elu(layer(x, block.hop(0))))
    estimates = np.array(estimates)
    error = np.abs(estimates.mean(0) - exact)
    standard = estimates.std(0, ddof=1) / np.sqrt(len(estimates))
    small = graph.degrees() <= 2
    assert small.any() and (error[small] < 1e-12).all(), "small neighbourhoods are read whole"
    assert (standard[~small] > 0).all()
    assert (error <= 4 * standard + 1e-12).all()


@pytest.mark.parametrize("kind", HOPS)
def test_a_wrapped_convolution_is_the_convolution(kind):
    hop, rows = hop_of(random_graph(2, width=9), kind)
    layer = PyGLayer(SAGEConv((9, 9), 7, aggr="max"), 9, 7)
    layer.reset(randomness.torch_stream(0, "weights"))
    x = rows.dense().requires_grad_()
    own = x[hop.first : hop.first + hop.num_rows]
    edges = torch.from_numpy(edge_index(hop, own=False))
    expected = torch.nn.functional.elu(layer.conv((x, own), edges, size=(len(x), len(own))))
    torch.testing.assert_close(layer(rows, hop), expected, rtol=1e-6, atol=1e-6)
    (grad,) = torch.autograd.grad(expected.square().sum(), x)
    through = x.detach().clone().requires_grad_()
    layer(through, hop).square().sum().backward()
    torch.testing.assert_close(through.grad, grad, rtol=1e-5, atol=1e-5)


def test_a_wrapped_convolution_is_reset_from_the_stream_alone():
    layers = [PyGLayer(SAGEConv((9, 9), 7), 9, 7) for _ in range(3)]
    before = torch.random.get_rng_state()
    for layer, path in zip(layers, ("a", "a", "b"), strict=True):
        layer.reset(randomness.torch_stream(0, path))
    assert torch.equal(torch.random.get_rng_state(), before)
    one, two, other = (layer.conv.lin_l.weight for layer in layers)
    assert torch.equal(one, two) and not torch.equal(one, other)
