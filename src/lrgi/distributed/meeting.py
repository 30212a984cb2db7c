"""How processes find each other again: a part of the launcher's store that no earlier attempt wrote to.

torchrun keeps one store while it starts workers again, so a new worker could read the address of a dead one.
Here process 0 gives the attempt a name, and tells it only those who said a fresh word first.
"""

from __future__ import annotations

import time
from datetime import timedelta

from torch.distributed.distributed_c10d import PrefixStore, Store

_HELLO, _WELCOME = "lrgi/hello", "lrgi/welcome"
_LOOK_SECONDS = 0.01


def fresh_part(store: Store, rank: int, size: int, timeout: float) -> Store:
    """Where the processes that are alive now meet; RuntimeError where some do not come within the time."""
    word = f"{time.time_ns():x}-{rank}"
    if rank == 0:
        _welcome(store, word, size, timeout)
        return PrefixStore(word, store)
    store.set(f"{_HELLO}/{rank}", word)
    store.wait([f"{_WELCOME}/{word}"], timedelta(seconds=timeout))
    name = store.get(f"{_WELCOME}/{word}").decode()
    store.set(f"{name}/{rank}", "here")
    return PrefixStore(name, store)


def _welcome(store: Store, name: str, size: int, timeout: float) -> None:
    """Until all the others are here; what a dead one said is answered too, and nobody hears it."""
    end, missing, heard = time.monotonic() + timeout, set(range(1, size)), dict[int, str]()
    while missing:
        for rank in sorted(missing):
            if not store.check([f"{_HELLO}/{rank}"]):
                continue
            word = store.get(f"{_HELLO}/{rank}").decode()
            if heard.get(rank) != word:
                heard[rank] = word
                store.set(f"{_WELCOME}/{word}", name)
            if store.check([f"{name}/{rank}"]):
                missing.remove(rank)
        if missing and time.monotonic() > end:
            raise RuntimeError(f"{len(missing)} of {size} processes did not come in {timeout:g} seconds")
        time.sleep(_LOOK_SECONDS if missing else 0)
