"""How the processes of a fit share its batches, its state and its tables, and which fits they can share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import torch

from lrgi.distributed.collectives import World, refusal
from lrgi.encoder import Encoder
from lrgi.errors import InputError, WorldError
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.graph.part import Part
from lrgi.graph.shared_sinks import GatheredSink, HaloSink, SharedFileSink, sees_what_others_write
from lrgi.graph.sinks import TableSink
from lrgi.layers.layer import GraphLayer
from lrgi.sampling.sample import Sampling
from lrgi.sampling.share import EVERYTHING, Owned, Share, Slice
from lrgi.training.journal import Journal, Keeper, Moving
from lrgi.training.objective import Objective
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import resolve_fit_on
from lrgi.training.stopping import stopping_gently
from lrgi.training.tables import TableStore, digest_of

Fit = Callable[[Graph, FitPlan, Journal], Encoder]

_BEGIN, _NOTHING_TO_DO, _REFUSED = "begin", "nothing to do", "refused"


class Lead:
    """Process 0's part in a fit by several: the others wait until it knows that there is something to fit."""

    def __init__(self, world: World) -> None:
        self._world, self._said = world, False

    def __enter__(self) -> Lead:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._said:
            with suppress(WorldError) if kind else nullcontext():  # the first error is the one to hear of
                self._say(_REFUSED if kind else _NOTHING_TO_DO)

    def beginning(self, fit: Fit) -> Fit:
        """The fit, for which the others begin too."""

        def begin(graph: Graph, plan: FitPlan, journal: Journal) -> Encoder:
            self._say(_BEGIN)
            return fit(graph, plan, journal)

        return begin

    def _say(self, word: str) -> None:
        self._said = True
        self._world.told(word)


def follow(world: World, graph: Graph, plan: FitPlan, fit: Fit) -> None:
    """The part of any other process. Signals to end are for process 0, which takes a last snapshot."""
    with stopping_gently() as stop:
        word = world.told("")
        if word == _REFUSED:
            raise refusal()
        if word == _NOTHING_TO_DO:
            return
        seen, _ = training_subgraph(graph, resolve_fit_on(plan, graph))
        tables = TableStore(heed=lambda: stop.heed("what was embedded is kept"))
        fit(seen, plan, Journal(keeper=Keeper(tables)))


def share_of(world: World, graph: Graph) -> Share:
    """What this process takes of every batch."""
    if isinstance(graph, Part):
        return Owned(graph)
    return EVERYTHING if world.alone else Slice(world.rank, world.size)


def check_shareable(world: World, objective: Objective, sampling: Sampling) -> None:
    """InputError for a fit that several processes cannot share."""
    if world.alone:
        return
    if not objective.shareable:
        raise InputError(
            f"a fit by several processes must be of method lrgi or rgi, got one of {world.size} processes "
            f"on {type(objective).__name__}, whose batches cannot be shared; start it on one machine"
        )
    further = sampling.fan_outs[1:]
    if sampling.batch_size and len(set(further)) > 1:
        raise InputError(
            "sampled neighbours of a fit of several layers at once by several processes must be as many in "
            f"every hop after the first, got {further}; set --neighbours and --next-neighbours alike"
        )
    if 0 < sampling.batch_size < world.size:
        raise InputError(
            f"batch_size must be at least the number of processes, {world.size}, got {sampling.batch_size}; "
            "raise it or start fewer"
        )


def resumed(world: World, keeper: Keeper, number: int, moving: Moving, steps: int) -> int:
    """The steps that are done, with the state after them: process 0's keeper has it, and all get it."""
    done = keeper.resume(number, moving, steps)
    if world.alone:
        return done
    told = torch.tensor([done])
    world.repeat(told)
    if done := int(told):
        module = moving.result if done == steps else moving.layer
        fitted = [*module.parameters(), *moving.objective.parameters()]
        world.repeat(*fitted, *(value for p in fitted for value in _moments(moving.optimizer, p)))
    return done


def _moments(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> list[torch.Tensor]:
    """AdamW's state of a parameter, made where there is none yet."""
    state = optimizer.state[parameter]
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    return [state[name] for name in ("step", "exp_avg", "exp_avg_sq")]


def scratch_of(world: World, graph: Graph, tables: TableStore, columns: int) -> TableSink:
    """What takes the rows of a table that is made again after a resume, [N, columns]."""
    shape = graph.num_nodes, columns
    if isinstance(graph, Part):
        return HaloSink(shape, graph, world)
    return tables.scratch(shape) if world.alone else GatheredSink(shape, world)


def sink_of(world: World, graph: Graph, tables: TableStore, number: int, layer: GraphLayer) -> TableSink:
    """What takes the rows of U_(number), wherever this process and the others put them."""
    shape = graph.num_nodes, layer.out_dim
    if isinstance(graph, Part):
        return HaloSink(shape, graph, world)
    if world.alone:
        return tables.sink(number, layer, shape)
    directory = world.told("" if tables.directory is None else str(tables.directory.resolve()))
    mapped = world.told("mapped" if tables.mapped else "in memory") == "mapped"
    if not directory or not sees_what_others_write(Path(directory), world):
        return GatheredSink(shape, world)
    sink = SharedFileSink(Path(directory) / f"U_{number}.npy", shape, digest_of(layer), world, mapped=mapped)
    sink.heed = tables.heed
    return sink
