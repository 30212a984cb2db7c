"""A graph's tables under the probe: which rows, which protocol, which splits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.probe.data import ProbeData, random_split
from lrgi.probe.linear import ProbePlan, ProbeResult, linear_probe, pool_results


@dataclass(frozen=True, eq=False)
class Views:
    """The graphs that embeddings are made of: the whole, and what training nodes are embedded in.

    Transductive: `seen` is None, and all nodes are embedded in the whole graph. Inductive: `seen` is
    the training subgraph, and row i of its tables is node `seen_ids[i]` of the whole graph.
    """

    whole: Graph
    seen: Graph | None = None
    seen_ids: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, graph: Graph, fit_on: str) -> Views:
        """The views after a fit on these nodes."""
        if fit_on == "all":
            return cls(graph)
        if graph.split is None:
            raise InputError(
                "a graph for the inductive protocol must have a split, got none; "
                "import it with one, or pass --protocol transductive"
            )
        return cls(graph, *training_subgraph(graph, fit_on))

    @property
    def protocol(self) -> str:
        """The name of it."""
        return "transductive" if self.seen is None else "inductive"

    @property
    def splits(self) -> str:
        """Where the three parts come from, in words."""
        given = self.whole.split is not None
        return "the graph's own" if given else "random 10/10/80 %, another one for every seed"

    @property
    def metric(self) -> str | None:
        """What a probe measures here; None where the graph has no labels."""
        labels = self.whole.labels
        return None if labels is None else "accuracy" if labels.ndim == 1 else "micro_f1"


def probe_table(
    views: Views, table: Table, seen_table: Table | None = None, plan: ProbePlan | None = None
) -> ProbeResult:
    """Probe a table of the whole graph (and, inductively, one of the training subgraph).

    A graph without a split is probed on one random split per seed, and the results are pooled.
    """
    plan, graph = plan or ProbePlan(), views.whole
    labels: Any = graph.labels
    if views.seen is not None and views.seen_ids is not None:
        if seen_table is None:
            raise InputError(
                "the inductive protocol must have a table of the training subgraph, got none; embed it too"
            )
        data = ProbeData.inductive(seen_table, views.seen_ids, table, labels, graph.split)
        return linear_probe(data, plan)
    if graph.split is not None or labels is None:
        return linear_probe(ProbeData.transductive(table, labels, graph.split), plan)
    return pool_results(
        [
            linear_probe(
                ProbeData.transductive(table, labels, random_split(labels, seed)),
                replace(plan, seeds=(seed,)),
            )
            for seed in plan.seeds
        ]
    )
