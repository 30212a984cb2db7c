"""The directory of an export under way: what it is of, what is finished, and the last step.

It holds `export.json` (what it is of, and what is finished), `state/` (the layers' tables) and finished parts
under their names; then the manifest is written, and the first two are gone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrgi.directory import flush_directory, write_json, write_sealed
from lrgi.errors import InputError
from lrgi.outputs import INDEX, MANIFEST, SHARDS, is_embedding_directory

PROGRESS, STATE = "export.json", "state"


def check_export_place(final: Path, overwrite: bool) -> None:
    """Raise InputError unless an embedding may be written, or gone on with, at `final`."""
    if not final.exists() or (final.is_dir() and (not any(final.iterdir()) or (final / PROGRESS).is_file())):
        return
    if overwrite and is_embedding_directory(final):
        return
    what = "an embedding" if is_embedding_directory(final) else "something else"
    remedy = "choose another path" + (" or pass --overwrite" if what == "an embedding" else "")
    raise InputError(f"the place for an embedding must be free, got {final}, which holds {what}; {remedy}")


@dataclass
class Work:
    """The directory of an export under way, and what of it is finished."""

    directory: Path
    identity: dict[str, Any]
    done: dict[str, dict[str, Any]]  # name -> entry, of tables and shards
    tell: Callable[[str], None]

    @classmethod
    def begin(
        cls, final: Path, identity: dict[str, Any], overwrite: bool, tell: Callable[[str], None]
    ) -> Work:
        """Begin, or go on with what is there of the same; InputError where the place holds something else."""
        check_export_place(final, overwrite)
        identity = json.loads(json.dumps(identity))
        found = _read_progress(final)
        if found is not None and found["of"] != identity and not overwrite:
            first = next(key for key in identity if found["of"].get(key) != identity[key])
            raise InputError(
                f"an unfinished export to go on with must be of the same {first}, got "
                f"{found['of'].get(first)!r} in {final} and {identity[first]!r} now; choose another path "
                "or pass --overwrite"
            )
        if found is not None and found["of"] == identity:
            tell(f"going on with the export in {final}: {len(found['done'])} parts are there")
            return cls(final, identity, found["done"], tell)
        final.mkdir(parents=True, exist_ok=True)
        _clear(final)
        work = cls(final, identity, {}, tell)
        work._keep()
        return work

    @property
    def state(self) -> Path:
        """Where tables are kept until the end."""
        return self.directory / STATE

    def mark(self, name: str, entry: dict[str, Any]) -> None:
        """Something is finished: on the disk, under its name."""
        self.done[name] = entry
        self._keep()

    def finish(self, manifest: dict[str, Any]) -> None:
        """The manifest, then nothing is left of the work."""
        write_sealed(self.directory / MANIFEST, manifest)
        (self.directory / PROGRESS).unlink()
        shutil.rmtree(self.state, ignore_errors=True)
        flush_directory(self.directory)

    def _keep(self) -> None:
        write_json(self.directory / PROGRESS, {"of": self.identity, "done": self.done})


def _read_progress(final: Path) -> dict[str, Any] | None:
    """What is on record of an unfinished export; None where there is none that could be read."""
    try:
        found = json.loads((final / PROGRESS).read_text(encoding="utf-8"))
        return found if isinstance(found["of"], dict) and isinstance(found["done"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _clear(final: Path) -> None:
    """Remove what an export wrote, the manifest first."""
    (final / MANIFEST).unlink(missing_ok=True)
    for folder in (STATE, SHARDS, INDEX):
        shutil.rmtree(final / folder, ignore_errors=True)
    for pattern in (".*.part", "embeddings.*", "ids.npy", "nodes.npy", PROGRESS):
        for path in final.glob(pattern):
            path.unlink()
