"""Processes that are started again never meet the dead ones of an earlier attempt."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from lrgi.distributed.meeting import fresh_part


def meet(store: HashStore, late: int | None = None) -> list[str]:
    """Three processes, one of them late, and what the third left for the others to find."""

    def process(rank: int) -> str:
        if rank == late:
            time.sleep(0.1)
        part = fresh_part(store, rank, 3, 5.0)
        if rank == 2:
            part.set("address", f"{time.time_ns()}")
        return part.get("address").decode()

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(process, range(3)))


@pytest.mark.parametrize("late", [0, 1, 2])
def test_an_attempt_knows_nothing_of_the_one_before(late):
    store = HashStore()
    first = meet(store)
    second = meet(store, late)
    assert len(set(first)) == len(set(second)) == 1
    assert int(second[0]) > int(first[0])


def test_who_does_not_come_is_missed_in_time():
    store = HashStore()
    meet(store)
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"2 of 3 processes did not come in 0\.2 seconds"):
        fresh_part(store, 0, 3, 0.2)
    with pytest.raises(RuntimeError):
        fresh_part(store, 1, 3, 0.2)
    assert time.monotonic() - begun < 5
