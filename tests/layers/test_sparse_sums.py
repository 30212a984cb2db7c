"""Sums as sparse products: those of the twin, and their gradients, for hops of every shape."""

import numpy as np
import pytest
import torch

from lrgi.layers import sparse_sums, twin
from lrgi.sampling.block import Hop


def hop_of(rows: int, sources: int, first_edge: int, seed: int = 0) -> Hop:
    random = np.random.default_rng(seed)
    degrees = random.integers(0, 5, rows)
    degrees[1] = 0
    indptr = first_edge + np.concatenate([[0], np.cumsum(degrees)])
    indices = random.integers(0, sources, first_edge + int(degrees.sum())).astype(np.int32)
    return Hop(indptr, indices, sources, 0, np.arange(sources + 1), None)


@pytest.mark.parametrize("hop", [hop_of(6, 6, 0), hop_of(5, 9, 0), hop_of(4, 7, 11)])
@pytest.mark.parametrize("scaled", [False, True])
def test_sums_and_gradients_are_the_twins(hop, scaled):
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(hop.num_sources, 3, requires_grad=True, generator=draw)
    scales = [torch.rand(n, generator=draw) if scaled else None for n in (hop.num_rows, hop.num_sources)]
    ours, expected = sparse_sums.scaled_sum(x, hop, *scales), twin.scaled_sum(x, hop, *scales)
    torch.testing.assert_close(ours, expected)
    (a,) = torch.autograd.grad(ours.sin().sum(), x)
    (b,) = torch.autograd.grad(expected.sin().sum(), x)
    torch.testing.assert_close(a, b)


def test_the_matrices_are_made_once_per_hop():
    hop = hop_of(6, 6, 0)
    assert sparse_sums._adjacency(hop, torch.device("cpu")) is sparse_sums._adjacency(
        hop, torch.device("cpu")
    )
    assert torch.equal(
        sparse_sums._transposed(hop, torch.device("cpu")).to_dense(),
        sparse_sums._adjacency(hop, torch.device("cpu")).to_dense().t(),
    )


def test_other_precisions_take_the_twin():
    hop = hop_of(6, 6, 0)
    x = torch.ones(6, 2, dtype=torch.float64)
    assert torch.equal(sparse_sums.scaled_sum(x, hop), twin.scaled_sum(x, hop))
