"""What all tests share: the slow twins of tests/reference, and threads that are put back."""

import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # `from reference import ...` in any test

# The same examples in every run: a failure is never a matter of luck.
hypothesis.settings.register_profile("lrgi", deadline=None, derandomize=True, max_examples=30, database=None)
hypothesis.settings.load_profile("lrgi")


@pytest.fixture
def restore_threads() -> Iterator[None]:
    """Lets a test call `torch.set_num_threads`."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
