"""The world of processes that fit one encoder together, and the few things they send each other.

A fit needs sums (a batch's covariances, gradients), process 0's word (weights, positions), rows of a table
that another process has, and a halt between layers. `torch.distributed` carries them: gloo between CPUs,
nccl between GPUs. One process is a world too, in which nothing is sent and nothing costs anything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from lrgi.distributed.meeting import fresh_part
from lrgi.errors import WorldError

TIMEOUT_SECONDS = 60.0  # of silence, after which a process gives the others up

_REFUSED = "refused"


class World:
    """One process alone, and what all worlds can do."""

    rank, size = 0, 1
    sent = 0  # bytes that this process has handed to the network so far
    waited = 0.0  # seconds that it spent at that, and waiting for the others

    @property
    def alone(self) -> bool:
        """Whether there is nobody else."""
        return self.size == 1

    def add_up(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all processes, to the same bits everywhere; one message."""

    def add_gradients(self, gradients: Sequence[Tensor], exact: Tensor, *, narrow: bool) -> None:
        """As `add_up`; `narrow` rounds gradients to bf16 on the way, `exact` is never rounded."""

    def repeat(self, *tensors: Tensor, source: int = 0) -> None:
        """Replace each tensor by what process `source` has there."""

    def exchange(self, rows: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
        """Send rows[r] [n, D] to process r, and get counts[r] rows from each."""
        return list(rows)

    def wait(self) -> None:
        """Until all are here."""

    def told(self, text: str) -> str:
        """What process 0 says, in all processes."""
        if self.alone:
            return text
        said = torch.tensor(list(text.encode()), dtype=torch.uint8)
        length = torch.tensor([len(said)])
        self.repeat(length)
        heard = said if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
        self.repeat(heard)
        return heard.numpy().tobytes().decode()

    def led(self, begin: Callable[[], str]) -> str:
        """What `begin` returns in process 0, in all processes; where it raises, WorldError in the others."""
        if self.rank == 0:
            try:
                said = begin()
            except BaseException:
                self.told(_REFUSED)
                raise
            return self.told(f" {said}")[1:]
        if (heard := self.told("")) == _REFUSED:
            raise refusal()
        return heard[1:]


class ProcessGroup(World):
    """The processes of torch's default group."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def add_up(self, *tensors: Tensor) -> None:
        """By a ring, so 2 (P - 1) / P of the bytes leave each process."""
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        self.sent += 2 * (self.size - 1) * flat.nbytes // self.size
        with self._counted():
            dist.all_reduce(flat)
        _spread(flat, tensors)

    def add_gradients(self, gradients: Sequence[Tensor], exact: Tensor, *, narrow: bool) -> None:
        """One message, or one of half the size and a tiny one."""
        if not narrow:
            return self.add_up(*gradients, exact)
        rounded = torch.cat([gradient.reshape(-1).bfloat16() for gradient in gradients])
        self.add_up(rounded)
        self.add_up(exact)
        _spread(rounded, gradients)

    def repeat(self, *tensors: Tensor, source: int = 0) -> None:
        """The source sends, the others hand on, along a binomial tree."""
        first = tensors[0].detach()
        whole = len(tensors) == 1 and first.is_contiguous()
        flat = first if whole else torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        self.sent += flat.nbytes * _children((self.rank - source) % self.size, self.size)
        with self._counted():
            dist.broadcast(flat, source)
        if not whole:
            _spread(flat, tensors)

    def exchange(self, rows: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
        """All to all, each pair in turn."""
        own, width = rows[self.rank], rows[self.rank].shape[1:]
        got = [own.new_empty(count, *width) for count in counts]
        got[self.rank] = own
        with self._counted():
            for distance in range(1, self.size):  # everyone has one partner to send to and one to hear
                to, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
                pending = [dist.isend(rows[to].contiguous(), to)] if len(rows[to]) else []
                pending += [dist.irecv(got[source], source)] if counts[source] else []
                for one in pending:
                    one.wait()  # type: ignore[union-attr]
                self.sent += rows[to].nbytes
        return got

    def wait(self) -> None:
        """A sum of nothing."""
        with self._counted():
            dist.barrier()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        begun = time.perf_counter()
        with _one_sentence():
            yield
        self.waited += time.perf_counter() - begun


def refusal() -> WorldError:
    """For the others, where process 0 does not begin."""
    return WorldError("process 0 must begin, got a refusal; see what it says")


ALONE = World()
_present: World = ALONE


def present() -> World:
    """The world that this process is in."""
    return _present


@contextmanager
def joined(*, timeout: float = TIMEOUT_SECONDS, device: str = "cpu") -> Iterator[World]:
    """Within it, this process is one of those that its launcher (torchrun, say) started.

    The launcher's environment says how many there are and where they meet. WorldError where they do not,
    or where one falls silent for `timeout` seconds.
    """
    global _present
    backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    with _one_sentence():
        patience = timedelta(seconds=timeout)
        store, rank, size = next(rendezvous("env://", timeout=patience))
        store = fresh_part(store, rank, size, timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=patience)
    before, _present = _present, ProcessGroup()
    try:
        yield _present
    finally:
        _present = before
        dist.destroy_process_group()


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError) as error:  # torch has no narrower name for a peer that is gone
        raise WorldError(
            f"the processes of a fit must all be within reach, got {_gist(error)!r}; "
            "start the same command again, and it goes on from the last snapshot"
        ) from error


def _gist(error: Exception) -> str:
    """What torch says, without its source files and its advice."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return re.sub(r"^\[[^\]]*/[^\]]*\] *|\. This is typically.*", "", first)


def _children(rank: int, size: int) -> int:
    """Of a process in the binomial tree by which gloo hands on what process 0 says."""
    steps = [1 << i for i in range((size - 1).bit_length())]
    return sum(rank % (2 * step) == 0 and rank + step < size for step in steps)


def _spread(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    at = 0
    for tensor in tensors:
        tensor.detach().copy_(flat[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()
