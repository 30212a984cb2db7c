"""What the processes of a world are asked to do in tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrgi.distributed.collectives import World
from lrgi.graph.graph import Graph
from lrgi.graph.synthetic import planted_communities
from lrgi.objective.infomax import Weights, infomax_terms
from lrgi.objective.predictors import ClosedPredictors, NetworkPredictors
from lrgi.objective.shared import shared_terms
from lrgi.sampling.sample import Batches
from lrgi.sampling.share import EVERYTHING, Slice
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal, Listener, StepRecord
from lrgi.training.plan import FitPlan

WEIGHTS = Weights(25.0, 20.0, 3.0)


def collectives(world: World) -> dict[str, Any]:
    a, b = torch.full((3,), float(world.rank + 1)), torch.arange(4.0).reshape(2, 2) * (world.rank + 1)
    world.add_up(a, b)
    c = torch.full((2,), float(world.rank + 7))
    world.repeat(c)
    rows = [torch.full((to + 1, 2), float(10 * world.rank + to)) for to in range(world.size)]
    got = world.exchange(rows, [world.rank + 1] * world.size)
    world.wait()
    return {"a": a.numpy(), "b": b.numpy(), "c": c.numpy(), "got": [part.numpy() for part in got]}


def terms_and_gradients(world: World, kind: str, rows: int, width: int, empty: bool) -> dict[str, Any]:
    """Of u and v as a function of one weight matrix, on a batch that is cut unevenly."""
    random = torch.Generator().manual_seed(3)
    x = torch.randn(rows, width, generator=random, dtype=torch.float64).float() * 2 + 1
    y = x + torch.randn(rows, width, generator=random)
    weight = torch.nn.Parameter(torch.randn(width, width, generator=random) / width**0.5)
    start = torch.Generator().manual_seed(5)
    predictors = ClosedPredictors(0.01) if kind == "closed" else NetworkPredictors(width, 2, start)
    share = [0, *(rows * (i + 1) ** 2 // (world.size + 1) ** 2 for i in range(world.size - 1)), rows]
    if empty and world.size > 1:
        share[1] = 0
    own = slice(*share[world.rank : world.rank + 2])
    u, v = x[own] @ weight, (y[own] @ weight).tanh() + 0.5
    if world.alone:
        terms = infomax_terms(u, v, *predictors(u, v))
    else:
        terms = shared_terms(u, v, predictors, rows, world)
    terms.total(WEIGHTS).backward()
    parameters = [weight, *predictors.parameters()]
    values = torch.stack([term.detach() for term in terms])
    world.add_up(values, *(p.grad for p in parameters))
    return {"terms": values.numpy(), "gradients": [p.grad.numpy() for p in parameters]}


def blocks(world: World, batch_size: int, fan_outs: tuple[int, ...]) -> list[dict[int, list[int]]]:
    """For every batch: what each node within reach reads, by ids of the graph."""
    from lrgi.sampling.sample import Sampling

    graph = planted_communities(300, 3000, features=4, seed=2)
    share = EVERYTHING if world.alone else Slice(world.rank, world.size)
    found = []
    for block in Batches(graph, Sampling(batch_size, fan_outs), 1, 1, share=share).epoch(1):
        reads = {-1: block.nodes[: block.num_targets].tolist(), -2: [block.batch_targets]}
        for row, (a, b) in enumerate(zip(block.indptr[:-1], block.indptr[1:], strict=True)):
            reads[int(block.nodes[row])] = block.nodes[block.indices[a:b]].tolist()
        found.append(reads)
    return found


class Steps(Listener):
    def __init__(self) -> None:
        self.losses: list[float] = []
        self.sent: list[int] = []
        self.tables: list[np.ndarray] = []

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        self.weights = plan.weights

    def step_taken(self, record: StepRecord) -> None:
        self.losses.append(float(record.terms.total(self.weights)))
        self.sent.append(record.sent)

    def layer_embedded(self, layer: int, table: Any) -> None:
        self.tables.append(np.array(table.array))


def fitted(world: World, graph: Graph, settings: dict[str, Any]) -> dict[str, Any]:
    """A fit by all processes of the world."""
    steps = Steps()
    before = world.sent
    encoder = fit_encoder(graph, FitPlan(**settings), Journal(steps))
    return {
        "weights": [p.detach().numpy() for layer in encoder.layers for p in layer.parameters()],
        "losses": steps.losses,
        "sent": np.diff([before, *steps.sent]).tolist(),
        "tables": steps.tables,
        "embedding": encoder.embed(graph).array,
    }


def table_in_files(world: World, path: str, graph: Graph, kind: str, skip: bool) -> dict[str, Any]:
    """One layer's table made together; with `skip`, process 1 stops after the ranges of others are left."""

    import lrgi.encoder as module
    from lrgi.encoder import embed_layer
    from lrgi.graph.shared_sinks import GatheredSink, SharedFileSink, sees_what_others_write
    from lrgi.graph.sinks import FileSink
    from lrgi.training.fit import new_layer
    from lrgi.training.tables import digest_of

    module.CHUNK_ROWS = 50
    layer = new_layer(FitPlan(width=16), 1, graph.num_features)
    shape, place = (graph.num_nodes, 16), Path(path) / "U_1.npy"
    made: list[int] = []
    if world.alone:
        sink = FileSink(place, shape, digest_of(layer), mapped=True)
    elif kind == "gathered":
        sink = GatheredSink(shape, world)
    else:
        assert sees_what_others_write(place.parent, world)
        sink = SharedFileSink(place, shape, digest_of(layer), world, mapped=kind == "mapped")
    write = sink.write

    def counted(start: int, rows: np.ndarray) -> None:
        made.append(start)
        write(start, rows)

    sink.write = counted  # type: ignore[method-assign]
    if skip and world.rank == 1:
        own = sink.missing
        sink.missing = lambda ranges: iter([next(own(ranges))])  # type: ignore[method-assign]
    table = embed_layer(layer, graph, graph.features, sink)
    return {"made": made, "table": np.array(table.array)}


def fitted_in_parts(world: World, path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """A fit of a graph in parts: weights, and the rows of U_(l) that this part holds, by name."""
    from lrgi.graph.partition import open_part

    part, steps = open_part(path, world.rank, world.size), Steps()
    before = world.sent
    encoder = fit_encoder(part, FitPlan(**settings), Journal(steps))
    return {
        "weights": [p.detach().numpy() for layer in encoder.layers for p in layer.parameters()],
        "losses": steps.losses,
        "sent": np.diff([before, *steps.sent]).tolist(),
        "names": np.array(part.names),
        "tables": steps.tables,
    }


class Signs(Listener):
    """Leaves a file when a fit is well under way."""

    def __init__(self, path: str) -> None:
        self.path = path

    def step_taken(self, record: StepRecord) -> None:
        if record.place.step == 5:
            Path(self.path).touch()


def endless(world: World, graph: Graph, settings: dict[str, Any], sign: str) -> None:
    """A fit that nobody waits for the end of."""
    fit_encoder(graph, FitPlan(**(settings | {"updates": 10**7})), Journal(Signs(f"{sign}-{world.rank}")))


def command(world: World, words: list[str], sign: str | None) -> tuple[int, str]:
    """A command line: its exit code and what it says of errors; `sign` is left when layer 2 is under way."""
    import contextlib
    import io

    from lrgi.cli import fit_command
    from lrgi.cli.main import main

    class Watch(fit_command.Progress):
        def step_taken(self, record: StepRecord) -> None:
            super().step_taken(record)
            if sign is not None and record.place[:2] == (2, 3):
                Path(sign).touch()

    before, fit_command.Progress = fit_command.Progress, Watch  # type: ignore[misc]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(words)
    finally:
        fit_command.Progress = before  # type: ignore[misc]
    return code, said.getvalue()


def wait_for(path: Path, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} did not appear in {seconds} s"
        time.sleep(0.02)


def command_that_dies(world: World, words: list[str], rank: int) -> tuple[int, str]:
    """`lrgi embed`, whose process `rank` dies when it would put its first shard in place."""
    import os
    import signal

    from lrgi.interop import export_files

    placed = export_files._placed

    def dying(beside: Path, path: Path) -> Any:
        if os.environ["RANK"] == str(rank):
            os.kill(os.getpid(), signal.SIGKILL)
        return placed(beside, path)

    export_files._placed = dying
    try:
        return command(world, words, None)
    finally:
        export_files._placed = placed
