"""Files and directories that appear under their name only when they are whole and on the disk.

A sealed JSON file ends with the checksum of all that stands before it: no byte of it can change unnoticed.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from lrgi.errors import FormatError, InputError

SEAL = "checksum"


@contextmanager
def new_directory(final: Path) -> Iterator[Path]:
    """An empty directory to fill; when the block ends well it takes the place of `final`, else it is gone.

    What was at `final` is kept until then, and put back if the exchange is interrupted.
    """
    final = final.resolve()
    final.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    fresh, old = workshop / "new", workshop / "old"
    try:
        fresh.mkdir()
        yield fresh
        flush_directory(fresh)
        _exchange(fresh, final, old)
    finally:
        if final.exists() or not old.exists():  # never delete the only whole copy
            shutil.rmtree(workshop, ignore_errors=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write beside the name, flush, rename: readers see the old file or the new one, never a part."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    flush_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    """A JSON file that a person can read, written whole."""
    write_file(path, _text(value))


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """A JSON object whose last member is a checksum of all of it."""
    bare = {key: entry for key, entry in value.items() if key != SEAL}
    write_file(path, _text({**bare, SEAL: _seal(bare)}))


def check_seal(path: Path, *, required: bool = False) -> None:
    """FormatError where a sealed file is not as it was written, or has no seal where one is `required`."""
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text)
    except (OSError, ValueError, RecursionError):
        value, text = None, ""
    sealed = isinstance(value, dict) and SEAL in value
    if not sealed and not required and isinstance(value, dict):
        return
    if sealed:
        bare = {key: entry for key, entry in value.items() if key != SEAL}
        with suppress(UnicodeEncodeError):  # half a character, which we never wrote
            if value[SEAL] == _seal(bare) and text == _text({**bare, SEAL: value[SEAL]}):
                return
    raise FormatError(
        f"{path} must be as lrgi wrote it, got a file that was changed or damaged; "
        "take it from a copy, or make it again"
    )


def checksum(path: Path) -> str:
    """Of a whole file: "blake2b-128:" and 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(1 << 24):
            digest.update(part)
    return "blake2b-128:" + digest.hexdigest()


def reserve(file: BinaryIO, size: int) -> None:
    """Give a file its full size on the disk now: a later write into a hole may fail, mapped even fatally."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


@contextmanager
def locked(directory: Path, what: str = "a run directory") -> Iterator[None]:
    """Hold a directory for this process; InputError where another one does. `what` says what it is.

    The system lets go of it when the process ends, however it ends.
    """
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            f"{what} must be used by one process at a time, got {directory}, in which another one "
            "is working; wait for it, or choose another path"
        ) from None
    try:
        yield
    finally:
        os.close(handle)


def is_free(place: Path) -> bool:
    """Whether there is nothing, or nothing but first halves of files that a failed write of ours left."""
    if not place.exists():
        return True
    return place.is_dir() and all(p.name.startswith(".") and p.suffix == ".part" for p in place.iterdir())


def check_no_links(directory: Path) -> None:
    """InputError where something in a directory to write to is a link: what is written must stay within."""
    for path in directory.rglob("*") if directory.is_dir() else ():
        if path.is_symlink():
            raise InputError(
                f"a directory to write to must hold files of its own, got {path}, which is a link; remove it"
            )


def flush_directory(directory: Path) -> None:
    """Make renames in a directory last beyond a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _seal(bare: Mapping[str, Any]) -> str:
    return "blake2b-128:" + hashlib.blake2b(_text(bare).encode("utf-8"), digest_size=16).hexdigest()


def _exchange(fresh: Path, final: Path, old: Path) -> None:
    if not final.exists():
        fresh.rename(final)
    elif not _swap(fresh, final):
        try:
            final.rename(old)
            fresh.rename(final)
        except BaseException:  # an interrupt too must not leave the place empty
            if old.exists() and not final.exists():
                old.rename(final)
            raise
    flush_directory(final.parent)


def exchange(one: Path, other: Path) -> None:
    """Let two directories change places; where the system cannot at once, in three steps."""
    if not _swap(one, other):
        aside = other.with_name(f".{other.name}.aside")
        other.rename(aside)
        one.rename(other)
        aside.rename(one)
    flush_directory(other.parent)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one instant; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # not Linux, or an old glibc
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)
