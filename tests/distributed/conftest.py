"""One set of processes for all questions: starting torch takes seconds."""

from collections.abc import Iterator

import pytest

from reference.worlds import Processes


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    started = Processes(4)
    yield started
    started.stop()
