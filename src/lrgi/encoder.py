"""Fitted layers: applying them to graphs, writing them down and reading them back.

An encoder on disk is a directory as the Hugging Face hub lays out a model: `config.json` (format, versions,
what each layer is, what is known of the fit), `model.safetensors` (its weights) and `README.md` (card.py).
Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from lrgi.card import CARD, WORDING, card_text, missing_line
from lrgi.compute.allocator import empty_table, release_freed_memory
from lrgi.compute.threads import lanes
from lrgi.directory import check_seal, checksum, new_directory, write_file, write_sealed
from lrgi.errors import FormatError, InputError
from lrgi.graph.features import DenseTable, Table, row_positions
from lrgi.graph.graph import Graph
from lrgi.graph.sinks import MemorySink, TableSink, sink_for, unnamed_array
from lrgi.layers.layer import GraphLayer
from lrgi.layers.make import make_layer
from lrgi.layers.propagate import PropagateLayer
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Hop, graph_hop

FORMAT, VERSION = "lrgi-encoder", 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"

CHUNK_EDGES = 1 << 20  # with D 128, half a gigabyte of rows read for a few dozen megabytes written
CHUNK_ROWS = 1 << 16
SCRATCH_IN_MEMORY = 256 << 20


class Encoder:
    """Layers in order. `extra` is a mapping that travels with them: settings, data, scores.

    Without layers it hands on the features as they are; `num_features` then says how many there must be.
    """

    def __init__(
        self,
        layers: Sequence[GraphLayer],
        extra: dict[str, Any] | None = None,
        *,
        num_features: int | None = None,
    ) -> None:
        self.layers = list(layers)
        self.extra = dict(extra or {})
        if not self.layers and num_features is None:
            raise InputError("an encoder without layers must know its columns, got none; give num_features")
        self.num_features = self.layers[0].in_dim if num_features is None else num_features

    @property
    def widths(self) -> list[int]:
        """Columns of U_(0), the features, and of every layer's output."""
        return [self.num_features, *(layer.out_dim for layer in self.layers)]

    def tables(self, graph: Graph, scratch: Path | None = None) -> Iterator[Table]:
        """U_(1), U_(2), ... of all nodes of any graph with as many feature columns; U_(0) without layers.

        In memory, or in mapped files without a name in the folder `scratch`.
        """
        self.check_columns(graph)
        table: Table = graph.features
        if not self.layers:
            yield table
        for layer in self.layers:
            shape = (graph.num_nodes, layer.out_dim)
            sink = MemorySink(shape) if scratch is None else MemorySink.unnamed(shape, scratch)
            table = embed_layer(layer, graph, table, sink)
            yield table

    def embed(self, graph: Graph) -> Table:
        """The last layer's output for every node, [N, D]."""
        *_, last = self.tables(graph)
        return last

    def check_columns(self, graph: Graph) -> None:
        """InputError where the graph's columns are not those of the fit."""
        if graph.num_features != self.num_features:
            raise InputError(
                f"a graph to embed must have the {self.num_features} feature columns of the fit, "
                f"got {graph.num_features}; prepare its features as they were for the fit"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the directory; what is there must be an encoder or nothing."""
        final = Path(path)
        if (
            final.exists()
            and any(final.iterdir() if final.is_dir() else [final])
            and not is_encoder_directory(final)
        ):
            raise InputError(
                f"the place for an encoder must be free, got {final}, which holds something else; "
                "choose another path"
            )
        config = {
            "format": FORMAT,
            "version": VERSION,
            "columns": self.num_features,
            "layers": [_describe(layer) for layer in self.layers],
            "extra": self.extra,
            "card": WORDING,
        }
        weights = {
            f"{i}.{name}": value.detach().contiguous()
            for i, layer in enumerate(self.layers)
            for name, value in layer.state_dict().items()
        }
        with new_directory(final) as fresh:
            write_file(fresh / WEIGHTS, save(weights))
            write_sealed(fresh / CONFIG, config | {"weights": checksum(fresh / WEIGHTS)})
            write_file(fresh / CARD, card_text(config))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Encoder:
        """Read a directory that `save` wrote; FormatError for anything else."""
        directory = Path(path)
        config = _read_config(directory)
        try:
            if config.get("weights", "") not in ("", checksum(directory / WEIGHTS)):
                raise ValueError(f"{WEIGHTS} was changed or damaged")
            layers = _with_weights(config["layers"], load_file(directory / WEIGHTS))
            columns, extra = (
                int(config.get("columns", layers[0].in_dim if layers else 0)),
                config.get("extra", {}),
            )
            if not isinstance(extra, dict) or any(a.out_dim != b.in_dim for a, b in pairwise(layers)):
                raise ValueError("layers that do not follow each other")
            if layers and columns != layers[0].in_dim:
                raise ValueError(f"{columns} columns for a first layer that reads {layers[0].in_dim}")
        except (
            KeyError, TypeError, ValueError, ArithmeticError, AttributeError, RuntimeError, OSError,
            SafetensorError,
        ) as error:  # fmt: skip
            raise FormatError(
                f"an encoder's {CONFIG} and {WEIGHTS} must belong together, got {directory}, "
                f"where they do not ({type(error).__name__}: {error}); save the encoder again"
            ) from error
        check_seal(directory / CONFIG)
        return cls(layers, extra, num_features=columns)


def embed_layer(
    layer: GraphLayer, graph: Graph, table: Table, out: np.ndarray | TableSink | None = None
) -> DenseTable:
    """U_(l) [N, D] from U_(l-1): every node with all its neighbours, in chunks.

    What nodes offer their neighbours is computed once per node, then rows are aggregated chunk by
    chunk. Beside `out` (an array to fill, perhaps mapped, or a sink, which says what chunks are still to be
    made) it needs memory for a chunk; what the nodes offer goes to an unnamed temporary file where it is
    large. Chunks depend on the graph alone, so that a table made in several goes has the same bits.
    """
    sink = sink_for(out, (graph.num_nodes, layer.out_dim))
    sources: tuple[Tensor, ...] | None = None
    with torch.no_grad(), lanes(), sink:
        for start, stop in sink.missing(_chunks(graph.indptr, CHUNK_EDGES)):
            if sources is None:
                sources = _all_sources(layer, table, sink.beside)
            hop = graph_hop(graph.indptr, graph.indices, start, stop)
            own = Rows(table.slice(start, stop), None, str(layer.device))
            sink.write(start, layer.from_sources(sources, own, hop).cpu().numpy())
        del sources
    release_freed_memory()
    return sink.table()


def embed_rows(
    layer: GraphLayer,
    graph: Graph,
    table: Table,
    rows: np.ndarray,
    put: Callable[[np.ndarray, np.ndarray], None],
    *,
    beside: Path | None = None,
) -> None:
    """Some rows of U_(l), with the bits that `embed_layer` gives them; `put` takes (row numbers, values).

    `rows` rise. Only they and their neighbours are read from the table. Sums run over neighbours in the
    same order, and nothing that is computed of a row depends on what other rows are computed with it. What
    the nodes offer goes to an unnamed file in the directory `beside` where it is large.
    """
    local = np.zeros(graph.num_nodes, dtype=graph.indices.dtype)  # first who is needed, then where
    local[rows] = 1
    bounds = np.concatenate([[0], np.cumsum(graph.indptr[rows + 1] - graph.indptr[rows])])
    ranges = list(_chunks(bounds, CHUNK_EDGES))
    for start, stop in ranges:
        local[graph.indices[row_positions(graph.indptr, rows[start:stop])[1]]] = 1
    local[rows] = 0
    nodes = np.concatenate([rows, np.flatnonzero(local)])
    local[nodes] = np.arange(len(nodes))
    with torch.no_grad(), lanes():
        sources = _all_sources(layer, table, beside, nodes)
        for start, stop in ranges:
            indptr, positions = row_positions(graph.indptr, rows[start:stop])
            hop = Hop(indptr, local[graph.indices[positions]], len(nodes), start, graph.indptr, nodes)
            own = Rows(table, rows[start:stop], str(layer.device))
            put(rows[start:stop], layer.from_sources(sources, own, hop).cpu().numpy())
        del sources
    release_freed_memory()


def propagated(graph: Graph, table: Table, out: np.ndarray | None = None) -> DenseTable:
    """The plain mean of a table's rows over each node's neighbours, the paper's v of u: [N, d]."""
    return embed_layer(PropagateLayer(table.shape[1], table.shape[1]), graph, table, out)


def _all_sources(
    layer: GraphLayer, table: Table, beside: Path | None, nodes: np.ndarray | None = None
) -> tuple[Tensor, ...]:
    """`layer.sources` of the whole table or of some nodes, filled a few rows at a time."""
    whole: tuple[Tensor, ...] = ()
    count = table.shape[0] if nodes is None else len(nodes)
    rows = Rows(table, nodes, str(layer.device))
    for start in range(0, count, CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, count)
        part = layer.sources(rows.range(start, stop))
        if start == 0:
            if stop == count:
                return part
            shapes = [(count, *values.shape[1:]) for values in part]
            whole = tuple(_scratch(shape, beside, layer.device) for shape in shapes)
        for target, values in zip(whole, part, strict=True):
            target[start:stop] = values
    return whole


def _scratch(shape: tuple[int, ...], beside: Path | None, device: torch.device) -> Tensor:
    if device.type != "cpu":
        return torch.empty(shape, device=device)
    if 4 * int(np.prod(shape)) <= SCRATCH_IN_MEMORY:
        return torch.from_numpy(empty_table(shape))
    return torch.from_numpy(unnamed_array(shape, beside))


def _chunks(indptr: np.ndarray, edges: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about `edges` edges each (or one row that has more), counting a row as one."""
    rows, start = len(indptr) - 1, 0
    while start < rows:
        stop = min(start + CHUNK_ROWS, rows)
        stop = int(np.searchsorted(indptr[start : stop + 1], indptr[start] + edges, side="right")) - 1 + start
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _with_weights(described: list[dict[str, Any]], weights: dict[str, Tensor]) -> list[GraphLayer]:
    """The layers of a config. No memory is taken for a shape that the weights do not have."""
    shapes = {name: value.shape for name, value in weights.items()}
    layers = []
    for i, entry in enumerate(described):
        given = (entry["kind"], entry["in_dim"], entry["out_dim"])
        with torch.device("meta"):
            sketch = make_layer(*given, **entry["settings"]).state_dict()
        names = {name: f"{i}.{name}" for name in sketch}
        if any(shapes[names[name]] != value.shape for name, value in sketch.items()):
            raise ValueError(f"layer {i + 1} has weights of other shapes")
        layer = make_layer(*given, **entry["settings"])
        layer.load_state_dict({name: weights.pop(long) for name, long in names.items()})
        layers.append(layer)
    if weights:
        raise KeyError(next(iter(weights)))
    return layers


def _describe(layer: GraphLayer) -> dict[str, Any]:
    if layer.kind == "pyg":
        raise InputError(
            "an encoder to save must have gat, sage or gcn layers, got a wrapped PyG convolution; "
            "save its state_dict beside your own code"
        )
    return {
        "kind": layer.kind,
        "in_dim": layer.in_dim,
        "out_dim": layer.out_dim,
        "settings": layer.settings(),
    }


def is_encoder_directory(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory whose config says that it is an encoder, of whatever version."""
    try:
        config = json.loads((Path(path) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT


def _read_config(directory: Path) -> dict[str, Any]:
    if not is_encoder_directory(directory):
        raise FormatError(
            f"an encoder must be a directory with a {CONFIG} of format {FORMAT!r}, got {directory}, "
            "which is something else; make one with `lrgi fit`"
        )
    config: dict[str, Any] = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
    version = config.get("version")
    if not isinstance(version, int) or version < 1 or version > VERSION:
        raise FormatError(
            f"an encoder's version must be from 1 to {VERSION}, got {version!r} in {directory / CONFIG}; "
            "upgrade lrgi to open what a newer lrgi wrote"
        )
    return config


def verify_encoder(path: str | os.PathLike[str]) -> None:
    """Read a whole encoder directory: FormatError where a byte is not as it was written, or the card says
    something else than the config."""
    directory = Path(path)
    Encoder.load(directory)
    check_seal(directory / CONFIG, required=True)
    config = _read_config(directory)
    if config.get("card") == WORDING:  # else of an lrgi that wrote none, or in other words
        _check_card(directory / CARD, config)


def _check_card(path: Path, config: dict[str, Any]) -> None:
    """What was written in it must still stand; whoever shares the encoder may add to it."""
    try:
        lost = missing_line(config, path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):  # or a config of nonsense
        lost = "---"
    if lost is not None:
        raise FormatError(
            f"{path} must say what {CONFIG} says, got no line {lost!r}; put it back, or take it from a copy"
        )
