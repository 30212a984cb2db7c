"""Small directories by the hundred are written here: nobody waits for the disk."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_the_disk():
    """What a crash of the machine leaves is not what these tests are about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
