"""How the processes of a fit share its batches, and which fits they can share."""

from __future__ import annotations

from lrgi.distributed.collectives import World
from lrgi.errors import InputError
from lrgi.sampling.sample import Sampling
from lrgi.sampling.share import EVERYTHING, Share, Slice
from lrgi.training.objective import Objective


def share_of(world: World, objective: Objective, sampling: Sampling) -> Share:
    """What this process takes of every batch. InputError for a fit that cannot be shared."""
    if world.alone:
        return EVERYTHING
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
    return Slice(world.rank, world.size)
