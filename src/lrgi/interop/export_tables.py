"""The layers' outputs of an export, as files that nothing has to hold in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lrgi.distributed.collectives import present
from lrgi.encoder import Encoder, embed_layer
from lrgi.graph.arrays import create_array
from lrgi.graph.features import DenseTable, Table
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part
from lrgi.graph.shared_sinks import HaloSink, SharedFileSink, collect_rows
from lrgi.graph.sinks import FileSink
from lrgi.interop.export_work import Work
from lrgi.layers.layer import GraphLayer
from lrgi.layers.propagate import PropagateLayer
from lrgi.training.tables import digest_of


@dataclass(frozen=True)
class Tables:
    """Of a whole graph, each made once: by one process, or together in a folder that all see."""

    encoder: Encoder
    graph: Graph
    layers: tuple[int, ...]
    view: str
    work: Work
    kept: Mapping[int, Table] = field(default_factory=dict)  # outputs, by layer, that need not be made

    def columns(self) -> list[Table]:
        """The tables whose rows, side by side, are the embedding."""
        at: dict[int, Table] = {}
        table: Table = self.graph.features
        last = max(self.layers)
        finished = [n for n in range(1, last + 1) if f"U_{n}" in self.work.done or n in self.kept]
        for number in range(last + 1):
            if number > 0 and (number in self.layers or number >= max(finished, default=1)):
                table = self._layer(number, table)
            if number in self.layers:
                at[number] = table
            if number > 1 and number - 1 not in self.layers and present().rank == 0:
                (self.work.state / f"U_{number - 1}.npy").unlink(missing_ok=True)  # nobody needs it any more
        both = {"u": [at], "v": [], "both": [at]}[self.view]
        if self.view != "u":
            both.append({number: self._mean(number, u) for number, u in at.items()})
        return [tables[number] for number in self.layers for tables in both]

    def _layer(self, number: int, table: Table) -> Table:
        if number in self.kept:
            return self.kept[number]
        layer, name = self.encoder.layers[number - 1], f"U_{number}"
        if name not in self.work.done:
            self.work.tell(f"layer {number} of all nodes")
        sink = self._sink(name, layer.out_dim, digest_of(layer))
        made = embed_layer(layer, self.graph, table, sink)
        self.work.mark(name, {"rows": self.graph.num_nodes})
        return made

    def _mean(self, number: int, table: Table) -> Table:
        name, width = f"V_{number}", table.shape[1]
        return embed_layer(PropagateLayer(width, width), self.graph, table, self._sink(name, width, name))

    def _sink(self, name: str, width: int, of: str) -> FileSink:
        """Ranges that are there already are checked, and made again where they are damaged."""
        path, shape = self.work.state / f"{name}.npy", (self.graph.num_nodes, width)
        if present().alone:
            return FileSink(path, shape, of, mapped=True)
        return SharedFileSink(path, shape, of, present(), mapped=True)


@dataclass(frozen=True)
class PartTables:
    """Of a graph in parts: every process embeds the nodes it owns, and process 0 collects the rows."""

    encoder: Encoder
    part: Part
    layers: tuple[int, ...]
    view: str
    work: Work

    def columns(self) -> list[Table]:
        """The tables whose rows, side by side, are the embedding; for process 0 alone."""
        found: dict[int, list[Table]] = {}
        table: Table = self.part.features
        for number in range(max(self.layers) + 1):
            if number > 0:
                self.work.tell(f"layer {number} of all nodes")
                table = self._made(self.encoder.layers[number - 1], table)
            if number in self.layers:
                found[number] = []
                if self.view != "v":
                    found[number] += self._collected(f"U_{number}", table)
                if self.view != "u":
                    width = table.shape[1]
                    mean = self._made(PropagateLayer(width, width), table)
                    found[number] += self._collected(f"V_{number}", mean)
        return [each for number in self.layers for each in found[number]]

    def _made(self, layer: GraphLayer, table: Table) -> Table:
        sink = HaloSink((self.part.num_nodes, layer.out_dim), self.part, present())
        return embed_layer(layer, self.part, table, sink)

    def _collected(self, name: str, table: Table) -> list[Table]:
        """The rows of all nodes, in a file of process 0."""
        world, owned = present(), self.part.owned
        own = table.array[:owned] if isinstance(table, DenseTable) else table.rows(np.arange(owned))
        if world.rank > 0:
            collect_rows(own, self.part, world, None)
            return []
        path = self.work.state / f"{name}.npy"
        path.parent.mkdir(exist_ok=True)
        out = create_array(path, (self.part.whole_nodes, table.shape[1]), "<f4")
        collect_rows(own, self.part, world, out)
        return [DenseTable(np.load(path, mmap_mode="r", allow_pickle=False))]
