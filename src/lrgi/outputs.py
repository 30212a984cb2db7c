"""Embeddings: the outputs of chosen layers side by side, in memory or as a directory.

An embedding directory holds vectors as an array, in Parquet or as text, the nodes' ids where there are some,
and a versioned manifest, which is written when all else is whole (`interop/export.py` does that).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.directory import SEAL, check_seal
from lrgi.encoder import Encoder, embed_layer, propagated
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import ArrayEntry, FileEntry, create_array, open_array, verify_array
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph

FORMAT, VERSION = "lrgi-embedding", 2  # 1: .npy; 2: Parquet and text too
MANIFEST = "manifest.json"
SHARDS = "vectors"  # a folder with nothing but Parquet in it, as every reader of folders wants it
INDEX, INDEX_ABOUT = (
    "index",
    "index.json",
)  # a folder with an approximate index of the vectors, where one was made

_ROWS = 1 << 16  # copied at once

Layers = str | int | Sequence[int]
VIEWS = ("u", "v", "both")  # a layer's output, its mean over the neighbours, or one beside the other


def chosen_layers(layers: Layers, count: int) -> tuple[int, ...]:
    """Layer numbers (from 1) out of "last", "all", "1,3", a number or numbers; `count` layers there are.

    Where there are none, the features are what there is: layer 0.
    """
    if layers == "last" or (count == 0 and layers == "all"):
        return (count,)
    if layers == "all":
        return tuple(range(1, count + 1))
    given = layers.split(",") if isinstance(layers, str) else [layers] if isinstance(layers, int) else layers
    try:
        numbers = tuple(int(number) for number in given)
    except (TypeError, ValueError):
        numbers = ()
    known = range(min(1, count), count + 1)
    if not numbers or len(set(numbers)) < len(numbers) or not set(numbers) <= set(known):
        shown = layers if isinstance(layers, str | int) else list(layers)
        raise InputError(
            f"layers must be 'last', 'all' or different numbers from 1 to {count}, got {shown!r}; "
            "write several as 1,3"
        )
    return numbers


def embed_layers(
    encoder: Encoder,
    graph: Graph,
    layers: Layers = "last",
    out: npt.NDArray[np.float32] | None = None,
    *,
    view: str = "u",
    scratch: Path | None = None,
) -> npt.NDArray[np.float32]:
    """The outputs of chosen layers for every node, side by side: float32 [N, k * D], in the order chosen.

    `view` is one of VIEWS; with "both", each layer's u is followed by its v. `out` is filled if given (it
    may be memory-mapped). Tables in between are in memory, or mapped files in the directory `scratch`,
    which are gone afterwards.
    """
    encoder.check_columns(graph)
    chosen = chosen_layers(layers, len(encoder.layers))
    starts = _starts(encoder, chosen, view)
    if out is None:
        out = np.empty((graph.num_nodes, starts[-1]), dtype=np.float32)
    table: Table = graph.features
    with tempfile.TemporaryDirectory(dir=scratch) if scratch else nullcontext() as place:
        for number in range(max(chosen) + 1):
            if number > 0:
                layer = encoder.layers[number - 1]
                whole = chosen == (number,) and view == "u"  # no copy where one layer is the output
                target = out if whole else _between(place, number, (graph.num_nodes, layer.out_dim))
                table = embed_layer(layer, graph, table, target)
                if whole:
                    return out
            if number in chosen:
                at = chosen.index(number)
                _read_out(graph, table, view, out[:, starts[at] : starts[at + 1]])
    return out


def embedding_columns(encoder: Encoder, layers: Layers, view: str = "u") -> int:
    """How many columns `embed_layers` gives."""
    return _starts(encoder, chosen_layers(layers, len(encoder.layers)), view)[-1]


def _starts(encoder: Encoder, chosen: tuple[int, ...], view: str) -> list[int]:
    """Where each chosen layer's columns begin, and the number of columns."""
    if view not in VIEWS:
        raise InputError(f"view must be one of {', '.join(VIEWS)}, got {view!r}; choose one")
    widths = [encoder.widths[number] * (2 if view == "both" else 1) for number in chosen]
    starts: list[int] = np.concatenate([[0], np.cumsum(widths)]).tolist()
    return starts


def _read_out(graph: Graph, table: Table, view: str, out: npt.NDArray[np.float32]) -> None:
    """A layer's columns: u, v or both."""
    width = table.shape[1]
    if view != "v":
        for start in range(0, table.shape[0], _ROWS):
            rows = np.arange(start, min(start + _ROWS, table.shape[0]))
            out[rows[0] : rows[-1] + 1, :width] = table.rows(rows)
    if view != "u":
        propagated(graph, table, out[:, -width:])


def is_embedding_directory(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory whose manifest says that it is an embedding, of whatever version."""
    try:
        manifest = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What an embedding directory is; FormatError for anything else."""
    directory = Path(path)
    if not is_embedding_directory(directory):
        raise FormatError(
            f"an embedding must be a directory with a {MANIFEST} of format {FORMAT!r}, got {directory}, "
            "which is something else; make one with `lrgi embed`"
        )
    manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    version = manifest.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise FormatError(
            f"an embedding's version must be from 1 to {VERSION}, got {version!r} in "
            f"{directory / MANIFEST}; upgrade lrgi to open what a newer lrgi wrote"
        )
    check_seal(directory / MANIFEST)
    manifest.pop(SEAL, None)
    _check_kinds(manifest, directory)
    return manifest


def _check_kinds(manifest: dict[str, Any], directory: Path) -> None:
    kinds = {"layers": list, "arrays": dict, "shards": list, "text": dict}
    wrong = [key for key, kind in kinds.items() if not isinstance(manifest.get(key, kind()), kind)]
    wrong += [key for key in ("nodes", "columns") if type(manifest.get(key)) is not int or manifest[key] < 1]
    if wrong or manifest.get("shards") == []:
        what = wrong[0] if wrong else "shards"
        raise FormatError(
            f"{what} of an embedding must be what docs/tables.md says, got {manifest.get(what)!r} in "
            f"{directory}; write the embedding again"
        )


def open_embedding(path: str | os.PathLike[str]) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """The mapped embeddings [N, k * D] of a directory of arrays, and its manifest; FormatError for others."""
    manifest = read_manifest(path)
    entries = manifest.get("arrays")
    given = entries.get("embeddings") if isinstance(entries, dict) else None
    return open_array(Path(path), ArrayEntry.from_json(given, "array embeddings")), manifest


def verify_embedding(path: str | os.PathLike[str]) -> None:
    """Read a whole embedding directory: FormatError where a byte is not as it was written."""
    verify_vectors(path)
    directory = Path(path)
    if (directory / INDEX).is_dir():
        check_seal(directory / INDEX / INDEX_ABOUT, required=True)
        about = json.loads((directory / INDEX / INDEX_ABOUT).read_text(encoding="utf-8"))
        FileEntry.from_json(about.get("file"), "index").verify(directory / INDEX)


def verify_vectors(path: str | os.PathLike[str]) -> None:
    """The same without an index, which would be made again."""
    directory, manifest = Path(path), read_manifest(path)
    check_seal(directory / MANIFEST, required=True)
    for key, given in manifest.get("arrays", {}).items():
        entry = ArrayEntry.from_json(given, f"array {key}")
        open_array(directory, entry)
        verify_array(directory, entry)
    for given in manifest.get("shards", []):
        FileEntry.from_json(given, "a shard").verify(directory / SHARDS)
    if "text" in manifest:
        FileEntry.from_json(manifest["text"], "text").verify(directory)


def _between(place: str | None, number: int, shape: tuple[int, int]) -> npt.NDArray[np.float32] | None:
    return None if place is None else create_array(Path(place) / f"{number}.npy", shape, np.float32)
