"""Steps on features: dense and sparse alike, zeros stay, names are checked."""

import numpy as np
import pytest
import scipy.sparse

from lrgi.errors import InputError
from lrgi.graph.features import as_table
from lrgi.graph.prepare import STEPS, prepared
from reference.graphs import random_graph

ROWS = np.array([[2, 0, 6], [0, 0, 0], [0, -3, 1]], dtype=np.float32)
EXPECTED = {
    "binary": [[1, 0, 1], [0, 0, 0], [0, 1, 1]],
    "row-normalised": [[0.25, 0, 0.75], [0, 0, 0], [0, -0.75, 0.25]],
    "row-length": [[2 / 40**0.5, 0, 6 / 40**0.5], [0, 0, 0], [0, -3 / 10**0.5, 1 / 10**0.5]],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix])
def test_every_step_on_dense_and_sparse_features(step, make):
    table = STEPS[step](as_table(make(ROWS)))
    np.testing.assert_allclose(table.rows(np.arange(3)), EXPECTED[step], rtol=1e-6)


def test_steps_follow_each_other_and_names_are_checked():
    graph = random_graph(0, nodes=20, edges=60, width=4, sparse=True)
    sums = prepared(graph, ("binary", "row-normalised")).features.rows(np.arange(20)).sum(1)
    assert np.all(np.isclose(sums, 1) | (sums == 0))
    assert prepared(graph, ()) is graph
    with pytest.raises(InputError, match=r"a step of features must be one of .*, got 'tfidf'; choose"):
        prepared(graph, ("tfidf",))
