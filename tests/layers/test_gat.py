"""GATLayer against PyG's GATConv + linear skip + ELU in float64, on both of its paths, and slow loops."""

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.layers.gat import GATLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop, graph_hop
from reference.graphs import HOPS, edge_index, hop_of, random_graph
from reference.layers import elu, gat_attention
from reference.pyg import GATConv

OUT = 16


def gat(in_dim, heads, out=OUT):
    layer = GATLayer(in_dim, out, heads)
    layer.reset(randomness.torch_stream(0, "weights"))
    with torch.no_grad():  # away from zero, so that the bias counts
        layer.bias.copy_(torch.linspace(-1, 1, out))
    return layer


class PyGTwin(torch.nn.Module):
    """The ordinary way, in float64, with the layer's weights."""

    def __init__(self, layer, *, add_self_loops):
        super().__init__()
        width = layer.out_dim // layer.heads
        self.conv = GATConv(
            layer.in_dim, width, layer.heads, negative_slope=layer.slope, add_self_loops=add_self_loops
        )
        self.skip = torch.nn.Linear(layer.in_dim, layer.out_dim, bias=False)
        self.double()
        with torch.no_grad():
            self.conv.lin.weight.copy_(layer.weight)
            self.conv.att_src.copy_(layer.source[None])
            self.conv.att_dst.copy_(layer.target[None])
            self.conv.bias.copy_(layer.bias)
            self.skip.weight.copy_(layer.skip)

    def forward(self, x, own, edges):
        size = (len(x), len(own))
        return torch.nn.functional.elu(self.conv((x, own), edges, size=size) + self.skip(own))

    def grads(self):
        conv = self.conv
        return {
            "weight": conv.lin.weight.grad,
            "source": conv.att_src.grad[0],
            "target": conv.att_dst.grad[0],
            "bias": conv.bias.grad,
            "skip": self.skip.weight.grad,
        }


def assert_close(ours, theirs, what):
    """Within 1e-5 of the largest value, or of 1."""
    ours, theirs = ours.detach().double(), theirs.detach()
    error = float((ours - theirs).abs().max())
    assert error <= 1e-5 * max(1.0, float(theirs.abs().max())), f"{what}: {error}"


def direction(shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


def compare(layer, x, hop, dense):
    """Forward and backward against PyG; `x` may be rows or a tensor that wants a gradient."""
    twin = PyGTwin(layer, add_self_loops=False)
    theirs_x = dense.double().requires_grad_()
    own = theirs_x[hop.first : hop.first + hop.num_rows]
    expected = twin(theirs_x, own, torch.from_numpy(edge_index(hop, own=True)))
    ours = layer(x, hop)
    assert_close(ours, expected, "forward")
    ours.backward(direction(ours.shape))
    expected.backward(direction(ours.shape).double())
    for name, grad in twin.grads().items():
        assert_close(getattr(layer, name).grad, grad, f"gradient of {name}")
    if isinstance(x, torch.Tensor):
        assert_close(x.grad, theirs_x.grad, "gradient of x")


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("path", ["aggregate first", "project first", "tensor"])
def test_it_equals_pyg(heads, kind, path, monkeypatch):
    hop, rows = hop_of(random_graph(heads, width=11), kind)
    monkeypatch.setattr(GATLayer, "_aggregates_first", lambda *_: path == "aggregate first")
    dense = rows.dense()
    assert 0 in hop.degrees and hop.degrees.max() > 2
    x = dense.clone().requires_grad_() if path == "tensor" else rows
    compare(gat(11, heads), x, hop, dense)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("kind", HOPS)
def test_it_equals_pyg_on_sparse_tables(heads, kind):
    hop, rows = hop_of(random_graph(3, width=30, sparse=True), kind)
    layer = gat(30, heads)
    assert not layer._aggregates_first(rows, hop)
    compare(layer, rows, hop, rows.dense())


def test_it_equals_pyg_where_graph_and_pyg_both_treat_self_loops():
    """PyG drops the given loops and adds one per node; so does a Graph with its own row."""
    random = np.random.default_rng(0)
    pairs = {(int(a), int(b)) for a, b in random.integers(0, 20, (60, 2))} | {(3, 3), (21, 21)}
    edges = np.array(sorted(pairs | {(b, a) for a, b in pairs})).T
    features = random.normal(size=(24, 11)).astype(np.float32)  # 20..23 have no neighbours, 21 a loop
    graph = Graph.from_edges(edges, features)
    hop = graph_hop(graph.indptr, graph.indices, 0, 24)
    layer = gat(11, 4)
    twin = PyGTwin(layer, add_self_loops=True)
    x = torch.from_numpy(features).double()
    expected = torch.nn.functional.elu(twin.conv(x, torch.from_numpy(edges)) + twin.skip(x))
    assert_close(layer(Rows(graph.features), hop), expected, "forward")


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", HOPS)
def test_it_equals_slow_loops(kind, first, monkeypatch):
    hop, rows = hop_of(random_graph(2, width=5), kind)
    monkeypatch.setattr(GATLayer, "_aggregates_first", lambda *_: first)
    layer = gat(5, 4)
    weight, skip, source, target, bias = (
        getattr(layer, name).detach().double().numpy()
        for name in ("weight", "skip", "source", "target", "bias")
    )
    x = rows.dense().double().numpy()
    own = x[hop.first : hop.first + hop.num_rows]
    expected = elu(gat_attention(x, hop, weight, source, target, layer.slope) + bias + own @ skip.T)
    assert np.abs(layer(rows, hop).detach().numpy() - expected).max() <= 1e-5


@pytest.mark.parametrize("first", [True, False])
def test_large_logits_do_not_overflow(first, monkeypatch):
    hop, rows = hop_of(random_graph(2, width=5), "whole")
    monkeypatch.setattr(GATLayer, "_aggregates_first", lambda *_: first)
    layer = gat(5, 4)
    with torch.no_grad():
        layer.source *= 1e4
        layer.target *= 1e4
    out = layer(rows, hop)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize("first", [True, False])
def test_bf16_changes_little_and_results_stay_float32(first, monkeypatch):
    hop, rows = hop_of(random_graph(2, width=32), "whole")
    monkeypatch.setattr(GATLayer, "_aggregates_first", lambda *_: first)
    layer = gat(32, 4)
    expected = layer(rows, hop)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = layer(rows, hop)
    assert narrow.dtype == torch.float32
    assert 0 < float((narrow - expected).detach().abs().max()) < 0.05
    narrow.sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.parametrize("path", ["aggregate first", "project first", "tensor", "sparse"])
def test_threads_do_not_change_a_bit(path, monkeypatch, restore_threads):
    graph = random_graph(0, nodes=900, edges=12_000, width=40, sparse=path == "sparse")
    monkeypatch.setattr(GATLayer, "_aggregates_first", lambda *_: path == "aggregate first")
    hop, rows = hop_of(graph, "whole")

    def run(threads):
        torch.set_num_threads(threads)
        layer = gat(40, 4, out=48)
        x = rows.dense().clone().requires_grad_() if path == "tensor" else rows
        out = layer(x, hop)
        out.backward(direction(out.shape))
        grads = [p.grad for p in layer.parameters()]
        return [out.detach(), *grads, *([x.grad] if path == "tensor" else [])]

    one = run(1)
    for threads in (2, 3):
        for a, b in zip(one, run(threads), strict=True):
            assert torch.equal(a, b)


def test_path_is_chosen_by_cost():
    """Many sources for few rows: aggregate first. One source per row and few edges each: project first."""
    layer = gat(64, 4, out=64)
    table = DenseTable(np.zeros((5000, 64), np.float32))
    few = graph_hop(np.array([0, 3, 6]), np.arange(2, 8, dtype=np.int32), 0, 2)
    object.__setattr__(few, "num_sources", 5000)
    assert layer._aggregates_first(Rows(table), few)
    indptr = np.arange(0, 5001 * 60, 60)
    many = graph_hop(indptr, np.zeros(5000 * 60, np.int32), 0, 5000)
    assert not layer._aggregates_first(Rows(table), many)


@pytest.mark.parametrize(("width", "heads"), [(10, 4), (8, 0), (3, 8)])
def test_width_must_divide_by_heads(width, heads):
    sentence = rf"width must be divisible by the number of heads, got width {width} and {heads} heads; choose"
    with pytest.raises(InputError, match=sentence):
        GATLayer(5, width, heads)


def test_without_rows_gradients_are_zero():
    layer, table = gat(6, 4), DenseTable(np.ones((5, 6), np.float32))
    none = Hop(np.zeros(1, np.int64), np.zeros(0, np.int32), 5, 0, np.zeros(6, np.int64), None)
    u = layer(Rows(table), none)
    u.sum().backward()
    assert u.shape == (0, OUT)
    for parameter in layer.parameters():
        assert torch.equal(parameter.grad, torch.zeros_like(parameter))
