"""How many edges does the sampler write per second, beside torch-sparse behind PyG's NeighborLoader?

Both draw the paper's batches (512 targets, 10 and 5 neighbours without replacement) from the same graph,
and write every edge out in the batch's own numbers. One thread each; ours also as two threads that draw a
batch each, as a loader with two workers does. What is timed of PyG is NeighborLoader's sampler alone, without
features or the making of a Data object.

torch-sparse 0.6.18 is compiled for this benchmark only, outside the project:

    pip install --no-build-isolation --no-deps --target FOLDER torch-scatter torch-sparse==0.6.18
    python benchmarks/sampling.py --torch-sparse FOLDER --json benchmarks/results/sampling.json
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from question import Demand, Question

from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import products_training
from lrgi.report.record import RunRecord
from lrgi.report.tables import Column
from lrgi.sampling.sample import Batches, Sampling


@dataclass(frozen=True)
class Settings:
    """The paper's products settings, and how long to measure."""

    nodes: int = 196_615
    mean_degree: float = 57.0
    batch: int = 512
    fan_outs: tuple[int, ...] = (10, 5)
    threads: int = 2
    rounds: int = 60
    batches_per_round: int = 10
    theirs_per_round: int = 1
    torch_sparse: str = ""
    seed: int = 0


QUICK = {"nodes": 4_000, "mean_degree": 12.0, "batch": 64, "rounds": 2, "batches_per_round": 3}
THEIRS = "torch-sparse, 1 thread"
Draw = Callable[[], int]  # a batch; the edges that were written


def measure(s: Settings) -> dict[str, Any]:
    """Edges per second of every way, in turns."""
    graph = products_training(s.nodes, s.mean_degree, seed=s.seed)
    ways: dict[str, tuple[list[Draw], int]] = {
        f"lrgi, {t} thread{'s' * (t > 1)}": ([our_draws(graph, s, i) for i in range(t)], s.batches_per_round)
        for t in (1, s.threads)
    }
    theirs, why_not = torch_sparse_draws(graph, s)
    if theirs is not None:
        ways[THEIRS] = ([theirs], s.theirs_per_round)
    taken: dict[str, list[tuple[float, int, int]]] = {name: [] for name in ways}
    reads = 0.0
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # a thread is one stream of batches
    try:
        for number in range(s.rounds + 1):
            for name, (draws, count) in ways.items():
                times = timed(draws, count)
                taken[name] += [times] if number else []  # the first round compiles and warms up
            reads = max(reads, id_reads(graph, s.seed + number))
    finally:
        torch.set_num_threads(before)
    rows = {name: summary(times) for name, times in taken.items()}
    one, more = (rows[name]["edges_per_second"] for name in list(rows)[:2])
    ratios = {"edges_to_id_reads": one / reads, "threads_to_one": more / one}
    if theirs is not None:
        ratios["lrgi_to_torch_sparse"] = one / rows[THEIRS]["edges_per_second"]
    return {"rows": rows, "id_reads_per_second": reads, "why_not": why_not, "ratios": ratios}


def our_draws(graph: Graph, s: Settings, stream: int) -> Draw:
    """Batch after batch, epoch after epoch; every stream has batches of its own."""
    batches = Batches(graph, Sampling(s.batch, s.fan_outs), s.seed, layer=1 + stream)
    blocks = (block for _, block in batches.after(0, 1_000_000))
    return lambda: len(next(blocks).indices)


def torch_sparse_draws(graph: Graph, s: Settings) -> tuple[Draw | None, str]:
    """The sampler that NeighborLoader uses where torch-sparse is installed, or why there is none."""
    if s.torch_sparse and s.torch_sparse not in sys.path:
        sys.path.append(s.torch_sparse)
    if importlib.util.find_spec("torch_sparse") is None:
        return None, "torch-sparse is not installed, so it is not compared with"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch_geometric.typing as pyg
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader
        from torch_geometric.sampler import NodeSamplerInput

        if not pyg.WITH_TORCH_SPARSE or pyg.WITH_PYG_LIB:
            return None, "PyG does not use torch-sparse here, so it is not compared with"
        rows = np.repeat(np.arange(graph.num_nodes), graph.degrees())
        edges = torch.from_numpy(np.stack([graph.indices.astype(np.int64), rows]))
        data = Data(edge_index=edges, num_nodes=graph.num_nodes)
        loader = NeighborLoader(data, list(s.fan_outs), batch_size=s.batch, shuffle=True)
    random = np.random.default_rng(s.seed)

    def draw() -> int:
        targets = torch.from_numpy(random.choice(graph.num_nodes, s.batch, replace=False))
        found = loader.node_sampler.sample_from_nodes(NodeSamplerInput(None, targets))
        return len(found.row)

    return draw, ""


def timed(draws: list[Draw], count: int) -> tuple[float, int, int]:
    """Seconds, edges and batches, when every stream draws `count` batches in a thread of its own."""
    with ThreadPoolExecutor(len(draws)) as pool:
        begun = time.perf_counter()
        streams = [pool.submit(lambda draw=draw: sum(draw() for _ in range(count))) for draw in draws]
        edges = sum(stream.result() for stream in streams)
        return time.perf_counter() - begun, edges, count * len(draws)


def summary(rounds: list[tuple[float, int, int]]) -> dict[str, float]:
    """The median round's rate, which a busy neighbour moves less than the mean's."""
    seconds, edges, batches = np.array(rounds).T
    return {
        "edges_per_second": float(np.median(edges / seconds)),
        "milliseconds_per_batch": 1e3 * float(np.median(seconds / batches)),
        "edges_per_batch": float(edges.sum() / batches.sum()),
        "batches": int(batches.sum()),
    }


def id_reads(graph: Graph, seed: int, count: int = 1 << 20) -> float:
    """Ids per second that one thread reads at random places of the edges: no sampler can be faster."""
    places = np.random.default_rng(seed).integers(0, graph.num_edges, count)
    _sum_at(graph.indices, places[:8])
    begun = time.perf_counter()
    _sum_at(graph.indices, places)
    return count / (time.perf_counter() - begun)


@numba.njit(nogil=True)
def _sum_at(values: np.ndarray, places: np.ndarray) -> int:
    total = 0
    for place in places:
        total += values[place]
    return total


def table(record: RunRecord) -> tuple[tuple[Column, ...], list[tuple[Any, ...]], str]:
    columns = (
        Column("", text=True), Column("million edges per second", digits=2), Column("ms per batch", digits=2),
        Column("edges per batch", digits=0),
    )  # fmt: skip
    m = record.measures
    rows = [
        (name, row["edges_per_second"] / 1e6, row["milliseconds_per_batch"], row["edges_per_batch"])
        for name, row in m["rows"].items()
    ]
    s = record.settings
    how = (
        f"Batches of {s['batch']} targets, {s['fan_outs'][0]} and {s['fan_outs'][1]} neighbours, of a graph "
        f"of {s['nodes']:,} nodes. One thread reads {m['id_reads_per_second'] / 1e6:.0f} million ids per "
        f"second at random places of the edges. {m['why_not']}".strip()
    )
    return columns, rows, how


QUESTION = Question(
    name="sampling",
    title="Sampling: edges per second",
    settings=Settings,
    measure=measure,
    table=table,
    better={"edges_to_id_reads": "high", "threads_to_one": "high", "lrgi_to_torch_sparse": "high"},
    quick=QUICK,
    short={"rounds": 30},
    demands={"lrgi_to_torch_sparse": Demand(5, "high"), "threads_to_one": Demand(1.3, "high")},
)

if __name__ == "__main__":
    QUESTION.main()
