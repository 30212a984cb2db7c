"""How the processes of a fit share its batches, its state and its tables, and which fits they can share."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lrgi.distributed.collectives import World, present
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
from lrgi.training.tables import TableStore, digest_of


def lead(world: World, check: Callable[[], None]) -> None:
    """Call `check` in process 0, with the others waiting: what it refuses ends them too."""
    try:
        check()
    except BaseException:
        world.repeat(torch.tensor([0]))
        raise
    world.repeat(torch.tensor([1]))


def follow_run(graph: Graph, plan: FitPlan, fit: Callable[[Graph, FitPlan, Journal], Encoder]) -> None:
    """The part in a fit of a process other than 0, which writes the run down."""
    told = torch.tensor([0])
    present().repeat(told)
    if not int(told):
        raise WorldError("process 0 must begin, got a refusal; see what it says")
    seen, _ = training_subgraph(graph, resolve_fit_on(plan, graph))
    fit(seen, plan, Journal())


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
        fitted = [*moving.layer.parameters(), *moving.objective.parameters()]
        world.repeat(*fitted, *(value for p in fitted for value in _moments(moving.optimizer, p)))
    return done


def _moments(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> list[torch.Tensor]:
    """AdamW's state of a parameter, made where there is none yet."""
    state = optimizer.state[parameter]
    if not state:
        state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    return [state[name] for name in ("step", "exp_avg", "exp_avg_sq")]


def sink_of(world: World, graph: Graph, tables: TableStore, number: int, layer: GraphLayer) -> TableSink:
    """What takes the rows of U_(number), wherever this process and the others put them."""
    shape = graph.num_nodes, layer.out_dim
    if isinstance(graph, Part):
        return HaloSink(shape, graph, world)
    if world.alone:
        return tables.sink(number, layer, shape)
    if tables.directory is None or not sees_what_others_write(tables.directory, world):
        return GatheredSink(shape, world)
    path = tables.directory / f"U_{number}.npy"
    return SharedFileSink(path, shape, digest_of(layer), world, mapped=tables.mapped)
