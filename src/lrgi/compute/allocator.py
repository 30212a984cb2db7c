"""Keep freed memory for the next step instead of giving it back to the system.

A training step allocates the same few large tensors again and again. glibc maps each of them anew
and unmaps it afterwards, so the kernel clears the same pages in every step, up to half of a step's
time. Telling malloc once to keep large blocks in its heap removes that. The environment variables
MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ do the same before a process starts.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from contextlib import suppress
from functools import lru_cache

import numpy as np

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_KEEP_BYTES = 1 << 30


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Set glibc's allocator to keep up to 1 GiB of freed memory; False where it is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # macOS, Windows, musl: their allocators have no such switch
        return False
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _KEEP_BYTES), (_M_TOP_PAD, 16 << 20))
    accepted = [mallopt(name, value) == 1 for name, value in settings]  # all of them, even if one fails
    return all(accepted)


def release_freed_memory() -> None:
    """Give what malloc holds back to the system: between layers, so that holes do not add up."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):  # not glibc
        return


def empty_table(shape: tuple[int, ...]) -> np.ndarray:
    """A zeroed float32 array in a mapping of its own: whole tables, which outlive many steps.

    Taken from the heap they would leave holes of their size in it, and a fit would grow with every
    layer. A mapping goes back to the system with its last view, begins on a page (so no row crosses
    more cache lines than it must), and may use huge pages, which random reads of rows gain from.
    """
    count = math.prod(shape)
    mapping = mmap.mmap(-1, max(4 * count, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapping, dtype=np.float32, count=count).reshape(shape)
