"""The directory of an export under way: what it is of, what is finished, and the last step.

It holds `export.json` (what it is of, and what is finished), `state/` (the layers' tables) and finished parts
under their names; then the manifest is written, and the first two are gone. Several processes that see the
directory share the work: process 0 keeps `export.json`, and any of them makes any shard, and says so in a
file of its own, `state/SHARD.RANK.json`. A shard that two of them make is the same twice.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from lrgi.directory import check_no_links, check_seal, flush_directory, is_free, write_sealed
from lrgi.distributed.collectives import ALONE, World, present
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import FileEntry
from lrgi.graph.sinks import problems_of_tables
from lrgi.outputs import INDEX, MANIFEST, SHARDS, is_embedding_directory

PROGRESS, STATE = "export.json", "state"


def check_export_place(final: Path, overwrite: bool) -> None:
    """Raise InputError unless an embedding may be written, or gone on with, at `final`."""
    if is_free(final) or (final / PROGRESS).is_file():
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
    world: World = ALONE  # the processes that share it

    @classmethod
    def begin(
        cls,
        final: Path,
        identity: dict[str, Any],
        overwrite: bool,
        tell: Callable[[str], None],
        *,
        together: bool = True,
    ) -> Work:
        """Begin, or go on with what is there of the same; InputError where the place holds something else.

        Of several processes, process 0 decides; not `together`, it does everything that is to be done here.
        """
        world, identity = present(), json.loads(json.dumps(identity))

        def begin() -> str:
            return json.dumps(cls._begin(final, identity, overwrite, tell).done)

        done = json.loads(world.led(begin))
        return cls(final, identity, done, tell, world if together else ALONE)

    @classmethod
    def _begin(
        cls, final: Path, identity: dict[str, Any], overwrite: bool, tell: Callable[[str], None]
    ) -> Work:
        check_export_place(final, overwrite)
        check_no_links(final)
        found = _read_progress(final)
        if found is not None and found["of"] != identity and not overwrite:
            first = next(key for key in identity if found["of"].get(key) != identity[key])
            raise InputError(
                f"an unfinished export to go on with must be of the same {first}, got "
                f"{found['of'].get(first)!r} in {final} and {identity[first]!r} now; choose another path "
                "or pass --overwrite"
            )
        if found is not None and found["of"] == identity:
            work = cls(final, identity, found["done"], tell)
            work.done |= work._noted()
            work.done = {name: entry for name, entry in work.done.items() if _is_there(final, name, entry)}
            tell(f"going on with the export in {final}: {len(work.done)} parts are there")
            return work
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
        if not self.world.alone:
            self.state.mkdir(exist_ok=True)
            write_sealed(self.state / f"{name}.{self.world.rank}.json", {"entry": entry})
        if self.world.rank == 0:
            self._keep()

    def unmade(self, names: list[str]) -> Iterator[tuple[int, str]]:
        """(place, name) of what is still to be made, by this process: its share, then what others left."""
        world, places = self.world, range(len(names))
        borders = [len(names) * i // world.size for i in range(world.size + 1)]
        shares = [places[a:b] for a, b in pairwise(borders)]
        others = (shares[(world.rank + i) % world.size] for i in range(1, world.size))
        for at in chain(shares[world.rank], *(reversed(share) for share in others)):
            if names[at] not in self.done and not self._notes(names[at]):
                yield at, names[at]

    def entries(self, names: list[str]) -> list[dict[str, Any]]:
        """Of all of these, when every process is through with them; for process 0, the others get nothing."""
        self.world.wait()
        if self.world.rank > 0:
            return []
        self.done |= self._noted()
        return [self.done[name] for name in names]

    def _notes(self, name: str) -> list[Path]:
        return [] if self.world.alone else list(self.state.glob(f"{name}.*.json"))

    def _noted(self) -> dict[str, dict[str, Any]]:
        found = {}
        for note in self.state.glob("*.json"):
            with suppress(FormatError):  # damaged: the shard is made again
                check_seal(note, required=True)
                found[note.name.rsplit(".", 2)[0]] = json.loads(note.read_text(encoding="utf-8"))["entry"]
        return found

    def finish(self, manifest: dict[str, Any]) -> None:
        """The manifest, then nothing is left of the work."""
        write_sealed(self.directory / MANIFEST, manifest)
        (self.directory / PROGRESS).unlink()
        shutil.rmtree(self.state, ignore_errors=True)
        for left in (self.directory / SHARDS).glob(".*.part"):  # of a process that was killed
            left.unlink(missing_ok=True)
        flush_directory(self.directory)

    def _keep(self) -> None:
        write_sealed(self.directory / PROGRESS, {"of": self.identity, "done": self.done})


def _read_progress(final: Path) -> dict[str, Any] | None:
    """What is on record of an unfinished export; None where there is none that is as it was written."""
    try:
        check_seal(final / PROGRESS, required=True)
        found = json.loads((final / PROGRESS).read_text(encoding="utf-8"))
        return found if isinstance(found["of"], dict) and isinstance(found["done"], dict) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def problems_of_work(directory: Path) -> Iterator[str]:
    """A sentence for everything of an unfinished export that is not as it was written."""
    found = _read_progress(directory)
    if found is None:
        yield f"{directory / PROGRESS} must be as lrgi wrote it, got other bytes; embed again"
        return
    for name, entry in found["done"].items():
        if not _is_there(directory, name, entry):
            yield f"{directory / name} must be as lrgi wrote it, got other bytes; embed again"
    yield from problems_of_tables(directory / STATE)


def _is_there(final: Path, name: str, entry: Any) -> bool:
    """Whether a finished file, or the beginning of one, is as it was written. Tables check themselves."""
    if isinstance(entry, dict) and "file" not in entry and "begun" not in entry:
        return True
    try:
        if "begun" in entry:
            return bool(digest_of_beginning(final / name, int(entry["bytes"])).hexdigest() == entry["begun"])
        folder = final / SHARDS if name.startswith("part-") else final
        FileEntry.from_json({key: entry[key] for key in ("file", "bytes", "checksum")}, name).verify(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True


def digest_of_beginning(path: Path, size: int) -> Any:
    """blake2b of the first `size` bytes of a file, to go on with; of all, where there are fewer."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while size > 0 and (part := file.read(min(size, 1 << 24))):
            digest.update(part)
            size -= len(part)
    return digest


def _clear(final: Path) -> None:
    """Remove what an export wrote, the manifest first."""
    (final / MANIFEST).unlink(missing_ok=True)
    for folder in (STATE, SHARDS, INDEX):
        shutil.rmtree(final / folder, ignore_errors=True)
    for pattern in (".*.part", "embeddings.*", "ids.npy", "nodes.npy", PROGRESS):
        for path in final.glob(pattern):
            path.unlink()
