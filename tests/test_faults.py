"""Disks that fail and clocks that jump, a few of each; `make torture` is the long form."""

import pytest

from reference.faults import Workshop, inject, jump, read_only, small_disks

COMMANDS = ("import", "import tables", "fit", "grow", "embed parquet")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("shop"), COMMANDS)


def test_nothing_is_lost_on_a_disk_that_fails(shop, tmp_path):
    found = inject(shop, tmp_path, each=1)
    assert found["injected"] == 3 * len(COMMANDS)
    assert found["noticed"] > 0.8 * found["injected"]  # a failed farewell may go unnoticed, and harms nothing


def test_clocks_that_jump_change_nothing(shop, tmp_path):
    assert jump(shop, tmp_path / "jump") == len(COMMANDS)


def test_a_disk_that_is_really_full(shop, tmp_path):
    tried = small_disks(shop, tmp_path / "small", 2)
    if not tried:
        pytest.skip("this process may not mount a small disk")
    assert sum(tried.values()) >= len(COMMANDS)


def test_a_folder_that_is_really_read_only(shop, tmp_path):
    if read_only(shop, tmp_path / "closed") is None:
        pytest.skip("this process may not mount a read-only folder")
