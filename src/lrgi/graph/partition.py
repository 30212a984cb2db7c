"""A graph in parts on disk: a manifest, and a directory of mapped arrays for each part.

A machine needs the manifest and the directory of its own part.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.directory import SEAL, check_seal, new_directory, write_sealed
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import ArrayEntry, open_array, require_dtype, verify_array, write_array
from lrgi.graph.encoding import Encoding
from lrgi.graph.features import DenseTable, SparseTable
from lrgi.graph.fingerprint import described
from lrgi.graph.graph import Graph
from lrgi.graph.part import Part, cost_of, cut_edges, cut_part

FORMAT, PART_FORMAT, VERSION = "lrgi-partition", "lrgi-part", 1
MANIFEST, PART_MANIFEST = "manifest.json", "part.json"

_DTYPES = {
    "indptr": ("<i8",),
    "indices": ("<i4", "<i8"),
    "names": ("<i4", "<i8"),
    "owners": ("<i4",),
    "in_whole": ("<i8",),
    "whole_offsets": ("<i8",),
    "features": ("<f4",),
    "features_indptr": ("<i8",),
    "features_indices": ("<i4",),
    "features_data": ("<f4",),
}
_COUNTS = ("owned", "complete", "whole_edges", "number", "parts")


def save_partition(
    graph: Graph,
    owners: npt.NDArray[Any],
    path: str | os.PathLike[str],
    *,
    fit_on: str = "all",
    of: Mapping[str, Any] | None = None,
    nodes: npt.NDArray[np.int64] | None = None,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Cut a graph and write all parts, or none; the manifest that is returned says what each holds.

    Where it is the training subgraph of another graph, `fit_on` says of which nodes, `nodes` which ones
    they are there, and `of` what is on record of that graph. `about` is kept in the manifest.
    """
    final, parts = Path(path), int(owners.max()) + 1
    if final.exists() and not (overwrite and is_partition(final)) and any(final.iterdir()):
        raise InputError(
            f"the place for a partition must be free, got {final}, which holds something; "
            "choose another path, or pass --overwrite if it is a partition"
        )
    of = described(graph) if of is None else of
    with new_directory(final) as fresh:
        entries = [
            _write_part(cut_part(graph, owners, number, fit_on=fit_on, of=of), fresh)
            for number in range(parts)
        ]
        named = {"ids": graph.ids, "nodes": nodes}
        arrays = {
            key: write_array(fresh / f"{key}.npy", array).to_json()
            for key, array in named.items()
            if array is not None
        }
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "name": graph.name,
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "graphs": graph.num_graphs,
            "columns": graph.num_features,
            "cut_edges": cut_edges(graph, owners),
            "fit_on": fit_on,
            "of": dict(of),
            "encoding": None if graph.encoding is None else graph.encoding.to_json(),
            **(about or {}),
            "arrays": arrays,
            "parts": entries,
        }
        write_sealed(fresh / MANIFEST, manifest)
    return manifest


def read_partition(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest; FormatError for anything else."""
    directory = Path(path)
    if not is_partition(directory):
        raise FormatError(
            f"a partition must be a directory with a {MANIFEST} of format {FORMAT!r}, got {directory}, "
            "which is something else; make one with `lrgi partition`"
        )
    return _versioned(directory / MANIFEST)


def names_in(path: str | os.PathLike[str]) -> tuple[npt.NDArray[Any] | None, npt.NDArray[np.int64] | None]:
    """The user's ids of all nodes, and their places in the graph that was cut; None where there are none."""
    directory, given = Path(path), read_partition(path).get("arrays", {})
    found = {key: open_array(directory, ArrayEntry.from_json(given[key], key)) for key in given}
    return found.get("ids"), found.get("nodes")


def is_partition(path: str | os.PathLike[str]) -> bool:
    """Whether there is a directory whose manifest says that it is a graph in parts."""
    try:
        manifest = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def open_part(path: str | os.PathLike[str], number: int, parts: int, *, verify: bool = False) -> Part:
    """One part, mapped; InputError where the graph was not cut into `parts` parts."""
    manifest = read_partition(path)
    entries = manifest.get("parts")
    if not isinstance(entries, list) or len(entries) != parts:
        found = len(entries) if isinstance(entries, list) else 0
        raise InputError(
            f"a graph in {found} parts must be taken by {found} processes, got {parts}; "
            "start as many, or cut it again with `lrgi partition`"
        )
    directory = Path(path) / _directory_of(number)
    own = _versioned(directory / PART_MANIFEST)
    arrays = {}
    try:
        entries = {
            key: ArrayEntry.from_json(own["arrays"][key], f"array {key}")
            for key in own["arrays"]
            if key in _DTYPES
        }
        for key, allowed in _DTYPES.items():
            require_dtype(entries, key, allowed)
        for key, entry in entries.items():
            arrays[key] = open_array(directory, entry)
            if verify:
                verify_array(directory, entry)
        part = _part(manifest, own, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"part {number} of {path} must be whole, got {type(error).__name__}: {error}; cut the graph again"
        ) from error
    lengths = (len(part.names), len(part.in_whole) - 1, len(part.owners) + part.owned)
    if part.number != number or set(lengths) != {part.num_nodes} or not part.owned <= part.complete:
        raise FormatError(
            f"part {number} of {path} must be whole, got arrays that do not fit; cut the graph again"
        )
    return part


def _part(manifest: dict[str, Any], own: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Part:
    encoding = manifest.get("encoding")
    if "features" in arrays:
        features: DenseTable | SparseTable = DenseTable(arrays["features"])
    else:
        indptr, indices, data = (arrays[f"features_{name}"] for name in ("indptr", "indices", "data"))
        features = SparseTable(indptr, indices, data, int(own["columns"]))
    return Part.trusted(
        arrays["indptr"],
        arrays["indices"],
        features,
        name=str(own["name"]),
        **{key: arrays[key] for key in ("names", "owners", "in_whole", "whole_offsets")},
        **{key: int(own[key]) for key in _COUNTS},
        encoding=None if encoding is None else Encoding.from_json(encoding),
        fit_on=str(manifest.get("fit_on", "all")),
        of=dict(manifest.get("of", {})),
    )


def _write_part(part: Part, fresh: Path) -> dict[str, Any]:
    directory = fresh / _directory_of(part.number)
    directory.mkdir()
    arrays: dict[str, npt.NDArray[Any]] = {
        key: getattr(part, key)
        for key in ("indptr", "indices", "names", "owners", "in_whole", "whole_offsets")
    }
    if isinstance(part.features, DenseTable):
        arrays["features"] = part.features.array
    else:
        for name in ("indptr", "indices", "data"):
            arrays[f"features_{name}"] = getattr(part.features, name)
    entries = {key: write_array(directory / f"{key}.npy", array) for key, array in arrays.items()}
    counts = {key: getattr(part, key) for key in _COUNTS}
    head = {"format": PART_FORMAT, "version": VERSION, "name": part.name, "columns": part.num_features}
    shown = {key: entry.to_json() for key, entry in entries.items()}
    write_sealed(directory / PART_MANIFEST, {**head, **counts, "arrays": shown})
    cost = cost_of(part)
    return {
        **cost._asdict(),
        "share_of_nodes": round(part.num_nodes / part.whole_nodes, 4),
        "share_of_edges": round(cost.edges / part.whole_edges, 4),
        "bytes": sum(entry.bytes for entry in entries.values()),
    }


def _versioned(file: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        version = manifest["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise FormatError(
            f"a part must have a {file.name}, got none that can be read at {file}; "
            "copy the part here, or cut the graph again with `lrgi partition`"
        ) from None
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise FormatError(
            f"a partition's version must be from 1 to {VERSION}, got {version!r} in {file}; "
            "upgrade lrgi to open what a newer lrgi wrote"
        )
    check_seal(file)
    manifest.pop(SEAL, None)
    return manifest


def _directory_of(number: int) -> str:
    return f"part-{number:03d}"
