"""Batches of one epoch, as blocks. Every choice is a function of (seed, layer, epoch, node)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lrgi import seed as randomness
from lrgi.compute.threads import run_ranges
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.sampling import _kernels
from lrgi.sampling.block import Block
from lrgi.sampling.share import EVERYTHING, Share, Targets

ALL = None  # a fan-out that takes every neighbour

_ROWS_PER_TASK = 1024
_UNBOUNDED = 1 << 62


@dataclass(frozen=True)
class Sampling:
    """How an epoch is cut into batches.

    `fan_outs` has one entry per hop, nearest first: how many neighbours each newly met node reads,
    or `ALL`. `batch_size` counts targets; 0 makes every graph of the data set one batch (or, for a
    single graph, the whole of it), where nothing is sampled.
    """

    batch_size: int
    fan_outs: tuple[int | None, ...]


class Batches:
    """The batches that fit one layer. Keeps whole graphs once made, since every epoch uses them again.

    `targets` are the nodes that batches are made of, all of them by default; whole graphs stay whole.
    With a `share`, blocks hold this process's targets of batches that are the same for all processes.
    """

    def __init__(
        self,
        graph: Graph,
        sampling: Sampling,
        seed: int,
        layer: int,
        targets: np.ndarray | None = None,
        *,
        share: Share = EVERYTHING,
    ) -> None:
        if len(sampling.fan_outs) == 0:
            raise InputError("fan_outs must name at least one hop, got none; give one number per hop")
        self._graph, self._sampling, self._seed, self._layer = graph, sampling, seed, layer
        self._share, self._offsets = share, graph.offsets if share.offsets is None else share.offsets
        self._targets, self._count = targets, int(self._offsets[-1]) if targets is None else len(targets)
        self._whole: dict[int, Block] = {}

    def __len__(self) -> int:
        """How many batches an epoch has."""
        if self._sampling.batch_size == 0:
            return len(self._offsets) - 1
        # Rounded, so that no batch is a small rest whose covariance would be noise.
        return max(1, round(self._count / self._sampling.batch_size))

    def after(self, steps: int, epochs: int) -> Iterator[tuple[int, Block]]:
        """(epoch, block) of every step of `epochs` epochs but the first `steps`, which cost nothing."""
        for epoch in range(1 + steps // len(self), epochs + 1):
            skip = steps % len(self) if epoch == 1 + steps // len(self) else 0
            for block in self.epoch(epoch, skip):
                yield epoch, block

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Block]:
        """The blocks of one epoch; together they hold every target once, in random order.

        Without the first `skip` of them: the others are the same, since nothing is drawn from a state.
        """
        graph, fan_outs = self._graph, self._sampling.fan_outs
        random = randomness.stream(self._seed, "order", self._layer, epoch)
        if self._sampling.batch_size == 0:
            for g in random.permutation(len(self)).tolist()[skip:]:
                if g not in self._whole:
                    self._whole[g] = self._whole_graph(g)
                yield self._whole[g]
            return
        order = random.permutation(self._count)
        if self._targets is not None:
            order = self._targets[order]
        order = order.astype(graph.indices.dtype, copy=False)
        key = randomness.key(self._seed, "neighbours", self._layer, epoch)
        borders = np.linspace(0, self._count, len(self) + 1).astype(np.int64)
        for start, stop in pairwise(borders[skip:]):
            yield shared_block(graph, self._share, order[start:stop], fan_outs, key)

    def _whole_graph(self, which: int) -> Block:
        fan_outs = self._sampling.fan_outs
        if self._share is EVERYTHING:
            return whole_graph(self._graph, which, len(fan_outs))
        nodes = np.arange(*self._offsets[which : which + 2], dtype=self._graph.indices.dtype)
        return shared_block(self._graph, self._share, nodes, (ALL,) * len(fan_outs), np.uint64(0))


def sample_block(
    graph: Graph, targets: np.ndarray, fan_outs: tuple[int | None, ...], key: np.uint64
) -> Block:
    """The targets' sampled surroundings: each node, when first met, reads its fan-out's worth once."""
    return shared_block(graph, EVERYTHING, targets, fan_outs, key)


def shared_block(
    graph: Graph, share: Share, batch: np.ndarray, fan_outs: tuple[int | None, ...], key: np.uint64
) -> Block:
    """The surroundings of one process's targets, as the whole batch's block has them.

    A target reads a target's number of neighbours where another process meets it too. Nodes that are none
    must read as many in whichever ring they are met, which differs: `training.sharing` sees to that.
    """
    targets = share.of(batch)
    rings = _Rings(graph, targets, share.names)
    counts = [_UNBOUNDED if fan_out is ALL else fan_out for fan_out in fan_outs]
    for count in counts:
        rings.grow(count, counts[0], key)
    return rings.block()


def whole_graph(graph: Graph, which: int, depth: int) -> Block:
    """One graph of the data set as a block: all its nodes are targets, all its edges are there."""
    start, stop = int(graph.offsets[which]), int(graph.offsets[which + 1])
    nodes = np.arange(start, stop, dtype=graph.indices.dtype)
    indptr = graph.indptr[start : stop + 1]
    indices = graph.indices[indptr[0] : indptr[-1]] - graph.indices.dtype.type(start)
    return Block(
        nodes, (stop - start,) * (depth + 1), indptr - indptr[0], indices, graph.indptr, (start, stop)
    )


class _Rings:
    """Grows a block ring by ring; owns the table that gives each met node its local number."""

    def __init__(self, graph: Graph, given: Targets, names: np.ndarray | None) -> None:
        targets = given.own
        self.graph, self.names, self.batch = graph, names, given.batch
        self.elsewhere = None if given.all is None else np.sort(given.all)
        self.nodes = np.array(targets, dtype=graph.indices.dtype)  # a copy: numbering writes to it
        self.ring_ends = [0, len(targets)]
        self.indptr = [np.zeros(1, np.int64)]
        self.indices: list[np.ndarray] = []
        self.edges = 0
        self._make_table(4 * len(targets))
        self._number(self.nodes.copy(), known=0)
        if self.ring_ends[-1] != len(targets):
            raise InputError("targets must be distinct nodes, got a node twice; remove the repetition")

    def grow(self, fan_out: int, of_targets: int, key: np.uint64) -> None:
        rows = self.nodes[self.ring_ends[-2] : self.ring_ends[-1]]
        starts, ends = self.graph.indptr[rows], self.graph.indptr[rows.astype(np.int64) + 1]
        out_indptr = np.zeros(len(rows) + 1, np.int64)
        fan_outs = np.full(len(rows), fan_out)
        if fan_out != of_targets:
            fan_outs[self._targets_elsewhere(rows)] = of_targets
        np.cumsum(np.minimum(ends - starts, fan_outs), out=out_indptr[1:])
        named = rows if self.names is None else self.names[rows]
        met = np.empty(out_indptr[-1], self.graph.indices.dtype)
        args = ((self.graph.indptr, self.graph.indices), (rows, named), fan_outs, key, out_indptr)
        run_ranges(lambda a, b: _kernels.sample_neighbours(*args, (a, b), met), len(rows), _ROWS_PER_TASK)
        known = self.ring_ends[-1]
        self.ring_ends.append(known)
        self._reserve(known + len(met))
        self.indices.append(self._number(met, known))
        self.indptr.append(out_indptr[1:] + self.edges)
        self.edges += len(met)

    def block(self) -> Block:
        return Block(
            nodes=self.nodes[: self.ring_ends[-1]],
            ring_ends=tuple(self.ring_ends[1:]),
            indptr=np.concatenate(self.indptr),
            indices=np.concatenate(self.indices),
            graph_indptr=self.graph.degree_indptr,
            batch=self.batch,
        )

    def _targets_elsewhere(self, rows: np.ndarray) -> np.ndarray:
        """Places in `rows` of nodes that are targets of the same batch in another process."""
        if self.elsewhere is None or len(self.elsewhere) == 0:
            return np.empty(0, np.int64)
        place = np.minimum(np.searchsorted(self.elsewhere, rows), len(self.elsewhere) - 1)
        return np.flatnonzero(self.elsewhere[place] == rows)

    def _number(self, met: np.ndarray, known: int) -> np.ndarray:
        local = np.empty(len(met), np.int32)
        table = (self.table_keys, self.table_values)
        self.ring_ends[-1] = int(_kernels.number_nodes(met, self.nodes, known, *table, local))
        return local

    def _reserve(self, count: int) -> None:
        """Room for `count` nodes; never more than the graph has."""
        count = min(count, self.graph.num_nodes)
        known = self.ring_ends[-2]
        self.nodes = np.concatenate([self.nodes[:known], np.empty(count - known, self.nodes.dtype)])
        if 2 * count > len(self.table_keys):
            self._make_table(4 * count)
            _kernels.number_nodes(
                self.nodes[:known].copy(), self.nodes, 0, self.table_keys, self.table_values,
                np.empty(known, np.int32),
            )  # fmt: skip

    def _make_table(self, room: int) -> None:
        size = 1 << max(4, (room - 1).bit_length())
        self.table_keys = np.full(size, -1, self.nodes.dtype)
        self.table_values = np.empty(size, np.int32)
