"""How fast is an embedding, beside the rate at which this machine reads random rows?

One layer over a whole graph of ogbn-products' shape, every node with all its neighbours. What is counted is
what cannot be avoided: one row of D numbers and its two logits for every edge, and the streams of inputs
and outputs. The machine's rate is that of `torch.index_select` on rows of the same width from a table of the
same size, with as many threads, in the same run.

    python benchmarks/embed.py [--graph FOLDER | --scale 0.2] --json benchmarks/results/embed.json

FOLDER is one of `lrgi generate products --out FOLDER`; without it, one is drawn at that scale.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import row_gather_rate
from question import Demand, Question

from lrgi import seed as randomness
from lrgi.compute.allocator import empty_table
from lrgi.encoder import embed_layer
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.products import write_products
from lrgi.graph.store import open_graph
from lrgi.layers.layer import GraphLayer
from lrgi.layers.make import make_layer
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column


@dataclass(frozen=True)
class Settings:
    """A layer of the paper's products setting."""

    graph: str = ""
    scale: float = 0.2
    width: int = 128
    heads: int = 4
    kinds: tuple[str, ...] = ("gat", "sage", "gcn")
    threads: int = 2
    rounds: int = 3
    seed: int = 0


QUICK = {"scale": 0.002, "rounds": 2}


def measure(s: Settings) -> dict[str, Any]:
    """Seconds and bytes of every kind of layer, in turns with the machine's rate."""
    torch.set_num_threads(s.threads)
    with graph_of(s) as graph:
        table = random_table(graph.num_nodes, s.width, s.seed)
        out = empty_table((graph.num_nodes, s.width))
        layers = {kind: layer_of(kind, s) for kind in s.kinds}
        seconds: dict[str, list[float]] = {kind: [] for kind in layers}
        gather = 0.0
        for number in range(s.rounds + 1):
            for kind, layer in layers.items():
                begun = time.perf_counter()
                embed_layer(layer, graph, table, out)
                seconds[kind] += [time.perf_counter() - begun] if number else []  # the first compiles
            gather = max(gather, row_gather_rate(table.array, 1 << 17, s.threads, s.seed + number))
        nodes, edges = graph.num_nodes, graph.num_edges
    rows = {}
    for kind, times in seconds.items():
        taken, moved = float(np.median(times)), bytes_of(kind, s, nodes, edges)
        rows[kind] = {"seconds": taken, **moved, "bytes_per_second": sum(moved.values()) / taken}
    ratios = {f"{kind}_to_gather_rate": row["bytes_per_second"] / gather for kind, row in rows.items()}
    return {
        "nodes": nodes, "edges": edges, "rows": rows, "gather_bytes_per_second": gather, "ratios": ratios,
    }  # fmt: skip


def bytes_of(kind: str, s: Settings, nodes: int, edges: int) -> dict[str, float]:
    """Gathered for edges, and streamed: inputs twice (projected, then skipped), sources written, outputs."""
    logits = 4 * s.heads if kind == "gat" else 0
    offered = 4 * s.width + 2 * logits
    return {
        "gathered": edges * (4 * s.width + logits + 4),
        "streamed": nodes * (2 * 4 * s.width + offered + 4 * s.width),
    }


def layer_of(kind: str, s: Settings) -> GraphLayer:
    settings = {"heads": s.heads} if kind == "gat" else {}
    layer = make_layer(kind, s.width, s.width, **settings)
    layer.reset(randomness.torch_stream(s.seed, "layer"))
    return layer


def random_table(nodes: int, width: int, seed: int) -> DenseTable:
    """As a fit's tables lie in memory."""
    rows = empty_table((nodes, width))
    random = randomness.stream(seed, "table")
    for start in range(0, nodes, 1 << 16):
        part = rows[start : start + (1 << 16)]
        part[:] = random.standard_normal(part.shape, dtype=np.float32)
    return DenseTable(rows)


@contextmanager
def graph_of(s: Settings) -> Iterator[Graph]:
    """The graph at the place given, or one drawn for the while."""
    if s.graph:
        yield open_graph(s.graph)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "products"
        write_products(path, s.scale, s.seed)
        yield open_graph(path)


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    columns = (
        Column("layer", text=True), Column("seconds", digits=2), Column("GB gathered", digits=1),
        Column("GB streamed", digits=1), Column("GB per second", digits=1),
        Column("of the machine's", digits=2),
    )  # fmt: skip
    m, s = record.measures, record.settings
    rows = [
        (
            kind, row["seconds"], row["gathered"] / 1e9, row["streamed"] / 1e9,
            row["bytes_per_second"] / 1e9, m["ratios"][f"{kind}_to_gather_rate"],
        )
        for kind, row in m["rows"].items()
    ]  # fmt: skip
    how = (
        f"A graph of {m['nodes']:,} nodes and {m['edges']:,} edges, D {s['width']}, {s['threads']} threads. "
        f"The machine reads random rows at {m['gather_bytes_per_second'] / 1e9:.1f} GB per second."
    )
    return columns, rows, how


QUESTION = Question(
    name="embed",
    title="Embedding: bytes per second",
    settings=Settings,
    measure=measure,
    table=table,
    better=dict.fromkeys([f"{kind}_to_gather_rate" for kind in ("gat", "sage", "gcn")], "high"),
    quick=QUICK,
    short={"scale": 0.05},
    demands={"gat_to_gather_rate": Demand(0.5, "high")},
)

if __name__ == "__main__":
    QUESTION.main()
