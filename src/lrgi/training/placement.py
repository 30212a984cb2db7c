"""Where the data of a fit by several processes lies: whole copies on every machine, or a part on each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.part import Cost, cost_of_part
from lrgi.training.plan import FitPlan

PLACEMENTS = ("whole", "parts")


@dataclass(frozen=True)
class Placement:
    """What each process reads, graph, features and tables, if it has all of the graph or a part."""

    processes: int
    whole: int  # bytes
    part: int  # of the largest part
    share_of_nodes: float  # that a part holds, on average
    room: int | None  # bytes of memory that each process may have

    @property
    def best(self) -> str:
        """Whole copies where there is room, since they share work evenly; else parts, if they fit."""
        if self.room is None or self.whole <= self.room or self.part > self.room:
            return "whole"
        return "parts"

    def to_json(self) -> dict[str, Any]:
        """One object."""
        return {**asdict(self), "best": self.best}


def placement_of(graph: Graph, plan: FitPlan, owners: npt.NDArray[np.int32], room: int | None) -> Placement:
    """Of a fit on `graph`, whose node i would belong to part owners[i]."""
    parts = int(owners.max()) + 1
    costs = [cost_of_part(graph, owners, number) for number in range(parts)]
    sizes = [_bytes(graph, plan, cost, parted=True) for cost in costs]
    held = [cost.owned + cost.first_ring + cost.second_ring for cost in costs]
    all_of_it = Cost(graph.num_nodes, 0, 0, graph.num_edges)
    whole = _bytes(graph, plan, all_of_it, parted=False)
    return Placement(parts, whole, max(sizes), float(np.mean(held)) / graph.num_nodes, room)


def _bytes(graph: Graph, plan: FitPlan, cost: Cost, *, parted: bool) -> int:
    nodes = cost.owned + cost.first_ring + cost.second_ring
    width = graph.indices.itemsize
    structure = 8 * (nodes + 1) + width * cost.edges
    if parted:  # names, owners of others, degrees
        structure += (width + 8) * nodes + 4 * (nodes - cost.owned)
    return structure + int(nodes * (_feature_bytes(graph) + 4 * most_columns(plan)))


def _feature_bytes(graph: Graph) -> float:
    """Of a node."""
    table = graph.features
    if isinstance(table, DenseTable):
        return 4 * table.shape[1]
    return 8 * len(table.data) / max(1, graph.num_nodes)


def most_columns(plan: FitPlan) -> int:
    """Of the tables between layers that are there at once, U_(l-1) and U_(l) at the most."""
    widths = [plan.for_layer(number).width for number in range(1, plan.layers)]  # the last makes none
    return max((a + b for a, b in zip([0, *widths], widths, strict=False)), default=0)
