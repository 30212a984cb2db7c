"""The lanes: every task once, borders from the problem alone, failures heard, torch's setting put back."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lrgi.compute.threads import MOST_TASKS, ahead, lanes, row_tasks, run_ranges, run_tasks, weighted_tasks


def assert_covers(ranges, total):
    assert [i for a, b in ranges for i in range(a, b)] == list(range(total))
    assert all(first[1] == second[0] for first, second in pairwise(ranges))
    assert 0 <= len(ranges) <= MOST_TASKS


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("tasks", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("inside", [False, True])
def test_every_task_runs_once(threads, tasks, inside, restore_threads):
    torch.set_num_threads(threads)
    done = []
    if inside:
        with lanes():
            run_tasks(done.append, tasks)
    else:
        run_tasks(done.append, tasks)
    assert sorted(done) == list(range(tasks))


@pytest.mark.parametrize("inside", [False, True])
def test_tasks_are_really_spread(inside, restore_threads):
    """Two tasks that wait for each other end only if they run at the same time."""
    torch.set_num_threads(2)
    meeting = threading.Barrier(2, timeout=20)
    if inside:
        with lanes() as width:
            assert width == 2
            run_tasks(lambda i: meeting.wait() and None, 2)
    else:
        run_tasks(lambda i: meeting.wait() and None, 2)
    assert not meeting.broken


def test_lanes_leave_torch_one_thread_each_and_put_its_setting_back(restore_threads):
    seen: list[int] = []
    for threads in (3, 2):
        torch.set_num_threads(threads)
        seen.clear()
        with lanes() as outer, lanes() as inner:
            assert (outer, inner) == (threads, threads), "nested lanes are as wide as the outer ones"
            assert torch.get_num_threads() == 1
            run_tasks(lambda i: seen.append(torch.get_num_threads()), 8)
        assert seen == [1] * 8
        assert torch.get_num_threads() == threads
        with pytest.raises(KeyError), lanes():
            raise KeyError
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("tasks", [1, 2])
def test_every_task_has_one_torch_thread_alone_or_not(tasks, restore_threads):
    """A single task stays on the calling thread; its sums must be those of a task on a lane."""
    torch.set_num_threads(3)
    seen = []
    run_tasks(lambda i: seen.append(torch.get_num_threads()), tasks)
    assert seen == [1] * tasks
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_a_lane_has_one_torch_thread_and_records_no_gradients(threads, restore_threads):
    """A thread begins with recording on; two lanes writing to one tensor would then fail now and then."""
    torch.set_num_threads(threads)
    meeting, seen = threading.Barrier(threads, timeout=20), []

    def task(i):
        meeting.wait()
        seen.append((torch.get_num_threads(), torch.is_grad_enabled()))

    run_tasks(task, threads)
    assert seen == [(1, False)] * threads
    assert torch.get_num_threads() == threads


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


@given(rows=st.integers(0, 10_000), least=st.integers(1, 3000))
@example(rows=0, least=256)
@example(rows=1, least=256)
def test_row_tasks_cover_all_rows_once(rows, least):
    ranges = row_tasks(rows, least)
    assert_covers(ranges, rows)
    sizes = [b - a for a, b in ranges]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(rows, least)


@pytest.mark.parametrize("total", [0, 1, 4, 1000])
def test_run_ranges_covers_everything_once(total, restore_threads):
    torch.set_num_threads(2)
    met = []
    run_ranges(lambda a, b: met.append((a, b)), total, 10)
    assert_covers(sorted(met), total)


degree_lists = st.lists(st.integers(0, 3) | st.integers(0, 10_000), max_size=60)


@given(degrees=degree_lists, zeros=st.integers(0, 9), base=st.integers(0, 999))
@example(degrees=[], zeros=0, base=0)
@example(degrees=[], zeros=9, base=5)  # nothing but nodes without edges
@example(degrees=[100], zeros=9, base=0)
@example(degrees=[0, 0, 5], zeros=3, base=0)
def test_weighted_tasks_cover_all_rows_once(degrees, zeros, base):
    cumulative = base + np.cumsum([0, *degrees, *[0] * zeros])
    assert_covers(weighted_tasks(cumulative), len(cumulative) - 1)


@pytest.mark.parametrize("base", [0, 10**12])
def test_weighted_tasks_are_about_equal(base):
    degrees = np.random.default_rng(0).integers(0, 20, 10_000)
    cumulative = base + np.cumsum([0, *degrees])
    weights = [cumulative[b] - cumulative[a] + b - a for a, b in weighted_tasks(cumulative)]
    assert len(weights) == MOST_TASKS
    assert max(weights) - min(weights) <= 2 * 21


def test_rows_without_edges_are_spread_too():
    sizes = [b - a for a, b in weighted_tasks(np.zeros(8001, np.int64))]
    assert sizes == [1000] * MOST_TASKS


def test_borders_do_not_depend_on_the_number_of_threads(restore_threads):
    borders = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        borders.append((row_tasks(9999), weighted_tasks(np.arange(0, 500, 7))))
    assert borders[0] == borders[1] == borders[2]


@pytest.mark.parametrize("threads", [1, 2])
def test_ahead_gives_the_same_items_and_raises_in_its_place(restore_threads, threads):
    torch.set_num_threads(threads)

    def numbers():
        yield from range(5)
        raise ValueError("five")

    with lanes():
        seen = []
        with pytest.raises(ValueError, match="five"):
            for number in ahead(numbers()):
                seen.append(number)
        assert seen == list(range(5))
        stopped = ahead(iter(range(100)))
        assert [next(stopped), next(stopped)] == [0, 1]
        stopped.close()
        assert list(ahead(iter([]))) == []
