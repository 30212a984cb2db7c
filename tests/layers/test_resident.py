"""Tables on a device: sparse products equal dense ones, and nothing is copied twice."""

import numpy as np
import torch

from lrgi.graph.features import SparseTable
from lrgi.layers import resident


def sparse(rows=10, columns=7, seed=0):
    random = np.random.default_rng(seed)
    indptr = np.arange(0, 4 * rows + 1, 4)
    values = random.standard_normal(4 * rows).astype(np.float32)
    return SparseTable(indptr, random.integers(0, columns, 4 * rows), values, columns)


def test_a_sparse_product_and_its_gradient_equal_the_dense_ones():
    table = sparse()
    weight = torch.randn(3, 7, requires_grad=True, generator=torch.Generator().manual_seed(1))
    ours, dense = resident.sparse_product(table, weight), torch.from_numpy(table.rows(np.arange(10)))
    expected = dense @ weight.t()
    torch.testing.assert_close(ours, expected)
    (a,) = torch.autograd.grad(ours.sin().sum(), weight)
    (b,) = torch.autograd.grad(expected.sin().sum(), weight)
    torch.testing.assert_close(a, b)


def test_a_table_is_copied_once_while_it_is_among_the_latest():
    first = sparse(seed=1)
    copy = resident.sparse_on(first, "cpu")
    assert resident.sparse_on(first, "cpu") is copy
    others = [sparse(seed=seed) for seed in range(2, 2 + resident._MOST)]
    for other in others:
        resident.sparse_on(other, "cpu")
    assert resident.sparse_on(first, "cpu") is not copy
