"""Whatever stands in a file, its reader reads it or refuses with a sentence; `make fuzz` is the long form."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.readers import READERS, mutate_bytes, refused

SLOW = ("CSV", "JSON lines", "Parquet")  # through DuckDB
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.binary(max_size=9)), min_size=1, max_size=4)


@pytest.fixture(scope="module", params=READERS)
def reader(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    made = READERS[request.param]
    return request.param, made, folder, made.prepare(folder)


def test_what_is_written_is_read(reader):
    name, made, folder, seeds = reader
    verdicts = [refused(made, data, folder) for data in seeds]
    assert verdicts == [name == "embedding manifest" and at == 2 for at in range(len(seeds))]  # word2vec


def test_any_change_of_bytes(reader):
    name, made, folder, seeds = reader

    @settings(max_examples=4 if name in SLOW else 30)
    @given(st.sampled_from(seeds), EDITS)
    def holds(data, edits):
        for at, drop, new in edits:
            place = int(at * len(data))
            data = data[:place] + new + data[place + drop :]
        refused(made, data, folder)

    holds()


def test_strange_things_in_the_right_form(reader):
    name, made, folder, seeds = reader
    mutate = made.mutate or mutate_bytes

    @settings(max_examples=4 if name in SLOW else 40)
    @given(st.sampled_from(seeds), st.integers(0, 2**32))
    def holds(data, number):
        refused(made, mutate(data, random.Random(number)), folder)

    holds()
