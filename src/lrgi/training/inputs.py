"""What the first layer is fitted on: the features as given, or in their principal directions.

Columns that say much the same make a descent slow (every step multiplies all of them) and badly conditioned.
So where features are full the first layer is fitted on X M, where M [d, k] turns the columns into their k
principal directions, scaled as a whole to a mean variance of one. The layer's products are linear in X:
W (X M)^T = (W M^T) X^T, so the fitted layer is handed back as a layer of X itself, and whoever applies it
never knows (docs/decisions/0015).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrgi import seed as randomness
from lrgi.compute.threads import lanes
from lrgi.distributed.collectives import World, present
from lrgi.graph.features import DenseTable, SparseTable, Table
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part
from lrgi.graph.sinks import TableSink
from lrgi.layers.layer import GraphLayer
from lrgi.layers.make import make_layer
from lrgi.layers.rows import Rows
from lrgi.training.objective import FittedModule, Objective
from lrgi.training.plan import FitPlan
from lrgi.training.sharing import scratch_of
from lrgi.training.tables import TableStore, digest_of

FULL = 0.1  # share of values that are not zero, above which a sparse table counts as full
LEAST_DIRECTIONS = 256  # of a narrow layer too: what is left out here cannot come back
_SPARE, _PASSES = 16, 4  # columns and passes of the subspace iteration beyond the wanted ones
_CHUNK_ROWS = 1 << 15


@dataclass(frozen=True)
class Directions:
    """M [d, k], and the matrix B [d, k] that takes a layer of X back to one of X M: M^T B = 1."""

    into: Tensor
    back: Tensor

    def put_back(self, inner: GraphLayer, layer: GraphLayer) -> None:
        """Make `layer`, of X, give what `inner`, of X M, gives."""
        self._copy(inner, layer, self.into.t())

    def put_into(self, layer: GraphLayer, inner: GraphLayer) -> None:
        """Make `inner`, of X M, give what `layer`, of X, gives of what X M knows of X."""
        self._copy(layer, inner, self.back)

    def table(self, table: Table, sink: TableSink, device: str) -> DenseTable:
        """X M [N, k]."""
        weight = self.into.t().contiguous().to(device)
        with torch.no_grad(), lanes(), sink:
            for start, stop in sink.missing(_ranges(table.shape[0])):
                rows = Rows(table.slice(start, stop), None, device)
                sink.write(start, rows.product(weight).cpu().numpy())
        return sink.table()

    def _copy(self, source: GraphLayer, target: GraphLayer, matrix: Tensor) -> None:
        state = dict(target.named_parameters())
        with torch.no_grad():
            for name, value in source.named_parameters():
                read = name in source.input_weights
                state[name].copy_((value.double().cpu() @ matrix.double()).float() if read else value)


class FirstInputs:
    """The inputs of one fit, as given or in their principal directions, and the layer that is fitted on them.

    `inner` is that layer: `layer` itself, or one of the same kind and width on X M.
    """

    def __init__(
        self, layer: FittedModule, objective: Objective, table: Table, plan: FitPlan, number: int
    ) -> None:
        self._layer, self.inner = layer, layer
        self._directions: Directions | None = None
        self.turned = objective.reads_constants and turns(layer, table, plan, number)
        if self.turned:
            assert isinstance(layer, GraphLayer)
            inner = make_layer(
                layer.kind, directions_wanted(layer.in_dim, layer.out_dim), layer.out_dim, **layer.settings()
            )
            inner.reset(randomness.torch_stream(plan.seed, "layer", number))
            self.inner = inner.to(layer.device)
            self._before = digest_of(layer)

    def turn(self, graph: Graph, table: Table, tables: TableStore, *, fresh: bool) -> Table:
        """The table that `inner` is fitted on. A `fresh` fit begins with weights that `layer` was given."""
        if not self.turned:
            return table
        inner, layer = self._both()
        world, device = present(), str(layer.device)
        self._directions = directions_of(graph, table, inner.in_dim, world, device)
        if fresh and digest_of(layer) != self._before:
            self._directions.put_into(layer, inner)
        sink = scratch_of(world, graph, tables, inner.in_dim)
        return self._directions.table(table, sink, device)

    def turn_back(self) -> None:
        """Give `layer` the weights with which it does to X what `inner` does to X M."""
        if self._directions is not None:
            self._directions.put_back(*self._both())

    def _both(self) -> tuple[GraphLayer, GraphLayer]:
        assert isinstance(self.inner, GraphLayer) and isinstance(self._layer, GraphLayer)
        return self.inner, self._layer


def turns(layer: FittedModule, table: Table, plan: FitPlan, number: int) -> bool:
    """Whether `layer` is a first one whose inputs the plan wants in their principal directions."""
    fits = isinstance(layer, GraphLayer) and bool(layer.input_weights)
    return number == 1 and fits and (plan.inputs == "principal" or (plan.inputs == "auto" and is_full(table)))


def fitted_columns(table: Table, layer: GraphLayer, plan: FitPlan) -> int:
    """Columns of what a first layer is fitted on."""
    wanted = turns(layer, table, plan, 1)
    return directions_wanted(layer.in_dim, layer.out_dim) if wanted else layer.in_dim


def is_full(table: Table) -> bool:
    """Whether more than a few values are not zero.

    Rows of a few words each are nearly orthogonal, and their lesser principal directions are noise; many
    values per row are not, and say the same thing many times.
    """
    if not isinstance(table, SparseTable):
        return True
    return len(table.data) > FULL * table.shape[0] * table.shape[1]


def directions_wanted(in_dim: int, width: int) -> int:
    """k."""
    return min(in_dim, max(width, LEAST_DIRECTIONS))


def directions_of(graph: Graph, table: Table, count: int, world: World, device: str) -> Directions:
    """The principal directions of a table's columns: covariance by a few passes over its rows.

    Columns of a dense table, which may be of any units, are divided by their deviations first; those of a
    sparse one are counts of the same kind of thing. All that processes send each other is [d, k].
    """
    rows = table.slice(0, graph.owned) if isinstance(graph, Part) else table
    with lanes():
        moments = _Moments(rows, world if isinstance(graph, Part) else None, device)
        width = table.shape[1]
        if width <= count + _SPARE:
            basis = torch.eye(width, dtype=torch.float64)
        else:
            random = randomness.torch_stream(0, "directions")
            basis = torch.randn(width, count + _SPARE, generator=random, dtype=torch.float64)
            for _ in range(_PASSES):
                basis = torch.linalg.qr(moments.covariance_times(torch.linalg.qr(basis).Q)).Q
        values, vectors = torch.linalg.eigh(basis.t() @ moments.covariance_times(basis))
        turned = basis @ vectors[:, -count:].flip(1)
        largest = turned.abs().argmax(0, keepdim=True)
        turned = turned * torch.where(turned.gather(0, largest) < 0, -1.0, 1.0)  # signs are a convention
        scale = values[-count:].clamp(min=0).mean().sqrt().clamp(min=1e-12)
        of = moments.scale[:, None]
        whole = torch.where(of > 0, turned / of.clamp(min=1e-300) * scale, 0.0)
        into, back = (of * turned / scale).float(), whole.float()
    world.repeat(into, back)
    return Directions(into, back)


class _Moments:
    """Means, deviations and covariances of rows, summed over processes that hold different ones."""

    def __init__(self, rows: Table, world: World | None, device: str) -> None:
        self._rows, self._world, self._device = rows, world, device
        width = rows.shape[1]
        self.scale = torch.ones(width, dtype=torch.float64)
        sums = torch.zeros(2 * width + 1, dtype=torch.float64)
        sums[-1] = rows.shape[0]
        for start, stop in _ranges(rows.shape[0]):
            if isinstance(rows, DenseTable):
                x = Rows(rows.slice(start, stop), None).dense().double()
                sums[:width] += x.sum(0)
                sums[width:-1] += x.square().sum(0)
            else:
                part = rows.slice(start, stop)
                at = torch.from_numpy(part.indices.astype("int64"))
                sums[:width].index_add_(0, at, torch.from_numpy(part.data.astype("float64")))
        self._add_up(sums)
        self._count = float(sums[-1])
        mean = sums[:width] / self._count
        if isinstance(rows, DenseTable):
            variance = sums[width:-1] / self._count - mean.square()
            known = variance > 1e-12 * (mean.square() + 1e-300)
            self.scale = torch.where(known, variance.clamp(min=1e-300).rsqrt(), 0.0)
        self._mean = mean * self.scale

    def covariance_times(self, basis: Tensor) -> Tensor:
        """C Z of the scaled columns, for Z [d, m]."""
        weight = (self.scale[:, None] * basis).float().t().contiguous().to(self._device).requires_grad_()
        total = torch.zeros(basis.shape, dtype=torch.float64)
        for start, stop in _ranges(self._rows.shape[0]):
            y = Rows(self._rows.slice(start, stop), None, self._device).product(weight)
            (grad,) = torch.autograd.grad(y, weight, y.detach())  # (X Z)^T X
            total += grad.t().double().cpu()
        self._add_up(total)
        scaled = self.scale[:, None] * total / self._count
        return scaled - self._mean[:, None] * (self._mean[None] @ basis)

    def _add_up(self, sums: Tensor) -> None:
        if self._world is not None:
            self._world.add_up(sums)


def _ranges(rows: int) -> list[tuple[int, int]]:
    return [(start, min(start + _CHUNK_ROWS, rows)) for start in range(0, rows, _CHUNK_ROWS)]
