"""What this machine can do: matrix products, random rows, streams. Best of several tries each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from lrgi.compute.products import matmul, product_into
from lrgi.compute.threads import lanes, run_tasks
from lrgi.layers.rows import as_tensor

Shape = tuple[int, int, int]
Product = Callable[[Tensor, Tensor], object]


def best_seconds(work: Callable[[], object], tries: int = 7) -> float:
    """The quickest of several tries, after one to warm up."""
    work()
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def product_rates(shapes: Iterable[Shape], threads: int) -> dict[str, float]:
    """The best flops per second over the shapes (m, k, n): by oneDNN, as torch.mm (MKL on x86), by our tiles.

    Each is tried both ways: one product per lane at the same time, and one product cut by OpenMP.
    """
    rates = {"onednn": 0.0, "mkl": 0.0, "tiles": 0.0}
    for m, k, n in shapes:
        a = [torch.randn(m, k) for _ in range(threads)]
        b = [torch.randn(k, n) for _ in range(threads)]
        flops = 2 * m * k * n
        kinds = {"onednn": matmul, "mkl": torch.mm, "tiles": _by_tiles}
        for kind, product in kinds.items():
            rate = flops * _products_per_second(product, a, b, max(1, round(1e8 / flops)))
            rates[kind] = max(rates[kind], rate)
    return rates


def _by_tiles(a: Tensor, b: Tensor) -> None:
    product_into(torch.empty(len(a), b.shape[1]), a, b)


def _products_per_second(product: Product, a: list[Tensor], b: list[Tensor], repeats: int) -> float:
    def task(i: int) -> None:
        for _ in range(repeats):
            product(a[i], b[i])

    with lanes():
        together = best_seconds(lambda: run_tasks(task, len(a)))
    alone = best_seconds(lambda: task(0))
    return max(len(a) * repeats / together, repeats / alone)


def row_gather_rate(table: np.ndarray, rows: int, threads: int, seed: int) -> float:
    """Bytes per second of reading rows in random order, each lane its own; cold, as in a step."""
    random = np.random.default_rng(seed)
    values = as_tensor(table)
    out = torch.empty(threads, rows, table.shape[1])
    best = np.inf
    with lanes():
        for _ in range(8):
            ids = torch.from_numpy(random.integers(0, len(table), (threads, rows)))
            start = time.perf_counter()
            run_tasks(lambda i, ids=ids: torch.index_select(values, 0, ids[i], out=out[i]), threads)
            best = min(best, time.perf_counter() - start)
    return out.numel() * table.itemsize / best


def stream_rate(count: int, threads: int) -> float:
    """Bytes per second of out = a + b over arrays as long as a predictor's weights."""
    a, b, out = (torch.zeros(threads, count) for _ in range(3))
    with lanes():
        best = best_seconds(lambda: run_tasks(lambda i: torch.add(a[i], b[i], out=out[i]), threads), 20)
    return 3 * 4 * a.numel() / best
