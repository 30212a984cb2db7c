"""Planetoid's files are pickles: a look at what one would call, before PyG's reader unpickles it.

Unpickling can run any code. The only way for a pickle to reach code is to name it, so a file that names
anything beside the few constructors of arrays, sparse matrices and dictionaries is refused unread.
"""

from __future__ import annotations

import pickletools
from collections.abc import Sequence
from pathlib import Path

from lrgi.errors import FormatError

_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
_ALLOWED = {
    *(f"{module} {name}" for module in _ARRAYS for name in ("_reconstruct", "scalar")),
    "numpy ndarray", "numpy dtype", "_codecs encode", "collections defaultdict",
    "scipy.sparse.csr csr_matrix", "scipy.sparse._csr csr_matrix",
    *(f"{module} {name}" for module in ("__builtin__", "builtins") for name in ("list", "object", "bytes")),
    "copy_reg _reconstructor", "copyreg _reconstructor",
}  # fmt: skip
_OTHER_NAMES = {"STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}


def check_pickles(paths: Sequence[Path]) -> None:
    """FormatError, with the file's name, for the first that is no pickle or names other code."""
    for path in paths:
        found = _first_stranger(path.read_bytes())
        if found is not None:
            raise FormatError(
                f"a pickled file of planetoid must hold arrays and dictionaries only, got {path}, "
                f"which {found}; delete it and download it again"
            )


def _first_stranger(data: bytes) -> str | None:
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name in _OTHER_NAMES:
                return f"names code in a way that these files do not ({code.name})"
            if code.name == "GLOBAL" and argument not in _ALLOWED:
                return f"would call {str(argument).replace(' ', '.')}"
    except Exception as error:  # pickletools raises many kinds for bytes that are no pickle
        return f"is no pickle ({type(error).__name__})"
    return None
