"""The chance that a node is nearer to a neighbour than to a stranger."""

import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities
from lrgi.probe.nearness import edge_auc

GRAPH = planted_communities(300, 3000, classes=3, features=8)


def test_it_knows_the_extremes():
    random = np.random.default_rng(0)
    noise = random.normal(size=(300, 4)).astype(np.float32)
    assert edge_auc(DenseTable(noise), GRAPH) == pytest.approx(0.5, abs=0.03)
    assert edge_auc(DenseTable(np.ones((300, 4))), GRAPH) == pytest.approx(0.5)  # ties count half
    group = np.repeat(np.arange(3), 100)
    edges = np.stack([random.integers(0, 100, (3, 2000)) + 100 * np.arange(3)[:, None] for _ in range(2)])
    apart = Graph.from_edges(edges.reshape(2, -1), np.eye(3, dtype=np.float32)[group])
    assert edge_auc(apart.features, apart) == pytest.approx(1 - 0.5 / 3, abs=0.02)


def test_it_is_the_share_of_pairs_that_are_ordered(monkeypatch):
    monkeypatch.setattr("lrgi.probe.nearness._EDGES", 200)
    table, calls = GRAPH.features, []
    import lrgi.probe.nearness as module

    cosines = module._cosines
    monkeypatch.setattr(module, "_cosines", lambda *given: calls.append(cosines(*given)) or calls[-1])
    found = edge_auc(table, GRAPH)
    near, far = calls
    slow = np.mean([(a > b) + 0.5 * (a == b) for a in near for b in far])
    assert found == pytest.approx(slow)


def test_a_table_of_another_graph():
    with pytest.raises(InputError, match="must have the same nodes, and edges, got 3 rows, 300 nodes"):
        edge_auc(DenseTable(np.ones((3, 2))), GRAPH)
