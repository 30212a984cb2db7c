"""Processes that tests put together to worlds: started once, joined anew for every question."""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from reference.hosts import Hosts, move_to

PORT = 29_555


class Processes:
    """Up to `most` processes that wait for work. Functions must be importable: they live in this package.

    With `hosts`, each process lives on a host of its own.
    """

    def __init__(self, most: int, hosts: Hosts | None = None) -> None:
        self._context = multiprocessing.get_context("forkserver")
        # torch is imported once, and the processes are forks of the one that did
        self._context.set_forkserver_preload(["lrgi.training.run", "lrgi.graph.synthetic"])
        self._hosts, self._worlds = hosts, itertools.count()
        self.pipes: list[Any] = [None] * most
        self.workers: list[Any] = [None] * most
        for number in range(most):
            self.start(number)

    def start(self, number: int) -> None:
        """A new process in the place of one that is gone."""
        here, there = self._context.Pipe()
        home = None if self._hosts is None else self._hosts.name(number)
        worker = self._context.Process(target=_serve, args=(there, home), daemon=True)
        worker.start()
        there.close()
        self.pipes[number], self.workers[number] = here, worker

    def begin(
        self, size: int, task: Callable[..., Any], *args: Any, only: Sequence[int] = (), **joins: Any
    ) -> None:
        """Let the first `size` processes join as a world, and call `task(world, *args)` in each.

        With `alone=True` they are only told of each other, as a launcher tells them: the task joins. With
        `only`, the others of the world do not come.
        """
        address = "127.0.0.1" if self._hosts is None else self._hosts.address(0)
        port = free_port() if self._hosts is None else PORT + next(self._worlds)  # a closed one lingers
        for rank in only or range(size):
            self.pipes[rank].send((rank, size, address, port, joins, task, args))

    def answers(self, ranks: Sequence[int], timeout: float) -> list[tuple[bool, Any]]:
        """(whether it went well, its value or its traceback) of each, all within the time."""
        end, got = time.monotonic() + timeout, []
        for rank in ranks:
            if not self.pipes[rank].poll(max(0.0, end - time.monotonic())):
                raise TimeoutError(f"process {rank} was silent for {timeout} s")
            got.append(self.pipes[rank].recv())
        return got

    def run(self, size: int, task: Callable[..., Any], *args: Any, **joins: Any) -> list[Any]:
        """What `task(world, *args)` returns in every process of a world of that size, by rank."""
        self.begin(size, task, *args, **joins)
        answers = self.answers(range(size), 120)
        failed = [text for ok, text in answers if not ok]
        if failed:
            raise AssertionError("\n".join(failed))
        return [value for _, value in answers]

    def kill(self, number: int) -> None:
        self.workers[number].kill()
        self.workers[number].join()

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


def _serve(pipe: Any, home: str | None) -> None:
    import os

    import torch

    from lrgi.distributed.collectives import ALONE, joined

    if home is not None:
        move_to(home)
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    while True:
        try:
            rank, size, address, port, joins, task, args = pipe.recv()
        except (EOFError, OSError):
            return
        os.environ.update(MASTER_ADDR=address, MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
        try:
            if joins.pop("alone", size == 1):
                pipe.send((True, task(ALONE, *args)))
                continue
            with joined(**joins) as world:
                value = task(world, *args)
            pipe.send((True, value))
        except BaseException:
            pipe.send((False, f"process {rank} of {size}:\n{traceback.format_exc()}"))
