"""Tables against scipy and plain numpy, and the sentences for values that are not features."""

import numpy as np
import pytest
import scipy.sparse

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, SparseTable, as_table, row_chunks, row_positions

CSR = scipy.sparse.random(30, 7, density=0.3, format="csr", dtype=np.float32, random_state=0)


@pytest.mark.parametrize("table", [as_table(CSR), as_table(CSR.toarray())], ids=["sparse", "dense"])
def test_rows_take_and_slice_agree_with_a_dense_array(table):
    whole = CSR.toarray()
    ids = [29, 0, 3, 3]
    assert table.shape == (30, 7)
    assert table.dense_bytes == 30 * 7 * 4
    np.testing.assert_array_equal(table.rows(ids), whole[ids])
    assert type(table.take(ids)) is type(table)
    np.testing.assert_array_equal(table.take(ids).rows([0, 3]), whole[[29, 3]])
    for start, stop in ((4, 11), (0, 30), (28, 99), (5, 5)):
        part = table.slice(start, stop)
        np.testing.assert_array_equal(part.rows(np.arange(part.shape[0])), whole[start:stop])
    assert table.rows(np.empty(0, dtype=int)).shape == (0, 7)


def test_rows_are_writable_copies_and_tables_are_not():
    mine = np.ones((3, 2), dtype=np.float32)
    table = DenseTable(mine)
    rows = table.rows([0])
    rows[:] = 5
    assert table.array[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        table.array[0, 0] = 2
    mine[0, 0] = 3  # the caller's own array keeps its flags, and nothing was copied
    assert table.array[0, 0] == 3


def test_sparse_columns_named_twice_add_up():
    table = SparseTable(np.array([0, 3]), np.array([1, 0, 1]), np.array([1.0, 2.0, 4.0]), 2)
    np.testing.assert_array_equal(table.rows([0]), [[2, 5]])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.uint8, bool])
def test_other_numbers_become_float32(dtype):
    table = as_table(np.eye(3, dtype=dtype)[:, ::-1])
    assert table.array.dtype == np.float32
    assert table.array.flags.c_contiguous
    np.testing.assert_array_equal(table.array, np.eye(3)[:, ::-1])


def test_a_slice_of_a_dense_table_is_a_view():
    table = as_table(np.ones((5, 2), dtype=np.float32))
    assert np.shares_memory(table.slice(1, 3).array, table.array)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: as_table(np.ones(3)), r"features must have two dimensions .* got shape \(3,\); reshape"),
        (lambda: as_table(np.array([["a"]])), "features must be numbers, got dtype <U1; convert"),
        (lambda: SparseTable([0, 1], [0], [1.0, 2.0], 3), "CSR arrays .* got shapes .*; pass a scipy"),
        (lambda: SparseTable([0, 2], [0], [1.0], 3), "must run from 0 to the number of values 1, got 0 to 2"),
        (lambda: SparseTable([0, 1], [0], [1.0], -1), r"must have 0 to 2\^31 - 1 columns, got -1"),
        (lambda: SparseTable([0, 1], [0.5], [1.0], 3), "column ids must be integers, got dtype float64"),
        (lambda: SparseTable([0, 1], [2**40], [1.0], 3), r"column ids must be below 2\^31, got"),
        (lambda: SparseTable([0, 1], [3], [1.0], 3).check(), "must lie in 0 to 2, got 3 in row 0"),
        (
            lambda: SparseTable([0, 2, 1, 2], [0, 1], [1, 1], 3).check(),
            "must not fall, got a fall after row 1",
        ),
        (lambda: as_table([[0, 1], [np.nan, 1]]).check(), "be finite, got nan in row 1, column 0; replace"),
        (lambda: as_table([[0, 1], [1, 1e300]]).check(), "be finite, got inf in row 1, column 1"),
        (
            lambda: as_table(scipy.sparse.csr_matrix([[0, 0], [0, -np.inf]])).check(),
            "be finite, got -inf in row 1, column 1",
        ),
    ],
)
def test_sentences(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


def test_row_positions_and_chunks_cover_every_entry():
    indptr = CSR.indptr.astype(np.int64)
    rows = np.array([5, 0, 5, 29])
    bounds, positions = row_positions(indptr, rows)
    slow = [list(range(indptr[row], indptr[row + 1])) for row in rows]
    assert [list(positions[bounds[i] : bounds[i + 1]]) for i in range(4)] == slow
    for most in (1, 4, 1000):
        chunks = list(row_chunks(indptr, most))
        assert [row for start, stop in chunks for row in range(start, stop)] == list(range(30))
        assert all(stop == start + 1 or indptr[stop] - indptr[start] <= most for start, stop in chunks)
