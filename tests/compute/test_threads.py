"""The pool: every task once, borders from the problem alone, failures heard."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lrgi.compute.threads import run_ranges, run_tasks, weighted_ranges


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_every_task_runs_once(threads, count, restore_threads):
    torch.set_num_threads(threads)
    done = []
    run_tasks(done.append, count)
    assert sorted(done) == list(range(count))


def test_tasks_are_really_spread(restore_threads):
    """Two tasks that wait for each other end only if they run at the same time."""
    torch.set_num_threads(2)
    meeting = threading.Barrier(2, timeout=20)
    run_tasks(lambda i: meeting.wait() and None, 2)
    assert not meeting.broken


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bad", [0, 1, 5])
def test_a_failure_in_any_task_is_raised(threads, bad, restore_threads):
    torch.set_num_threads(threads)

    def task(i):
        if i == bad:
            raise ZeroDivisionError(f"task {i}")

    with pytest.raises(ZeroDivisionError, match=f"task {bad}"):
        run_tasks(task, 6)
    done = []
    run_tasks(done.append, 4)  # and the pool lives on
    assert sorted(done) == [0, 1, 2, 3]


@pytest.mark.parametrize(("total", "size"), [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 7)])
def test_ranges_cover_everything_once(total, size, restore_threads):
    torch.set_num_threads(2)
    met = []
    run_ranges(lambda a, b: met.append((a, b)), total, size)
    met = [(a, b) for a, b in sorted(met) if b > a]
    assert all(b - a <= size for a, b in met)
    assert [i for a, b in met for i in range(a, b)] == list(range(total))


degree_lists = st.lists(st.integers(0, 3) | st.integers(0, 10_000), max_size=60)


@given(degrees=degree_lists, zeros=st.integers(0, 9), parts=st.integers(1, 12), base=st.integers(0, 999))
@example(degrees=[], zeros=0, parts=8, base=0)
@example(degrees=[], zeros=9, parts=8, base=5)  # nothing but nodes without edges
@example(degrees=[100], zeros=9, parts=8, base=0)
@example(degrees=[0, 0, 5], zeros=3, parts=8, base=0)
def test_weighted_ranges_cover_all_rows_once(degrees, zeros, parts, base):
    cumulative = base + np.cumsum([0, *degrees, *[0] * zeros])
    ranges = weighted_ranges(cumulative, parts)
    assert len(ranges) <= parts
    assert [r for a, b in ranges for r in range(a, b)] == list(range(len(cumulative) - 1))
    assert all(first[1] == second[0] for first, second in pairwise(ranges))


def test_weighted_ranges_are_about_equal():
    cumulative = np.cumsum([0, *np.random.default_rng(0).integers(0, 20, 10_000)])
    weights = [cumulative[b] - cumulative[a] for a, b in weighted_ranges(cumulative, 8)]
    assert len(weights) == 8
    assert max(weights) - min(weights) <= 2 * 20
