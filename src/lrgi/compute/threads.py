"""Lanes: the threads that share a step's work, each of them a single thread to torch.

A step is a chain of short operations. If each of them is cut among OpenMP's threads, as torch does, a
step waits at a hundred barriers; on a small machine beside a busy neighbour every one of them waits for
a thread that is not running, and a pool that spins meanwhile makes it worse (measured: ten times slower).
So work is cut once, by rows, into a few tasks that run a whole piece of the step each on one core.

Task borders depend on the problem only, never on the number of threads, every task writes to its own
place, and partial sums are added in the order of the tasks. So any number of threads gives the same bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, pairwise
from typing import Any, TypeVar

import numpy as np
import torch

_lanes_in_use = 0  # 0: as many as torch has threads

_this_thread = threading.local()  # .alone: runs its tasks itself, since the lanes are busy with a step
_END: Any = object()
Item = TypeVar("Item")

MOST_TASKS = 8  # partial sums are kept per task, so there are not many


@contextmanager
def lanes() -> Iterator[int]:
    """Within it, torch's own operations use one thread and tasks as many lanes as torch had threads."""
    global _lanes_in_use
    before, threads = _lanes_in_use, torch.get_num_threads()
    _lanes_in_use = before or threads
    _pool(os.getpid(), _lanes_in_use)
    torch.set_num_threads(1)
    try:
        yield _lanes_in_use
    finally:
        _lanes_in_use = before
        torch.set_num_threads(threads)


def run_tasks(task: Callable[[int], None], tasks: int) -> None:
    """Call `task(0) .. task(tasks - 1)`, spread over the lanes; the first exception is raised here.

    A task spends its time outside the GIL: compiled kernels and torch operations do.
    """
    width = min(_lanes_in_use or torch.get_num_threads(), tasks)
    if width <= 1 or getattr(_this_thread, "alone", False):
        with _one_thread():
            for i in range(tasks):
                task(i)
        return
    numbers = count()  # `next` on it is atomic: a lane that is held up takes fewer tasks

    def lane() -> None:
        while (i := next(numbers)) < tasks:
            task(i)

    pool = _pool(os.getpid(), _lanes_in_use or torch.get_num_threads())
    # Within `lanes` the caller is a lane too, so that it need not be woken when the others are done.
    others = width - 1 if _lanes_in_use else width
    running: list[Future[None]] = [pool.submit(lane) for _ in range(others)]
    try:
        if _lanes_in_use:
            with torch.no_grad():
                lane()
    finally:
        wait(running)  # never leave while a task still writes
    for future in running:
        future.result()


def run_each(tasks: Sequence[Callable[[], None]]) -> None:
    """Call every one of them, spread over the lanes; they need nothing of each other."""
    run_tasks(lambda i: tasks[i](), len(tasks))


@contextmanager
def _one_thread() -> Iterator[None]:
    """As on a lane: torch's operations do not cut their sums among threads, which would change their bits.

    (oneDNN's bf16 products do on processors with AMX, three threads and 1024 terms.)
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; the next one is made in a thread of its own while the present one is used.

    A step has serial parts in which cores idle: they are enough to sample the next batch. With one lane
    everything stays on the calling thread.
    """
    if _lanes_in_use <= 1:
        yield from items
        return
    with ThreadPoolExecutor(1, "lrgi-ahead", initializer=_work_alone) as maker:
        pending = maker.submit(next, items, _END)
        while (item := pending.result()) is not _END:
            pending = maker.submit(next, items, _END)
            yield item


def _work_alone() -> None:
    _this_thread.alone = True


def row_tasks(rows: int, least: int = 256) -> list[tuple[int, int]]:
    """Ranges of about equally many rows: at most MOST_TASKS, and none of much fewer than `least`."""
    parts = max(1, min(MOST_TASKS, rows // least))
    borders = [rows * i // parts for i in range(parts + 1)]
    return list(pairwise(borders))


def weighted_tasks(cumulative: np.ndarray, least: int = 1) -> list[tuple[int, int]]:
    """Ranges of rows of about equal weight; `cumulative` is a running sum with one entry more than rows.

    A row counts as one on top of its weight, so that rows without weight are spread too. No range has much
    less weight than `least`, so that a short task is not outweighed by its call.
    """
    rows = len(cumulative) - 1
    weights = cumulative.astype(np.int64) - int(cumulative[0]) + np.arange(rows + 1)
    parts = max(1, min(MOST_TASKS, int(weights[-1]) // least))
    goals = int(weights[-1]) * np.arange(parts + 1) // parts
    cuts = np.searchsorted(weights, goals, side="left")
    cuts[0], cuts[-1] = 0, rows
    return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]


def run_ranges(task: Callable[[int, int], None], total: int, least: int) -> None:
    """Call `task(start, stop)` for ranges that cover `range(total)`, none of much fewer than `least`."""
    ranges = row_tasks(total, least)
    run_tasks(lambda i: task(*ranges[i]), len(ranges))


@lru_cache(maxsize=2)
def _pool(process: int, width: int) -> ThreadPoolExecutor:
    """One pool per process (a forked child has none of its parent's threads) and width."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(width, "lrgi-lane", initializer=_enter_lane)
    # torch's setting is partly per thread, partly global: let every lane set its own, then restore ours.
    for ready in [pool.submit(_settle, width) for _ in range(width)]:
        ready.result()
    torch.set_num_threads(before)
    return pool


def _enter_lane() -> None:
    torch.get_num_threads()  # makes torch settle this thread's number now; later it would undo the next line
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)  # a thread begins with it on, and two lanes would record one graph at once


def _settle(width: int) -> None:
    """Keeps a lane busy for a moment, so that the pool starts all of its threads."""
    del width
    import time

    time.sleep(0.002)
