"""`lrgi update`: new edges and nodes for the graph of a run, and its tables, in one step or not at all.

The changed graph is written beside the present one, then the run's tables of it beside the present ones;
last of all the two graph directories change places, in one instant. A process that dies before leaves graph
and tables as they were, and the same command goes on with what it finds; one that dies after leaves nothing
but old files, which the next update removes. Tables say which graph they are of, so none is ever taken for
another one's.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.directory import checksum, exchange, flush_directory, locked
from lrgi.errors import InputError
from lrgi.graph.change import is_symmetric
from lrgi.graph.encoding import Encoding
from lrgi.graph.graph import Graph
from lrgi.graph.store import MANIFEST, is_graph_directory, open_graph
from lrgi.interop.tables.delta import NodeRows, read_delta
from lrgi.interop.tables.plan import TablePlan
from lrgi.training.grow import settle
from lrgi.training.run import Run
from lrgi.update.merge import Merged, merged
from lrgi.update.refresh import Reach, Refreshed, refresh_tables
from lrgi.update.tables import KeptTables, TablesWork, kept_tables, remove_others, tables_of
from lrgi.update.write import write_changed_graph

_PLAN = TablePlan()
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Wanted:
    """What is to be changed: tables, and how they are read. `directed` None: as the graph is."""

    edges: str | None = None
    nodes: str | None = None
    remove_edges: str | None = None
    plan: TablePlan = _PLAN
    directed: bool | None = None
    memory: str = "2GB"
    threads: int = 2


@dataclass(frozen=True)
class Updated:
    """What an update found and did; `changes` is empty where no table was given."""

    graph: Path
    directed: bool
    guessed_directed: bool  # from the edges, since the graph does not say
    changes: dict[str, Any]
    changed: bool  # whether the graph is another one now
    features: int  # nodes whose features changed, new ones among them
    nodes: int
    layers: tuple[Refreshed, ...]
    had_tables: bool
    graph_seconds: float
    seconds: float

    @property
    def saved_seconds(self) -> float | None:
        """Of embedding all nodes; None where it is not known what that takes."""
        whole = [layer.scratch_seconds for layer in self.layers]
        if not self.had_tables or None in whole:
            return None
        return float(sum(filter(None, whole)) - sum(layer.seconds for layer in self.layers))


def update_run(
    path: Path,
    graph: Path,
    wanted: Wanted,
    *,
    tell: Callable[[str], None] = lambda text: None,
) -> Updated:
    """Change the graph directory `graph` as `wanted` says, and bring the run's tables of it up to date.

    Where it has none they are made from scratch. Raises InputError or FormatError with nothing changed.
    """
    begun = time.perf_counter()
    check_graph(graph)
    graph = graph.resolve()
    with locked(path), locked(graph, "a graph directory"):
        run = settle(path)
        old = open_graph(graph)
        _check_encoding(run, old, graph)
        directed = wanted.directed if wanted.directed is not None else old.directed
        guessed = directed is None
        directed = not is_symmetric(old) if directed is None else directed
        tables = kept_tables(path, tables_of(path, graph))
        with _workshop(graph) as shop:
            change, rows = _read(old, wanted, shop, tell, directed)
            fresh, reach = graph, Reach(_NONE, _NONE, directed)
            if change is not None and _changes(change):
                tell(f"writing the graph: {change.change.nodes:,} nodes")
                other = write_changed_graph(graph, old, change, rows, shop / "graph", directed=directed)
                if checksum(shop / "graph" / MANIFEST) != checksum(graph / MANIFEST):
                    fresh, reach = shop / "graph", Reach(change.change.changed_rows(old), other, directed)
                    flush_directory(fresh)
            graph_seconds = time.perf_counter() - begun
            new, of = open_graph(fresh), tables_of(path, fresh)
            done = _tables(run, new, tables, reach, of, tell)
            if fresh is not graph:
                exchange(fresh, graph)
        remove_others(path, of)
    counts = {} if change is None else change.counts()
    return Updated(
        graph, directed, guessed, counts, fresh is not graph, len(reach.inputs), new.num_nodes,
        tuple(done), tables is not None, graph_seconds, time.perf_counter() - begun,
    )  # fmt: skip


def check_graph(graph: Path) -> None:
    """InputError for what cannot be updated."""
    if not is_graph_directory(graph):
        raise InputError(
            f"a graph to update must be a graph directory, got {graph}, which is none; make one with "
            "`lrgi import` and name it: lrgi update RUN GRAPH"
        )


def _tables(
    run: Run,
    new: Graph,
    old: KeptTables | None,
    reach: Reach,
    of: dict[str, str],
    tell: Callable[[str], None],
) -> list[Refreshed]:
    """The run's tables of the graph `new`; nothing is done where it has them."""
    if kept_tables(run.path, of) is not None:
        return []
    work = TablesWork(run.path, of, tell)
    done = refresh_tables(run.encoder, new, old, reach, work, tell=tell)
    work.finish({"nodes": new.num_nodes, "graph": new.name})
    return done


def _read(
    old: Graph, wanted: Wanted, shop: Path, tell: Callable[[str], None], directed: bool
) -> tuple[Merged | None, NodeRows | None]:
    """What the tables change, and the rows of nodes in them; None without tables."""
    if wanted.edges is wanted.nodes is wanted.remove_edges is None:
        return None, None
    how: dict[str, Any] = {"memory": wanted.memory, "threads": wanted.threads, "tell": tell}
    delta = read_delta(old, wanted.edges, wanted.nodes, wanted.plan, shop / "tables", **how)
    less = None
    if wanted.remove_edges is not None:
        flag = "--remove-edges"
        less = read_delta(old, wanted.remove_edges, None, wanted.plan, shop / "tables", flag=flag, **how)
    add_unknown = wanted.plan.unknown == "add"
    return merged(old, delta, less, add_unknown=add_unknown, directed=directed), delta.rows


@contextmanager
def _workshop(graph: Path) -> Iterator[Path]:
    """A directory beside the graph, which a process that died may have left."""
    shop = graph.with_name(f".{graph.name}.update")
    shutil.rmtree(shop, ignore_errors=True)
    (shop / "graph").mkdir(parents=True)
    try:
        yield shop
    finally:
        shutil.rmtree(shop, ignore_errors=True)


def _check_encoding(run: Run, graph: Graph, path: Path) -> None:
    """InputError where the graph's features are not those of the fit."""
    run.encoder.check_columns(graph)
    given = run.encoder.extra.get("encoding")
    if given is None or (graph.encoding and graph.encoding.same_features(Encoding.from_json(given))):
        return
    raise InputError(
        f"a graph to update must have features made as those of the fit, got {path}, which has others; "
        f"import its tables with --like {run.path}"
    )


def _changes(change: Merged) -> bool:
    """Whether anything is to be written."""
    edges = change.change
    return bool(change.ids or len(change.places) or len(edges.receivers) or len(edges.gone))
