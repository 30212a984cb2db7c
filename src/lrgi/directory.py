"""Files and directories that appear under their name only when they are whole and on the disk."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
    write_file(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def flush_directory(directory: Path) -> None:
    """Make renames in a directory last beyond a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(fresh: Path, final: Path, old: Path) -> None:
    if not final.exists():
        fresh.rename(final)
    else:
        try:
            final.rename(old)
            fresh.rename(final)
        except BaseException:  # an interrupt too must not leave the place empty
            if old.exists() and not final.exists():
                old.rename(final)
            raise
    flush_directory(final.parent)
