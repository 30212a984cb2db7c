"""MAD against a loop over nodes and neighbours."""

import numpy as np
import pytest
import scipy.sparse

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, as_table
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities
from lrgi.probe import smoothing
from lrgi.probe.smoothing import mad


def small_graph(nodes=60, edges=150, seed=0):
    rng = np.random.default_rng(seed)
    return Graph.from_edges(rng.integers(0, nodes, (2, edges)), np.ones((nodes, 1)), directed=True)


def slow_mad(rows, graph):
    averages = []
    for node in range(graph.num_nodes):
        distances = []
        for other in graph.indices[graph.indptr[node] : graph.indptr[node + 1]]:
            a, b = rows[node].astype(float), rows[other].astype(float)
            lengths = np.linalg.norm(a), np.linalg.norm(b)
            if min(lengths) == 0:
                distances.append(0.0 if max(lengths) == 0 else 1.0)
            else:
                distances.append(1 - a @ b / (lengths[0] * lengths[1]))
        if distances and np.mean(distances) > 0:
            averages.append(np.mean(distances))
    return float(np.mean(averages))


@pytest.mark.parametrize("chunk", [1, 500, 1 << 20])
def test_equals_the_loop(chunk, monkeypatch):
    monkeypatch.setattr(smoothing, "_CHUNK_BYTES", chunk)
    graph = small_graph()
    rows = np.random.default_rng(1).standard_normal((60, 5)).astype(np.float32)
    rows[:6] = 0
    expected = slow_mad(rows, graph)
    assert mad(DenseTable(rows), graph) == pytest.approx(expected, rel=1e-5)
    assert mad(as_table(scipy.sparse.csr_matrix(rows)), graph) == pytest.approx(expected, rel=1e-5)


def test_is_zero_for_rows_alike_and_one_for_rows_unrelated():
    graph = Graph.from_edges([[0, 1], [1, 2]], np.ones((3, 1)))
    assert mad(DenseTable(np.ones((3, 4))), graph) == 0.0
    assert mad(DenseTable(np.eye(3)), graph) == pytest.approx(1.0)
    assert mad(DenseTable([[1.0], [-1.0], [1.0]]), graph) == pytest.approx(2.0)


def test_near_collapse_is_measured_and_not_lost_in_rounding():
    graph = Graph.from_edges([[0], [1]], np.ones((2, 1)))
    near = DenseTable([[1.0, 0.0], [1.0, 1e-4]])
    assert mad(near, graph) == pytest.approx(5e-9, rel=1e-3)


def test_a_sample_is_fixed_by_its_seed_and_near_the_whole():
    graph = planted_communities(nodes=2_000, edges=40_000)
    whole = mad(graph.features, graph)
    part = mad(graph.features, graph, max_edges=8_000)
    assert part == mad(graph.features, graph, max_edges=8_000)
    assert part != mad(graph.features, graph, max_edges=8_000, seed=1)
    assert part != whole
    assert part == pytest.approx(whole, abs=0.02)


def test_another_graphs_table_is_refused():
    with pytest.raises(InputError) as caught:
        mad(DenseTable(np.ones((4, 2))), small_graph())
    assert str(caught.value) == "the table must have one row per node (60), got 4 rows; embed this graph"
    with pytest.raises(InputError, match="max_edges must be at least 1, got 0; raise it"):
        mad(DenseTable(np.ones((60, 2))), small_graph(), max_edges=0)
