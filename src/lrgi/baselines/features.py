"""The features themselves, as they are or propagated, where an encoder is expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lrgi.baselines.propagate import propagate
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph


@dataclass(frozen=True)
class PropagatedFeatures:
    """Means over neighbours after 1, 2, ... `steps` of them; with no step the raw features."""

    steps: int

    def tables(self, graph: Graph) -> Iterator[Table]:
        """One table per step; the features where there is none."""
        table = graph.features
        if self.steps == 0:
            yield table
        for _ in range(self.steps):
            table = propagate(graph, table, 1)
            yield table

    def embed(self, graph: Graph) -> Table:
        """The last one."""
        *_, last = self.tables(graph)
        return last
