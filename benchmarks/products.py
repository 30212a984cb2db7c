"""Has the graph that `lrgi generate products` draws the shape of ogbn-products, and what does it cost?

Counts, degrees and the sizes of batches beside the published ones, and a linear probe of raw features, of
features propagated once, and of an encoder after a short fit. The graph is drawn in a process of its own,
whose memory is watched.

    python benchmarks/products.py --out products --json benchmarks/results/products.json
    python benchmarks/scale_page.py
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from question import Demand, Question

from lrgi.compute.memory import PeakWatch
from lrgi.encoder import propagated
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.products import write_products
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.graph.store import open_graph, verify_graph
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.sampling.sample import Batches
from lrgi.training.fit import fit_encoder
from lrgi.training.presets import preset

# What is published of ogbn-products (its page; the paper's table of its batches), and what follows from it
# of the training part's degrees. Scores are those of real features and of the paper's encoder.
COUNTS = {"nodes": 2_449_029, "undirected edges": 61_859_140, "classes": 47, "training nodes": 196_615,
          "validation nodes": 39_323, "test nodes": 2_213_091}  # fmt: skip
DEGREES = {"largest degree": 17_500, "training part, mean degree": 57, "training part, median degree": 38,
           "training part, largest degree": 4200}  # fmt: skip
BATCHES = {
    "LRGI": ((1, 1), (23_769, 28_727)),
    "3 layers end to end": ((3, 0), (129_200, 381_056)),
    "RGI": ((3, 1), (169_862, 834_140)),
}  # hops of the encoder and of the objective; nodes and edges of a batch
SCORES = {"raw features": 0.51, "features propagated once": None, "LRGI": 0.71}


@dataclass(frozen=True)
class Settings:
    """The fit is the paper's, and much shorter."""

    out: str = ""  # where the graph is kept; by default nowhere
    scale: float = 1.0
    batches: int = 40
    fit_epochs: int = 2
    probe_epochs: int = 300
    threads: int = 2
    seed: int = 0


QUICK = {"scale": 0.002, "batches": 2, "fit_epochs": 1, "probe_epochs": 10}


def measure(s: Settings) -> dict[str, Any]:
    """Draw, count, sample, probe."""
    torch.set_num_threads(s.threads)
    with _place(s) as path:
        drawn = _in_own_process(path, s)
        begun = time.perf_counter()
        verify_graph(path)
        drawn["verify_seconds"] = time.perf_counter() - begun
        graph = open_graph(path)
        seen, _ = training_subgraph(graph)
        degrees, batches = _degrees(graph, seen), _batches(seen, s)
        scores = _scores(graph, s)
        counts = _counts(graph)
    return {
        "drawn": drawn, "counts": counts, "degrees": degrees, "batches": batches, "scores": scores,
        "ratios": {
            "farthest_batch_size": max(
                _off(ours, said)
                for name, (_, published) in BATCHES.items()
                for ours, said in zip(batches[name], published, strict=True)
            ),
            "farthest_degree": max(_off(degrees[name], said) for name, said in DEGREES.items()),
        },
    }  # fmt: skip


def _off(ours: float, said: float) -> float:
    return max(ours / said, said / ours)


@contextmanager
def _place(s: Settings) -> Iterator[Path]:
    if s.out:
        yield Path(s.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "products"


def _in_own_process(path: Path, s: Settings) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        drawn: dict[str, float] = pool.apply(draw, (path, s))
    return drawn


def draw(path: Path, s: Settings) -> dict[str, float]:
    """Seconds, and the most anonymous memory beside what Python and its libraries hold."""
    torch.set_num_threads(s.threads)
    begun = time.perf_counter()
    with PeakWatch() as watch:
        write_products(path, s.scale, s.seed, overwrite=True)
    held = watch.peak.anonymous - watch.before.anonymous
    return {"seconds": time.perf_counter() - begun, "memory_bytes": held, "edge_bytes": 8 * _edges(path)}


def _edges(path: Path) -> int:
    return open_graph(path).num_edges // 2


def _counts(graph: Graph) -> dict[str, int]:
    assert graph.labels is not None and graph.split is not None
    parts = np.bincount(graph.split, minlength=4)
    return {
        "nodes": graph.num_nodes, "undirected edges": graph.num_edges // 2,
        "classes": len(np.unique(graph.labels)), "training nodes": int(parts[TRAIN]),
        "validation nodes": int(parts[VALIDATION]), "test nodes": int(parts[TEST]),
    }  # fmt: skip


def _degrees(graph: Graph, seen: Graph) -> dict[str, float]:
    inner = seen.degrees()
    found = (graph.degrees().max(), inner.mean(), np.median(inner), inner.max())
    return dict(zip(DEGREES, map(float, found), strict=True))


def _batches(seen: Graph, s: Settings) -> dict[str, tuple[float, float]]:
    """Means of nodes and edges over the first batches."""
    found = {}
    for name, (hops, _) in BATCHES.items():
        blocks = Batches(seen, preset("products").sampling_over(*hops), s.seed, 1).epoch(1)
        sizes = [(len(b.nodes), len(b.indices)) for b, _ in zip(blocks, range(s.batches), strict=False)]
        nodes, edges = np.mean(sizes, axis=0)
        found[name] = (float(nodes), float(edges))
    return found


def _scores(graph: Graph, s: Settings) -> dict[str, float]:
    """Test accuracy of a probe, inductive as in the paper."""
    views, plan = Views.of(graph, "train"), ProbePlan(epochs=s.probe_epochs, seeds=(s.seed,))
    seen = views.seen
    assert seen is not None
    encoder = fit_encoder(seen, preset("products").with_settings(epochs=s.fit_epochs, seed=s.seed))
    tables = (
        lambda: (graph.features, seen.features),
        lambda: (propagated(graph, graph.features), propagated(seen, seen.features)),
        lambda: (encoder.embed(graph), encoder.embed(seen)),
    )
    return {
        name: probe_table(views, *made(), plan).test_mean for name, made in zip(SCORES, tables, strict=True)
    }


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    m, s = record.measures, record.settings
    columns = (Column("", text=True), Column("published"), Column("drawn"))
    rows: list[tuple[Any, ...]] = [
        (name, f"{said:,}", f"{m['counts'][name]:,}") for name, said in COUNTS.items()
    ]
    rows += [(name, f"about {said:,}", f"{m['degrees'][name]:,.0f}") for name, said in DEGREES.items()]
    for name, (_, published) in BATCHES.items():
        pairs = zip(("nodes", "edges"), published, m["batches"][name], strict=True)
        rows += [(f"batch of {name}, {what}", f"{said:,}", f"{ours:,.0f}") for what, said, ours in pairs]
    for name, said in SCORES.items():
        rows.append(
            (f"probe of {name}", "-" if said is None else f"about {said}", f"{m['scores'][name]:.3f}")
        )
    drawn, scale = m["drawn"], s["scale"]
    how = (
        f"Drawn at scale {scale:g} with seed {s['seed']} in {drawn['seconds']:.0f} s, holding "
        f"{drawn['memory_bytes'] / 2**20:,.0f} MiB at the most, of which the keys of all edges are "
        f"{drawn['edge_bytes'] / 2**20:,.0f} MiB; verified in {drawn['verify_seconds']:.0f} s. "
        f"Batches: means of {s['batches']}, 512 targets, S_L 10, S_K 5. "
        f"Scores: test accuracy of the inductive probe after {s['probe_epochs']} epochs; "
        f"LRGI is the paper's setting fitted for {s['fit_epochs']} of its 100 epochs."
    )
    return columns, rows, how


QUESTION = Question(
    name="products",
    title="The graph of ogbn-products' shape",
    settings=Settings,
    measure=measure,
    table=table,
    better={"farthest_batch_size": "low", "farthest_degree": "low"},
    quick=QUICK,
    short={"scale": 0.02, "fit_epochs": 1, "probe_epochs": 50},
    demands={"farthest_batch_size": Demand(1.05, "low")},
)

if __name__ == "__main__":
    QUESTION.main()
