"""SIGKILL at random moments, again and again: the result has the bits of a run that nobody touched.

The long form, 50 kills with each number of threads, is `make torture`.
"""

import pytest

from reference.killing import Torture, victim


@pytest.fixture(scope="module")
def torture(tmp_path_factory):
    with victim() as process:
        yield Torture(process, tmp_path_factory.mktemp("kills"), 0, grow=False, kinds=("npy",))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_bits(torture, threads):
    before = torture.kills.total()
    torture.survive(4, threads)
    assert torture.kills.total() == before + 4
