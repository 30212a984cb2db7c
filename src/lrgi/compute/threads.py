"""One pool of threads for compiled kernels, as wide as torch's own.

Work is cut into tasks whose borders depend on the problem only, never on the number of threads, and
every task writes to its own place. So any number of threads gives the same bits. The threads sleep
while they wait: a pool that spins beside a busy neighbour slows everything on a small machine.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch


def run_tasks(task: Callable[[int], None], count: int) -> None:
    """Call `task(0) .. task(count - 1)`, spread over `torch.get_num_threads()` threads.

    The task must release the GIL for most of its time (numba with nogil=True does).
    """
    threads = min(torch.get_num_threads(), count)
    if threads <= 1:
        for i in range(count):
            task(i)
        return

    def every(lane: int) -> None:
        for i in range(lane, count, threads):
            task(i)

    helpers: list[Future[None]] = [_pool(threads - 1).submit(every, lane) for lane in range(1, threads)]
    every(0)
    for helper in helpers:
        helper.result()


def run_ranges(task: Callable[[int, int], None], total: int, size: int) -> None:
    """Call `task(start, stop)` for consecutive ranges of at most `size` that cover `range(total)`."""
    borders = [*range(0, total, size), total]
    run_tasks(lambda i: task(borders[i], borders[i + 1]), len(borders) - 1)


def weighted_ranges(cumulative: np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Cut rows into at most `parts` ranges of about equal weight; `cumulative` is 0 followed by running sums."""
    total = int(cumulative[-1]) - int(cumulative[0])
    goals = int(cumulative[0]) + (total * np.arange(parts + 1, dtype=np.float64) / parts).astype(np.int64)
    cuts = np.searchsorted(cumulative, goals, side="left")
    cuts[0], cuts[-1] = 0, len(cumulative) - 1
    return [(int(a), int(b)) for a, b in pairwise(np.maximum.accumulate(cuts)) if b > a]


@lru_cache(maxsize=4)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="lrgi-kernel")
