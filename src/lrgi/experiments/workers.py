"""Processes that work through a list of tasks; one that dies takes only its task with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from lrgi.errors import LRGIError

Work = Callable[..., Any]
_CONTEXT = get_context("spawn")  # a forked process could not use CUDA, nor torch's threads


@dataclass(frozen=True)
class Done:
    """What came of a task: its value, or the reason why there is none."""

    key: Any
    value: Any = None
    problem: str | None = None


class _Worker:
    """One process, and the key of the task it is at."""

    def __init__(self, work: Work, threads: int) -> None:
        self.end, far = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(far, work, threads), daemon=True)
        self.process.start()
        far.close()
        self.key: Any = None

    def give(self, key: Any, arguments: tuple[Any, ...]) -> None:
        self.key = key
        self.end.send(arguments)

    def take(self) -> Done:
        try:
            value, problem = self.end.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            reason = "killed, most likely out of memory" if code == -9 else f"exit code {code}"
            return Done(self.key, problem=f"its process died ({reason})")
        return Done(self.key, value, problem)

    def stop(self) -> None:
        self.end.close()
        self.process.kill()
        self.process.join()


def work_through(
    work: Work,
    tasks: Sequence[tuple[Any, tuple[Any, ...]]],
    *,
    jobs: int,
    threads: int,
    deadline: float | None = None,
) -> Iterator[Done]:
    """Call work(*arguments) for each (key, arguments) in `jobs` processes; results as they come.

    At the deadline (of time.monotonic) what runs is stopped; tasks that were stopped or never begun give
    nothing. An exception of the work is the task's problem, in one sentence.
    """
    queue, workers = list(tasks), [_Worker(work, threads) for _ in range(min(jobs, len(tasks)))]
    try:
        for worker in workers:
            worker.give(*queue.pop(0))
        busy = {worker.end: worker for worker in workers}
        while busy:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            for end in wait(list(busy), left):
                worker = busy.pop(end)  # type: ignore[call-overload]
                done = worker.take()
                yield done
                if not queue:
                    continue
                if not worker.process.is_alive():
                    worker = _Worker(work, threads)
                    workers.append(worker)
                worker.give(*queue.pop(0))
                busy[worker.end] = worker
    finally:
        for worker in workers:
            worker.stop()


def _serve(end: Connection, work: Work, threads: int) -> None:
    """The life of a worker."""
    import torch

    torch.set_num_threads(threads)
    while True:
        try:
            arguments = end.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            answer: tuple[Any, str | None] = (work(*arguments), None)
        except KeyboardInterrupt:
            return
        except LRGIError as error:
            answer = (None, str(error))
        except Exception as error:  # of a library: the other tasks shall go on, and the reason be told
            answer = (None, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        end.send(answer)
