"""The compiled aggregations: their plain torch twins, slow loops, and finite differences in float64."""

import numpy as np
import pytest
import torch

from lrgi import seed as randomness
from lrgi.layers import twin
from lrgi.layers.aggregate import attend, neighbour_mean, scaled_sum
from lrgi.layers.attention import AttentionWeights, attend_table
from lrgi.layers.frozen import attend_frozen
from lrgi.sampling.sample import sample_block
from reference.graphs import HOPS, hop_of, random_graph
from reference.layers import neighbour_mean as mean_loop


def draw(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def small(kind, sparse=False):
    return hop_of(random_graph(6, nodes=14, edges=30, width=3, sparse=sparse), kind)


def attend_inputs(hop, dtype=torch.float64, heads=2, width=3):
    p = draw(1, hop.num_sources, heads, width, dtype=dtype)
    return p, draw(2, hop.num_sources, heads, dtype=dtype), draw(3, hop.num_rows, heads, dtype=dtype)


def attention_weights(heads, columns, width):
    """weight, skip, source, target, bias, as `AttentionWeights` has them."""
    size = heads * columns
    shapes = ((size, width), (size, width), (heads, columns), (heads, columns), (size,))
    return [draw(seed, *shape).requires_grad_() for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("heads", [1, 2, 5])
def test_gradcheck_of_attend_table(kind, heads):
    hop, rows = small(kind)
    inputs = attention_weights(heads, 2, 3)
    assert torch.autograd.gradcheck(lambda *w: attend_table(rows, hop, AttentionWeights(*w), 0.2), inputs)


@pytest.mark.parametrize("kind", HOPS)
def test_gradcheck_of_attend(kind):
    hop, _ = small(kind)
    inputs = [t.requires_grad_() for t in attend_inputs(hop)]
    assert torch.autograd.gradcheck(lambda *a: attend(*a, hop, 0.2), inputs)


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("scaled", [False, True])
def test_gradcheck_of_scaled_sum(kind, scaled):
    hop, _ = small(kind)
    scales = (draw(4, hop.num_rows), draw(5, hop.num_sources)) if scaled else (None, None)
    x = draw(1, hop.num_sources, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: scaled_sum(x, hop, *scales), x)


@pytest.mark.parametrize("kind", HOPS)
def test_gradcheck_of_sparse_product(kind):
    _, rows = small(kind, sparse=True)
    weight = draw(1, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(rows.product, weight)


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attend_equals_its_twin(kind, heads, dtype):
    hop, _ = hop_of(random_graph(1), kind)
    results = []
    for function in (attend, twin.attend):
        inputs = [t.requires_grad_() for t in attend_inputs(hop, dtype, heads, 5)]
        out = function(*inputs, hop, 0.2)
        out.backward(draw(9, *out.shape, dtype=dtype))
        results.append([out, *(t.grad for t in inputs)])
    for ours, plain in zip(*results, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize("scales", ["none", "row", "source", "both"])
def test_scaled_sum_equals_its_twin(kind, scales):
    hop, _ = hop_of(random_graph(1), kind)
    row = draw(4, hop.num_rows) if scales in ("row", "both") else None
    source = draw(5, hop.num_sources) if scales in ("source", "both") else None
    results = []
    for function in (scaled_sum, twin.scaled_sum):
        x = draw(1, hop.num_sources, 5).requires_grad_()
        out = function(x, hop, row, source)
        out.backward(draw(9, *out.shape))
        results.append((out, x.grad))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize(("heads", "width"), [(3, 5), (4, 40), (8, 33)])
def test_attend_table_is_attend_of_the_projected_rows(kind, heads, width):
    """With values W x and scores x . q: the twin never saw the table."""
    hop, rows = hop_of(random_graph(1, width=width), kind)
    results = []
    for through_table in (True, False):
        weight, skip, source, target, bias = inputs = attention_weights(heads, 4, width)
        if through_table:
            out = attend_table(rows, hop, AttentionWeights(*inputs), 0.2)
        else:
            x = rows.dense().double()
            own = slice(hop.first, hop.first + hop.num_rows)
            p = (x @ weight.t()).view(-1, heads, 4)
            s_source, s_row = (p * source).sum(-1), (p[own] * target).sum(-1)
            attended = twin.attend(p, s_source, s_row, hop, 0.2).flatten(1)
            out = torch.nn.functional.elu(attended + x[own] @ skip.t() + bias)
        out.backward(draw(9, *out.shape))
        results.append([out, *(t.grad for t in inputs)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows_at_a_time", [1, 7, 64])
def test_how_many_rows_share_a_cache_does_not_matter(rows_at_a_time, monkeypatch):
    hop, rows = hop_of(random_graph(1, nodes=300, edges=2000, width=5), "whole")
    results = []
    for few in (1 << 20, rows_at_a_time):
        monkeypatch.setattr("lrgi.layers.attention._CACHE_FLOATS", few * 4 * 5)
        monkeypatch.setattr("lrgi.layers.attention._LEAST_ROWS", 1)
        inputs = attention_weights(3, 4, 5)
        out = attend_table(rows, hop, AttentionWeights(*inputs), 0.2)
        out.backward(draw(9, *out.shape))
        results.append([out, *(t.grad for t in inputs)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", HOPS)
def test_neighbour_mean_equals_loops_and_is_0_for_isolated_nodes(kind):
    hop, rows = hop_of(random_graph(1), kind)
    x = rows.dense()
    mean = neighbour_mean(x, hop)
    assert np.abs(mean.numpy() - mean_loop(x.double().numpy(), hop)).max() <= 1e-6
    isolated = hop.degrees == 0
    assert isolated.any() and not isolated.all()
    assert torch.equal(mean[isolated], torch.zeros(int(isolated.sum()), 6))


def test_a_hop_without_any_edge():
    graph = random_graph(1)
    lonely = np.flatnonzero(graph.degrees() == 0)[:3]
    hop = sample_block(graph, lonely, (5,), randomness.key(0)).hop(0)
    assert hop.num_edges == 0
    x = draw(1, 3, 4).requires_grad_()
    neighbour_mean(x, hop).sum().backward()
    assert torch.equal(x.grad, torch.zeros_like(x))
    p, s_source, s_row = attend_inputs(hop)
    torch.testing.assert_close(attend(p, s_source, s_row, hop, 0.2), p)  # each attends to itself alone


def test_gradients_of_layouts_that_are_not_contiguous():
    hop, _ = hop_of(random_graph(1), "whole")
    results = []
    for function in (scaled_sum, twin.scaled_sum):
        x = draw(1, 5, hop.num_sources).requires_grad_()
        function(x.t(), hop).t().sum(0).square().sum().backward()
        results.append(x.grad)
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", ["mean", "sparse product"])
def test_threads_do_not_change_a_bit(name, restore_threads):
    graph = random_graph(0, nodes=900, edges=12_000, width=40, sparse=True)
    hop, rows = hop_of(graph, "whole")

    def run(threads):
        torch.set_num_threads(threads)
        x = draw(1, *((900, 40) if name == "mean" else (48, 40)), dtype=torch.float32).requires_grad_()
        out = neighbour_mean(x, hop) if name == "mean" else rows.product(x)
        out.backward(draw(2, *out.shape, dtype=torch.float32))
        return out, x.grad

    for threads in (2, 3):
        for a, b in zip(run(1), run(threads), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("kind", HOPS)
@pytest.mark.parametrize(("heads", "width"), [(1, 3), (2, 40), (4, 32)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention_without_a_gradient_agrees_with_its_twin(kind, heads, width, dtype):
    hop, _ = small(kind)
    inputs = attend_inputs(hop, dtype, heads, width)
    torch.testing.assert_close(attend_frozen(*inputs, hop, 0.2), twin.attend(*inputs, hop, 0.2))


def test_attention_without_a_gradient_survives_hubs_and_large_logits():
    graph = random_graph(3, nodes=400, edges=12_000, width=3)
    block = sample_block(graph, np.arange(400, dtype=np.int32), (None,), np.uint64(1))
    hop = block.hop(0)
    p, s_source, s_row = attend_inputs(hop, torch.float32, 4, 32)
    large = (p, 300 * s_source, 300 * s_row)
    found = attend_frozen(*large, hop, 0.2)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, twin.attend(*large, hop, 0.2))
