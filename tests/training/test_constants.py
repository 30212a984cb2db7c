"""Layers that are fitted on constant aggregates: the same fit as without, where all neighbours are read."""

import numpy as np
import pytest

from lrgi.graph.graph import Graph
from lrgi.graph.inductive import disjoint_union
from lrgi.graph.synthetic import planted_communities
from lrgi.layers.constant import AggregatedTable
from lrgi.training.cost import needs_of
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal, Keeper, Listener
from lrgi.training.objective import Infomax
from lrgi.training.plan import FitPlan
from lrgi.training.tables import TableStore

GRAPH = planted_communities(nodes=600, edges=6_000, features=24, seed=1)
PLAN = FitPlan(
    layers=2, width=16, batch_size=64, updates=8, learning_rate=5e-3, seed=3, expansion=2, inputs="given"
)
KINDS = ("sage", "gcn", "plain-gcn")


class Blocks(Listener):
    """The sizes of every batch, and the table that is read."""

    def __init__(self):
        self.sizes, self.tables = [], []

    def fit_begins(self, module, table):
        self.tables.append(table)

    def step_taken(self, record):
        self.sizes.append((len(record.block.nodes), record.block.depth))


def embedded(graph, plan, **journal):
    heard = Blocks()
    table = fit_encoder(graph, plan, Journal(heard, **journal)).embed(graph)
    return table.array, heard


def two_graphs() -> Graph:
    return disjoint_union([planted_communities(nodes=300, edges=n, features=24, seed=n) for n in (900, 2000)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batches", ["sampled targets", "one whole graph", "whole graphs"])
def test_with_all_neighbours_it_is_the_same_fit(monkeypatch, kind, batches):
    graph = two_graphs() if batches == "whole graphs" else GRAPH
    size = 64 if batches == "sampled targets" else 0
    plan = PLAN.with_settings(layer=kind, batch_size=size, neighbours=0, next_neighbours=0)
    with_constants, _ = embedded(graph, plan)
    monkeypatch.setattr(Infomax, "reads_constants", False)
    without, heard = embedded(graph, plan)
    assert not any(isinstance(table, AggregatedTable) for table in heard.tables)
    np.testing.assert_allclose(with_constants, without, atol=2e-3)  # Adam divides rounding by rounding


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_reads_no_second_hop(monkeypatch, kind):
    plan = PLAN.with_settings(layer=kind, neighbours=5)
    here, heard = embedded(GRAPH, plan)
    assert all(isinstance(table, AggregatedTable) for table in heard.tables) and len(heard.tables) == 2
    assert {depth for _, depth in heard.sizes} == {1}
    other, _ = embedded(GRAPH, plan.with_settings(next_neighbours=2))
    assert np.array_equal(here, other)
    monkeypatch.setattr(Infomax, "reads_constants", False)
    _, sampled = embedded(GRAPH, plan)
    assert {depth for _, depth in sampled.sizes} == {2}
    assert np.mean([nodes for nodes, _ in heard.sizes]) < np.mean([nodes for nodes, _ in sampled.sizes])


def test_attention_is_fitted_on_samples():
    _, heard = embedded(GRAPH, PLAN)
    assert {depth for _, depth in heard.sizes} == {2}
    assert not any(isinstance(table, AggregatedTable) for table in heard.tables)


def test_aggregates_in_a_mapped_file_give_the_same_bits(tmp_path):
    plan = PLAN.with_settings(layer="sage")
    keeper = Keeper(TableStore(tmp_path, mapped=True))
    mapped, heard = embedded(GRAPH, plan, keeper=keeper)
    in_memory, _ = embedded(GRAPH, plan)
    assert np.array_equal(mapped, in_memory)
    base = heard.tables[1].aggregates.array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["U_1.log", "U_1.npy"]


def test_a_plan_counts_the_table_of_aggregates():
    graph = planted_communities(40_000, 200_000, features=400)
    plan = FitPlan(layers=1, layer="sage", width=16, batch_size=64, updates=4, expansion=1, inputs="given")
    how = {"steps": 2, "seconds": 0.1}
    foreseen = {mapped: needs_of(graph, plan, mapped=mapped, **how) for mapped in (False, True)}
    size = 4 * 40_000 * 400
    assert foreseen[False].step > 0.9 * size
    assert foreseen[False].step - foreseen[True].step == pytest.approx(size, rel=0.3)
    assert foreseen[True].disk - foreseen[False].disk == size
    assert len(foreseen[False].constant_seconds) == 1 and foreseen[False].constant_seconds[0] > 0
    attention = needs_of(graph, plan.with_settings(layer="gat"), **how)
    assert attention.constant_seconds == ()
