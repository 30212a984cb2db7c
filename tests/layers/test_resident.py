"""Tables on a device: sparse products equal dense ones, and nothing is copied twice."""

import numpy as np
import pytest
import torch

from lrgi.graph.features import DenseTable, SparseTable
from lrgi.layers import resident
from lrgi.layers.rows import Rows


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


def test_rows_of_a_resident_table_few_or_many_in_any_order_are_the_dense_ones():
    table, random = sparse(), np.random.default_rng(2)
    weight = torch.randn(3, 7, generator=torch.Generator().manual_seed(1))
    for count in (3, 10):
        nodes = random.permutation(10)[:count]
        ours = Rows(table, nodes)._sparse_on_device(table, weight)
        torch.testing.assert_close(ours, torch.from_numpy(table.rows(nodes)) @ weight.t())


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("nodes", [None, np.array([4, 1, 1])])
def test_columns_that_do_not_count_are_zero(dense, nodes):
    table = sparse()
    table = DenseTable(table.rows(np.arange(10))) if dense else table
    kept = np.array([1, 0, 1, 1, 0, 0, 1], dtype=np.float32)
    rows = Rows(table, nodes, kept=kept)
    weight = torch.randn(3, 7, requires_grad=True, generator=torch.Generator().manual_seed(1))
    expected = torch.from_numpy(table.rows(np.arange(10) if nodes is None else nodes) * kept)
    assert torch.equal(rows.dense(), expected)
    torch.testing.assert_close(rows.product(weight), expected @ weight.t())
    (a,) = torch.autograd.grad(rows.product(weight).sin().sum(), weight)
    (b,) = torch.autograd.grad((expected @ weight.t()).sin().sum(), weight)
    torch.testing.assert_close(a, b)
    assert torch.equal(rows.range(1, 3).dense(), expected[1:3])
