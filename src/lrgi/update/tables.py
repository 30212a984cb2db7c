"""The tables U_(1) to U_(L) of all nodes that a run keeps, so that an update makes only some rows again.

RUN/tables/NAME/ holds `tables.json` (what they are of; sealed, written when all is whole) and `U_<l>.npy`.
NAME says what they are of: a certain encoder on a certain graph. While they are made there is `progress.json`
instead; the next process goes on from there. Tables of an older graph stay until the new graph is in place.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lrgi.directory import check_seal, checksum, flush_directory, write_json, write_sealed
from lrgi.encoder import CONFIG
from lrgi.errors import FormatError
from lrgi.graph.arrays import ArrayEntry, open_array, verify_array
from lrgi.graph.features import DenseTable
from lrgi.graph.store import MANIFEST
from lrgi.training.run import ENCODER

FORMAT, VERSION = "lrgi-tables", 1
TABLES, ABOUT, PROGRESS = "tables", "tables.json", "progress.json"


@dataclass(frozen=True)
class KeptTables:
    """Whole tables of a run; U_(1) is the first."""

    directory: Path
    manifest: dict[str, Any]

    def table(self, number: int) -> DenseTable:
        """U_(number), mapped."""
        return DenseTable(open_array(self.directory, self.entry(number)))

    def entry(self, number: int) -> ArrayEntry:
        """What is on record of its file."""
        return ArrayEntry.from_json(self.manifest["layers"][number - 1], f"table U_{number}")

    def scratch_seconds(self, number: int) -> float:
        """What making all rows of it took, and with how many edges, per edge and node."""
        found = self.manifest["layers"][number - 1]["scratch"]
        return float(found["seconds"]) / max(1, int(found["edges"]) + int(found["nodes"]))


def tables_of(run: Path, graph: Path) -> dict[str, str]:
    """What tables are of: checksums of the encoder (its config has the weights') and of the graph."""
    return {"encoder": checksum(run / ENCODER / CONFIG), "graph": checksum(graph / MANIFEST)}


def place_of(run: Path, of: Mapping[str, str]) -> Path:
    """Where such tables lie."""
    name = blake2b(json.dumps(dict(of), sort_keys=True).encode(), digest_size=8).hexdigest()
    return run / TABLES / name


def kept_tables(run: Path, of: Mapping[str, str]) -> KeptTables | None:
    """The run's tables of this encoder and graph; None where there are none that are whole."""
    place = place_of(run, of)
    try:
        manifest = _read(place)
        found = KeptTables(place, manifest)
        for number in range(1, len(manifest["layers"]) + 1):
            found.table(number)
    except (FormatError, KeyError, TypeError):
        return None
    return found if manifest.get("of") == dict(of) else None


def kept_outputs(run: Path, graph: Path) -> dict[int, DenseTable]:
    """The outputs of all layers by number, where the run keeps them of this graph directory; else nothing."""
    if not (run / TABLES).is_dir() or not (graph / MANIFEST).is_file():
        return {}
    found = kept_tables(run, tables_of(run, graph))
    return (
        {} if found is None else {at + 1: found.table(at + 1) for at in range(len(found.manifest["layers"]))}
    )


def remove_others(run: Path, of: Mapping[str, str] | None) -> None:
    """Leave no tables but these."""
    kept = None if of is None else place_of(run, of)
    for place in (run / TABLES).glob("*"):
        if place != kept:
            shutil.rmtree(place, ignore_errors=True)


def problems_of_tables(run: Path) -> Iterator[str]:
    """A sentence for everything in a run's tables that is not as it was written."""
    for place in sorted((run / TABLES).glob("*")):
        if (place / PROGRESS).is_file():
            continue  # under way: each of its files is checked before it is used
        try:
            manifest = _read(place)
            for number, given in enumerate(manifest["layers"], 1):
                entry = ArrayEntry.from_json(given, f"table U_{number}")
                open_array(place, entry)
                verify_array(place, entry)
        except FormatError as error:
            yield str(error)
        except (KeyError, TypeError):
            yield f"{place / ABOUT} must list the tables of a run, got something else; remove {place}"


class TablesWork:
    """Tables in the making: which layers are finished, and the last step."""

    def __init__(self, run: Path, of: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self.directory, self._of = place_of(run, of), dict(of)
        self.done = self._begun()
        if self.done:
            tell(f"going on with tables in {self.directory}: {len(self.done)} layers are there")
        self.directory.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / PROGRESS, {"of": self._of, "layers": self.done})

    def file(self, number: int) -> Path:
        """Of U_(number)."""
        return self.directory / f"U_{number}.npy"

    def mark(self, number: int, entry: ArrayEntry, about: Mapping[str, Any]) -> None:
        """A layer is finished: on the disk, under its name."""
        self.done[str(number)] = {**entry.to_json(), **about}
        write_json(self.directory / PROGRESS, {"of": self._of, "layers": self.done})

    def finish(self, about: Mapping[str, Any]) -> None:
        """The manifest, then nothing is left of the work."""
        layers = [self.done[str(number)] for number in range(1, len(self.done) + 1)]
        manifest = {"format": FORMAT, "version": VERSION, "of": self._of, **about, "layers": layers}
        for log in self.directory.glob("U_*.log"):
            log.unlink()
        write_sealed(self.directory / ABOUT, manifest)
        (self.directory / PROGRESS).unlink()
        flush_directory(self.directory)

    def _begun(self) -> dict[str, Any]:
        """Layers that a killed process finished, as far as they are there as they were written."""
        try:
            found = json.loads((self.directory / PROGRESS).read_text(encoding="utf-8"))
            if found["of"] != self._of:
                return {}
            whole = {}
            for number, given in found["layers"].items():
                verify_array(self.directory, ArrayEntry.from_json(given, "a table"))
                whole[str(number)] = dict(given)
            return whole
        except (OSError, ValueError, KeyError, TypeError, AttributeError, FormatError):
            return {}


def _read(place: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((place / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FormatError(f"{place} must hold a {ABOUT} of format {FORMAT!r}, got none; remove {place}")
    if manifest.get("version") != VERSION:
        raise FormatError(
            f"kept tables must have version {VERSION}, got {manifest.get('version')!r} in {place}; "
            "upgrade lrgi to use what a newer lrgi wrote"
        )
    check_seal(place / ABOUT, required=True)
    return dict(manifest)
