"""What a fit will need, in words: for `lrgi plan`, and for `lrgi fit` before it begins."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lrgi.baselines.methods import METHODS, fit_method
from lrgi.cli.console import Console
from lrgi.cli.progress import duration
from lrgi.compute.memory import available_disk, available_memory
from lrgi.distributed.collectives import present
from lrgi.graph.graph import Graph
from lrgi.report.tables import pairs
from lrgi.training.cost import Needs, gib, needs_of, refuse_what_cannot_be, with_measurement
from lrgi.training.plan import FitPlan
from lrgi.training.resources import Resources


def measured_needs(
    graphs: tuple[Graph, Graph],
    plan: FitPlan,
    resources: Resources,
    method: str,
    *,
    steps: int,
    seconds: float,
) -> Needs | None:
    """Of a fit on the second of the `graphs`, the nodes of the first that it is fitted on, and of the
    measurement on the first at the end; None for a method that fits nothing."""
    whole, seen = graphs
    fits = METHODS[method].fits
    if fits == "nothing":
        return None
    needs = needs_of(
        seen, plan, fit=partial(fit_method, method), layerwise=fits == "layers",
        mapped=resources.mapped_tables, steps=steps, seconds=seconds,
    )  # fmt: skip
    return with_measurement(needs, whole, plan, resources.mapped_tables)


def memory_bound(needs: Needs, resources: Resources) -> int | None:
    """Bytes that the fit may hold in all: the bound that was asked for, or what there is."""
    if resources.memory_gib > 0:
        return int(resources.memory_gib * 2**30)
    free = available_memory()
    return None if free is None else free + needs.process  # what it holds already is its own


def disk_bound(out: Path) -> int:
    """Bytes that may be written at `out`."""
    return available_disk(out)


def announce_needs(
    console: Console,
    graphs: tuple[Graph, Graph],
    plan: FitPlan,
    resources: Resources | None,
    out: Path,
    *,
    method: str,
) -> None:
    """Say what a fit is about to take; InputError where that is not there; one of many says nothing."""
    if not present().alone:
        return
    resources = resources or Resources()
    needs = measured_needs(graphs, plan, resources, method, steps=3, seconds=0.5)
    if needs is None:
        return
    console.note(
        f"needs about {gib(needs.memory)} of memory and {gib(needs.disk)} of disk, "
        f"{duration(needs.seconds)} in all ({_per_step(needs)})"
    )
    refuse_what_cannot_be(needs, plan, memory_bound(needs, resources), disk_bound(out))


def in_lines(needs: Needs, seen: Graph, memory: int | None, disk: int) -> str:
    """For somebody who asked."""
    first = needs.measured[0]
    held = f"{gib(needs.process)} held now, {gib(needs.tables)} tables, {gib(needs.step)} at work"
    embedding = f", of which {duration(sum(needs.embed_seconds))} embedding" if needs.embed_seconds else ""
    free = "" if memory is None else f"; there is room for {gib(memory)}"
    lines = [
        ("fitted on", f"{seen.num_nodes:,} nodes, {seen.num_edges:,} directed edges"),
        ("memory", f"{gib(needs.memory)} beside the page cache ({held}){free}"),
        ("disk", f"{gib(needs.disk)}; {gib(disk)} are free"),
        ("a step", f"{_per_step(needs)}; {first.nodes:,.0f} nodes, {first.edges:,.0f} edges "
         f"({first.steps} measured)"),
        ("an epoch", f"{duration(needs.epoch_seconds)}: {needs.batches:,} steps of every layer"),
        ("in all", f"{sum(needs.steps):,} steps, {duration(needs.seconds)}{embedding}"),
    ]  # fmt: skip
    return pairs(lines)


def _per_step(needs: Needs) -> str:
    found = [f"{1000 * seconds:.1f}" for seconds in dict.fromkeys(needs.step_seconds)]
    return f"{' and '.join(found)} ms a step"
