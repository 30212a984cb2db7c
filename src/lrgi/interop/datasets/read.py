"""name -> Graph, checked against what is published of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from lrgi.errors import FormatError, InputError, LRGIError
from lrgi.graph.graph import Graph
from lrgi.interop.datasets.facts import Facts, Named, check_facts, named
from lrgi.interop.datasets.pickles import check_pickles
from lrgi.interop.silence import silent


def read_dataset(
    name: str, root: str | os.PathLike[str], *, facts: Facts | None = None, split: int = 0
) -> Graph:
    """The data set called `name` from its raw files below `root`, which are downloaded if they are not there.

    `facts` are the statistics it must have (the published ones); `split` is the column of its masks, where
    it has several (wikics: 20). A data set without masks (amazon, coauthor) gets no split. FormatError for
    files that are not what they should be, InputError where a download is refused.
    """
    about, place = named(name), Path(root)
    _fetch(name, about, place)
    if about.pickled:
        check_pickles([place / about.folder / file for file in about.files if "test.index" not in file])
    try:
        with silent():
            graph = _reader(about)(name, place, split)
    except LRGIError:
        raise
    except Exception as error:  # whatever a library makes of a damaged file
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise FormatError(
            f"the raw files of {name} must be as {about.library} publishes them, got {place / about.folder}, "
            f"which cannot be read ({reason}); download them again"
        ) from error
    check_facts(name, graph, about.facts if facts is None else facts)
    return replace(graph, name=name)


def _fetch(name: str, about: Named, root: Path) -> None:
    """Let the library download what is missing; one sentence where it cannot."""
    place = root / about.folder
    lacking = [file for file in about.files if not (place / file).is_file()]
    if not lacking:
        return
    try:
        with silent():
            import_module(_module(about)).download(name, root)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{about.library} must be installed to read {name}, got no module {error.name!r}; "
            f"pip install 'lrgi[{'pyg' if about.library == 'PyG' else 'ogb'}]'"
        ) from error
    except Exception as error:  # no network, no rights, a server that is gone
        raise InputError(
            f"the raw files of {name} must lie in {place}, got none of {', '.join(lacking)}, and a download "
            f"was refused ({type(error).__name__}); put them there"
        ) from error


def _module(about: Named) -> str:
    return f"lrgi.interop.datasets.{'from_pyg' if about.library == 'PyG' else 'from_ogb'}"


def _reader(about: Named) -> Callable[[str, Path, int], Graph]:
    read: Callable[[str, Path, int], Graph] = import_module(_module(about)).read
    return read
