"""Algorithm 1 of the paper. `fit_encoder` fits a layer, embeds everything with it, and goes on;
`fit_layer` is RGI: sample a block, take the terms of Eq. 1 from both views of its targets, descend.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from lrgi import seed as randomness
from lrgi.compute.allocator import keep_freed_memory, release_freed_memory
from lrgi.compute.machine import device_called
from lrgi.compute.threads import ahead, lanes
from lrgi.distributed.collectives import present
from lrgi.encoder import Encoder, embed_layer
from lrgi.graph.features import SparseTable, Table
from lrgi.graph.graph import Graph
from lrgi.layers.layer import GraphLayer
from lrgi.layers.make import make_layer
from lrgi.layers.stack import Stack
from lrgi.sampling.sample import Batches
from lrgi.training.constants import inputs_of, reader_of
from lrgi.training.inputs import FirstInputs
from lrgi.training.journal import Journal, Moving, Place, StepRecord
from lrgi.training.objective import Infomax, Objective
from lrgi.training.optimize import adamw, descend, learning_rate
from lrgi.training.plan import FitPlan
from lrgi.training.sharing import check_shareable, resumed, share_of, sink_of


def fit_encoder(graph: Graph, plan: FitPlan, journal: Journal | None = None) -> Encoder:
    """Fit `plan.layers` layers on all nodes of `graph`, each on the frozen output of the one before."""
    journal = journal or Journal()
    table: Table = graph.features  # U_(0) = X
    layers: list[GraphLayer] = []
    for number in range(1, plan.layers + 1):
        layer = new_layer(plan, number, table.shape[1])
        fit_layer(layer, graph, table, plan, number, journal=journal)
        layers.append(layer)
        if number < plan.layers:
            sink = sink_of(present(), graph, journal.keeper.tables, number, layer)
            table = embed_layer(layer, graph, table, sink)  # U_(l), with all neighbours
            journal.layer_embedded(number, table)
    return Encoder(layers)


def fit_layer(
    layer: GraphLayer | Stack,
    graph: Graph,
    table: Table,
    plan: FitPlan,
    number: int,
    *,
    objective: Objective | None = None,
    journal: Journal | None = None,
) -> None:
    """Fit one layer in place on its frozen input `table`; a stack instead makes it end-to-end RGI.

    Another `objective` makes it another method (see `baselines/`). It begins where the journal's keeper says.
    """
    journal, own = journal or Journal(), plan.for_layer(number)
    objective, world = (objective or Infomax(own, number, layer.out_dim)).to(layer.device), present()
    first = FirstInputs(layer, objective, table, own, number)  # of layer 1: X, perhaps turned
    optimizer = adamw([*first.inner.parameters(), *objective.parameters()], own)
    reader = reader_of(first.inner, objective, isinstance(table, SparseTable) and not first.turned)
    sampling = own.sampling_over(reader.hops, objective.hops)
    check_shareable(world, objective, sampling)
    share = share_of(world, graph)
    batches = Batches(graph, sampling, own.seed, number, objective.targets, share=share)
    epochs = own.epochs_of(len(batches))
    steps = epochs * len(batches)
    done = resumed(world, journal.keeper, number, Moving(first.inner, objective, optimizer, layer), steps)
    place = Place(number, 0, done, steps)
    if place.step == steps:
        return  # an earlier process fitted it
    table = first.turn(graph, table, journal.keeper.tables, fresh=done == 0)
    table = inputs_of(reader, graph, table, journal.keeper.tables)
    journal.fit_begins(reader, table)
    journal.layer_started(number, own, steps)
    keep_freed_memory()
    with lanes(), products_in(own.precision, layer.device):
        for epoch, block in ahead(batches.after(place.step, epochs)):
            place = place._replace(epoch=epoch, step=place.step + 1)
            terms = objective.terms(reader, table, block, place)
            rate = learning_rate(own, place.step, steps)
            terms = descend(optimizer, terms, own, rate, place, world)
            objective.after_step(layer, place)
            journal.step_taken(StepRecord(place, terms, rate, block, world.sent))
    first.turn_back()
    world.repeat(*layer.parameters())  # equal already, unless the machines are of different makes
    release_freed_memory()
    journal.layer_fitted(number, layer)


def new_layer(plan: FitPlan, number: int, in_dim: int) -> GraphLayer:
    """Layer `number` of the plan, its weights drawn from its own stream."""
    own = plan.for_layer(number)
    settings = {"heads": own.heads} if own.layer == "gat" else {}
    layer = make_layer(own.layer, in_dim, own.width, **settings)
    layer.reset(randomness.torch_stream(own.seed, "layer", number))
    return layer.to(device_called(own.device))


def products_in(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """The precision of matrix products within it; sums and everything else stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")
