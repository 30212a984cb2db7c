"""Neighbours are drawn uniformly without replacement: chi-square tests, at levels no sound sampler misses.

Keys are fixed, so a test that passes always passes; 10^-4 on either side keeps that honest.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from lrgi import seed as randomness
from lrgi.sampling._kernels import sample_neighbours

LEVEL = 1e-4


def places_drawn(degree, fan_out, nodes, keys):
    """[nodes * keys, min(degree, fan_out)] places within the row, for many nodes of the same degree."""
    indptr = np.arange(nodes + 1, dtype=np.int64) * degree
    count = min(degree, fan_out)
    out_indptr = np.arange(nodes + 1, dtype=np.int64) * count
    drawn = []
    for number in range(keys):
        places = np.full(nodes * count, -1, np.int64)
        rows = np.arange(nodes, dtype=np.int32)
        key = randomness.key(0, "neighbours", 1, number)
        graph = (indptr, np.arange(nodes * degree))  # a neighbour's id is its place
        sample_neighbours(graph, (rows, rows), np.full(nodes, fan_out), key, out_indptr, (0, nodes), places)
        drawn.append(places.reshape(nodes, count) - indptr[:-1, None])
    return np.concatenate(drawn)


def assert_plausible(statistic, freedom):
    assert stats.chi2.sf(statistic, freedom) > LEVEL, "not uniform"
    assert stats.chi2.cdf(statistic, freedom) > LEVEL, "too even to be random"


@pytest.mark.parametrize("fan_out", [1, 5, 10, 48, 49, 60])
@pytest.mark.parametrize("below", [0, 1, 4])
def test_small_neighbourhoods_are_read_whole(fan_out, below):
    degree = max(fan_out - below, 0)
    drawn = places_drawn(degree, fan_out, 20, 2)
    assert np.array_equal(drawn, np.tile(np.arange(degree), (40, 1)))


@pytest.mark.parametrize(("nodes", "keys"), [(1, 3000), (3000, 1), (60, 50)], ids=["keys", "nodes", "both"])
@pytest.mark.parametrize(
    ("degree", "fan_out"),
    [
        *[(2, 1), (11, 10), (12, 10), (60, 10), (700, 10), (49, 48), (300, 48)],  # Floyd
        *[(50, 49), (51, 49), (300, 49), (400, 300)],  # selection
    ],
)
def test_every_neighbour_is_equally_likely(degree, fan_out, nodes, keys):
    drawn = places_drawn(degree, fan_out, nodes, keys)
    assert drawn.min() >= 0 and drawn.max() < degree
    ordered = np.sort(drawn, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all(), "without replacement"
    met = np.bincount(drawn.ravel(), minlength=degree)
    share = fan_out / degree
    # Inclusions of one draw add up to fan_out, which shrinks the variance by (d - 1) / d of d - 1 degrees.
    variance = len(drawn) * share * (1 - share) * degree / (degree - 1)
    assert_plausible(((met - len(drawn) * share) ** 2).sum() / variance, degree - 1)


@pytest.mark.parametrize(
    ("degree", "fan_out"), [(4, 2), (5, 2), (6, 3), (7, 6), (50, 48), (51, 49), (50, 49)]
)
@pytest.mark.parametrize("many", ["keys", "nodes"])
def test_every_subset_is_equally_likely(degree, fan_out, many):
    """Subsets are told by what they leave out; with fan_out 2 this is the test on pairs."""
    left_out = list(combinations(range(degree), degree - fan_out))
    number = {subset: i for i, subset in enumerate(left_out)}
    size = 8 * len(left_out) if len(left_out) > 100 else 4000
    drawn = places_drawn(degree, fan_out, *((1, size) if many == "keys" else (size, 1)))
    inside = np.zeros((len(drawn), degree), bool)
    inside[np.arange(len(drawn))[:, None], drawn] = True
    _, columns = np.nonzero(~inside)
    met = np.zeros(len(left_out))
    for subset in columns.reshape(len(drawn), degree - fan_out).tolist():
        met[number[tuple(subset)]] += 1
    expected = len(drawn) / len(left_out)
    assert_plausible(((met - expected) ** 2).sum() / expected, len(left_out) - 1)


def test_neighbouring_nodes_and_epochs_draw_independently():
    """One of 6: the pair (node, next node) and (epoch, next epoch) are uniform on 36 outcomes."""
    drawn = places_drawn(6, 1, 200, 60).reshape(60, 200)
    for first, second in ((drawn[:, :-1:2], drawn[:, 1::2]), (drawn[:-1:2], drawn[1::2])):
        met = np.bincount((6 * first + second).ravel(), minlength=36)
        expected = met.sum() / 36
        assert_plausible(((met - expected) ** 2).sum() / expected, 35)
