"""Rows of the final table: what a probe, MAD and effective rank say of a table, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lrgi.baselines.propagate import propagate
from lrgi.baselines.untrained import untrained_encoder
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.features import DenseTable, Table
from lrgi.graph.graph import Graph
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan, ProbeResult
from lrgi.probe.rank import effective_rank
from lrgi.probe.smoothing import mad
from lrgi.report.tables import Column, plain_table
from lrgi.training.plan import FitPlan

_MAD_VALUES = 64_000_000  # features read for one MAD: fewer edges where rows are wide
_DENSE_COLUMNS = 2048  # sparse features up to here are propagated densely


@dataclass(frozen=True)
class Row:
    """One row; scores are None where nothing was probed, seconds are until the table is there."""

    name: str
    validation_mean: float | None
    validation_spread: float | None
    test_mean: float | None
    test_spread: float | None
    mad: float | None
    effective_rank: float | None
    seconds: float | None


@dataclass(frozen=True)
class Comparison:
    """Rows with the way they were measured; `problem` says why nothing was probed."""

    rows: tuple[Row, ...]
    metric: str | None
    protocol: str
    splits: str
    seeds: tuple[int, ...]
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One object; rows are objects too."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows], "seeds": list(self.seeds)}

    def text(self) -> str:
        """The table and a line below it that says how it was measured."""
        columns = [
            Column("", text=True), Column("validation", 3), Column("test", 3), Column("spread", 3),
            Column("MAD", 3), Column("effective rank", 1), Column("seconds", 1),
        ]  # fmt: skip
        cells = [
            (r.name, r.validation_mean, r.test_mean, r.test_spread, r.mad, r.effective_rank, r.seconds)
            for r in self.rows
        ]
        return plain_table(columns, cells) + "\n\n" + self._how()

    def _how(self) -> str:
        if self.problem is not None or self.metric is None:
            lines = [f"Nothing was probed: {self.problem}."]
        else:
            score = {"accuracy": "accuracy", "micro_f1": "micro-F1"}[self.metric]
            seeds = f"{len(self.seeds)} seeds" if len(self.seeds) > 1 else "1 seed"
            lines = [
                f"validation, test: {score} of a linear probe, {self.protocol}, mean over {seeds}; "
                "spread: deviation of the test over the seeds.",
                f"Splits: {self.splits}.",
            ]
        return "\n".join(
            [
                *lines,
                "MAD: mean distance between neighbours (0: all alike). Effective rank: dimensions in use.",
                "seconds: until the row's table is there, all layers below included, without the probe.",
            ]
        )


class Measure:
    """Measures tables of one graph one after the other; `tell` hears the name of each.

    With a folder `scratch`, a fitted encoder's tables are mapped files there.
    """

    def __init__(
        self,
        views: Views,
        plan: ProbePlan | None = None,
        *,
        probe: bool = True,
        scratch: Path | None = None,
        tell: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.views, self.plan, self.tell = views, plan or ProbePlan(), tell
        self.scratch = scratch
        self.rows: list[Row] = []
        self.problem = None if probe else "it was not asked for"
        if probe and views.metric is None:
            self.problem = "the graph has no labels"

    def add(self, name: str, table: Table, seen: Table | None, seconds: float | None) -> None:
        """One row."""
        self.tell(name)
        result: ProbeResult | None = None
        if self.problem is None:
            try:
                result = probe_table(self.views, table, seen, self.plan)
            except InputError as error:  # no labelled test node, say: the rest of the row still stands
                self.problem = str(error)
        edges = max(10_000, min(500_000, _MAD_VALUES // max(1, table.shape[1])))
        distance = mad(table, self.views.whole, max_edges=edges)
        self.rows.append(
            Row(
                name,
                validation_mean=None if result is None else result.validation_mean,
                validation_spread=None if result is None else result.validation_spread,
                test_mean=None if result is None else result.test_mean,
                test_spread=None if result is None else result.test_spread,
                mad=distance,
                effective_rank=effective_rank(table),
                seconds=seconds,
            )
        )

    def add_features(self) -> None:
        """The features as they are."""
        self.add("raw features", self.views.whole.features, _features(self.views.seen), 0.0)

    def add_propagated(self, steps: int) -> None:
        """The features after `steps` means over neighbours; left out where they are wide and sparse."""
        name, graph = f"features propagated {steps} times", self.views.whole
        if not isinstance(graph.features, DenseTable) and graph.num_features > _DENSE_COLUMNS:
            self.rows.append(Row(name, *(None,) * 7))
            return
        begun = time.perf_counter()
        table = propagate(graph, graph.features, steps)
        seconds = time.perf_counter() - begun
        seen = self.views.seen
        self.add(name, table, None if seen is None else propagate(seen, seen.features, steps), seconds)

    def add_untrained(self, plan: FitPlan) -> None:
        """The last layer of an encoder that was never fitted."""
        encoder = untrained_encoder(plan, self.views.whole.num_features)
        layers = "1 layer" if plan.layers == 1 else f"{plan.layers} layers"
        *_, (table, seen, seconds) = _tables(encoder, self.views)
        self.add(f"untrained encoder, {layers}", table, seen, seconds)

    def add_layers(self, encoder: Encoder, fit_seconds: Sequence[float], title: str = "LRGI") -> None:
        """Every layer of a fitted encoder; seconds add up the fits and embeddings below.

        `fit_seconds` has one entry per layer, or one for a fit of all of them at once, or none.
        """
        for number, (table, seen, seconds) in enumerate(_tables(encoder, self.views, self.scratch), 1):
            spent = sum(fit_seconds[:number])
            self.add(f"{title} after layer {number}", table, seen, spent + seconds)

    def comparison(self) -> Comparison:
        """All rows so far."""
        views = self.views
        metric = views.metric if self.problem is None else None
        splits = views.splits
        return Comparison(
            tuple(self.rows), metric, views.protocol, splits, tuple(self.plan.seeds), self.problem
        )


def _tables(
    encoder: Encoder, views: Views, scratch: Path | None = None
) -> Iterator[tuple[Table, Table | None, float]]:
    """Each layer's table of the whole graph and of the training subgraph, and the seconds of the former."""
    seen = None if views.seen is None else encoder.tables(views.seen)
    whole, seconds = encoder.tables(views.whole, scratch), 0.0
    for _ in encoder.layers:
        begun = time.perf_counter()
        table = next(whole)
        seconds += time.perf_counter() - begun
        yield table, None if seen is None else next(seen), seconds


def _features(graph: Graph | None) -> Table | None:
    return None if graph is None else graph.features
