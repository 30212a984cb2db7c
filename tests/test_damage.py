"""Damaged bytes in every file of every kind of directory, a few of each; `make torture` is the long form."""

import pytest

from reference.damage import Museum, exhibit


@pytest.fixture(scope="module")
def museum(tmp_path_factory):
    return Museum(tmp_path_factory.mktemp("museum"))


def test_verify_names_every_damaged_file_and_no_command_believes_it(museum):
    found = exhibit(museum, 1, every=2)
    assert set(found) == {"graph", "tables", "run", "npy", "parquet", "word2vec", "unfinished"}
    assert all(count["damages"] >= 2 * count["files"] > 0 for count in found.values())
