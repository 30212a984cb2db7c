"""What a process would hold of a graph, whole or in parts, and which of the two is chosen."""

import numpy as np

from lrgi.graph.part import cost_of, cost_of_part, cut_part, owners_by_range
from lrgi.graph.synthetic import planted_communities
from lrgi.training.placement import placement_of
from lrgi.training.plan import FitPlan


def test_costs_are_those_of_parts_that_are_cut():
    graph = planted_communities(nodes=400, edges=900, features=10, seed=1)
    owners, plan = owners_by_range(graph, 3), FitPlan(layers=3, width=16)
    parts = [cut_part(graph, owners, number) for number in range(3)]
    assert [cost_of_part(graph, owners, number) for number in range(3)] == [cost_of(p) for p in parts]
    found = placement_of(graph, plan, owners, None)
    assert found.share_of_nodes == np.mean([part.num_nodes for part in parts]) / 400
    arrays = ("indptr", "indices", "names", "owners", "in_whole")
    sizes = [
        sum(getattr(part, name).nbytes for name in arrays)
        + part.features.array.nbytes
        + 2 * 4 * 16 * part.num_nodes
        for part in parts
    ]
    assert abs(found.part - max(sizes)) < 64
    tables = 2 * 4 * 16 * graph.num_nodes
    assert abs(found.whole - tables - sum(
        array.nbytes for array in (graph.indptr, graph.indices, graph.features.array)
    )) < 64  # fmt: skip


def test_parts_are_chosen_where_only_they_fit():
    graph = planted_communities(nodes=400, edges=450, features=10, seed=1)
    owners = owners_by_range(graph, 4)
    free = placement_of(graph, FitPlan(), owners, None)
    assert free.part < free.whole
    for room, best in ((free.whole, "whole"), (free.whole - 1, "parts"), (free.part, "parts"),
                       (free.part - 1, "whole"), (None, "whole")):  # fmt: skip
        assert placement_of(graph, FitPlan(), owners, room).best == best
