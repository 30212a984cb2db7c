"""Exact search against a plain sort, whatever the parts."""

import numpy as np
import pytest

from lrgi.nearest.exact import nearest_rows

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(200, 5)).astype(np.float32)


def slow(query, rows, own, k):
    cosines = rows.astype(np.float64) @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    order = [int(row) for row in np.argsort(-cosines, kind="stable") if row != own]
    return order[:k], cosines[order[:k]]


@pytest.mark.parametrize("cuts", [[], [1], [7, 8, 150], list(range(5, 200, 5))])
@pytest.mark.parametrize("k", [1, 6, 199])
def test_it_is_a_plain_sort(cuts, k):
    own = np.array([0, 17, 199])
    rows, cosines = nearest_rows(ROWS[own], np.split(ROWS, cuts), k, own)
    for at, row in enumerate(own):
        wanted, values = slow(ROWS[row].astype(np.float64), ROWS, row, k)
        assert rows[at].tolist() == wanted
        np.testing.assert_allclose(cosines[at], values, atol=1e-6)


def test_equals_come_in_order_and_zeros_are_near_to_nothing():
    table = np.array([[0, 0], [1, 0], [-1, 0], [2, 0], [1, 0], [3, 0]], np.float32)
    rows, cosines = nearest_rows(table[[1]], [table[:3], table[3:]], 5, np.array([1]))
    assert rows.tolist() == [[3, 4, 5, 0, 2]]
    assert cosines.tolist() == [[1, 1, 1, 0, -1]]


def test_a_query_that_is_no_row_and_more_than_there_is():
    rows, cosines = nearest_rows(np.ones((1, 5), np.float32), [ROWS[:3]], 9, np.array([-1]))
    assert rows.shape == cosines.shape == (1, 3)
