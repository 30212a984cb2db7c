"""Processes that tests put together to worlds: started once, joined anew for every question."""

from __future__ import annotations

import multiprocessing
import socket
import traceback
from collections.abc import Callable
from typing import Any


class Processes:
    """Up to `most` processes that wait for work. Functions must be importable: they live in this package."""

    def __init__(self, most: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(
            ["lrgi.training.run", "lrgi.graph.synthetic"]
        )  # torch is imported once
        self.pipes, self.workers = [], []
        for _ in range(most):
            here, there = context.Pipe()
            worker = context.Process(target=_serve, args=(there,), daemon=True)
            worker.start()
            there.close()
            self.pipes.append(here)
            self.workers.append(worker)

    def run(
        self, size: int, task: Callable[..., Any], *args: Any, timeout: float = 120, **joins: Any
    ) -> list[Any]:
        """What `task(world, *args)` returns in every process of a world of that size, by rank."""
        port = free_port()
        for rank, pipe in enumerate(self.pipes[:size]):
            pipe.send((rank, size, port, joins, task, args))
        answers = []
        for rank, pipe in enumerate(self.pipes[:size]):
            if not pipe.poll(timeout):
                raise TimeoutError(f"process {rank} of {size} was silent for {timeout} s")
            answers.append(pipe.recv())
        failed = [text for ok, text in answers if not ok]
        if failed:
            raise AssertionError("\n".join(failed))
        return [value for _, value in answers]

    def stop(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for worker in self.workers:
            worker.join(5)
            worker.kill()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _serve(pipe: Any) -> None:
    import os

    import torch

    from lrgi.distributed.collectives import ALONE, joined

    torch.set_num_threads(1)
    while True:
        try:
            rank, size, port, joins, task, args = pipe.recv()
        except (EOFError, OSError):
            return
        os.environ.update(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
        )
        try:
            if size == 1:
                pipe.send((True, task(ALONE, *args)))
                continue
            with joined(**joins) as world:
                value = task(world, *args)
            pipe.send((True, value))
        except BaseException:
            pipe.send((False, f"process {rank} of {size}:\n{traceback.format_exc()}"))
