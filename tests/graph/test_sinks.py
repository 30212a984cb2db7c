"""Tables in the making: files that stop anywhere and go on, damaged ones, and the memory form."""

import os

import numpy as np
import pytest

from lrgi.encoder import embed_layer
from lrgi.graph import sinks
from lrgi.graph.sinks import FileSink, MemorySink
from lrgi.training.fit import new_layer
from lrgi.training.plan import FitPlan
from lrgi.training.tables import TableStore, digest_of
from reference.tiny import SMALL_PLAN, tiny_graph

ROWS = np.arange(40, dtype=np.float32).reshape(10, 4)
RANGES = [(0, 3), (3, 6), (6, 7), (7, 10)]


@pytest.fixture(autouse=True)
def marks_at_once(monkeypatch):
    monkeypatch.setattr(sinks, "_MARK_SECONDS", 0.0)


def fill(sink, ranges, count=None):
    """Write the missing ranges, all or `count` of them; returns those."""
    made = list(sink.missing(ranges))[:count]
    for start, stop in made:
        sink.write(start, ROWS[start:stop])
    return made


def killed(sink):
    """What is left when its process is killed: no farewell."""
    sink._file.close()
    sink._log.close()


def on_disk(array):
    """Whether an array is a view of a mapped file."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def sink_at(path, of="a", mapped=False):
    return FileSink(path / "deep" / "U_1.npy", ROWS.shape, of, mapped=mapped)


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("stop", range(len(RANGES) + 1))
def test_a_table_goes_on_where_it_stopped(tmp_path, stop, mapped):
    first = sink_at(tmp_path, mapped=mapped)
    assert fill(first, RANGES, stop) == RANGES[:stop]
    killed(first)
    second = sink_at(tmp_path, mapped=mapped)
    assert fill(second, RANGES) == RANGES[stop:]
    table = second.table()
    np.testing.assert_array_equal(table.array, ROWS)
    assert on_disk(table.array) == mapped
    np.testing.assert_array_equal(np.load(second.path), ROWS)


def test_a_table_of_something_else_begins_anew(tmp_path):
    with sink_at(tmp_path) as first:
        fill(first, RANGES)
    with sink_at(tmp_path, of="b") as other:
        assert fill(other, RANGES) == RANGES


def test_every_byte_of_a_table_and_its_log_counts(tmp_path, monkeypatch):
    """Whatever byte is damaged, what is handed over in the end is right."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # a thousand times the disk
    whole = sink_at(tmp_path)
    fill(whole, RANGES)
    whole.close()
    remade = 0
    for path in (whole.path, whole.path.with_suffix(".log")):
        good = path.read_bytes()
        for at in range(len(good)):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            sink = sink_at(tmp_path)
            remade += len(fill(sink, RANGES))
            np.testing.assert_array_equal(sink.table().array, ROWS)
            np.testing.assert_array_equal(np.load(whole.path), ROWS)
        for at in range(len(good)):
            path.write_bytes(good[:at])
            sink = sink_at(tmp_path)
            fill(sink, RANGES)
            np.testing.assert_array_equal(sink.table().array, ROWS)
    assert remade > len(RANGES)


def test_what_was_not_marked_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "_MARK_SECONDS", 1e9)
    first = sink_at(tmp_path)
    assert fill(first, RANGES, 2) == RANGES[:2]
    killed(first)
    with sink_at(tmp_path) as second:
        assert list(second.missing(RANGES)) == RANGES


def test_a_full_disk_is_met_before_any_work(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        sink_at(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(sinks, "_MARK_SECONDS", 0.0)
    with sink_at(tmp_path) as sink:
        assert fill(sink, RANGES) == RANGES


def test_memory_takes_the_same_calls():
    sink = MemorySink(ROWS.shape)
    assert fill(sink, RANGES) == RANGES
    np.testing.assert_array_equal(sink.table().array, ROWS)


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_an_embedding_in_several_goes_has_the_same_bits(tmp_path, monkeypatch, stop):
    monkeypatch.setattr("lrgi.encoder.CHUNK_EDGES", 400)
    graph, plan = tiny_graph(), FitPlan(**SMALL_PLAN)
    layer = new_layer(plan, 1, graph.num_features)
    expected = embed_layer(layer, graph, graph.features).array
    store, shape = TableStore(tmp_path), (graph.num_nodes, layer.out_dim)

    class Killed(Exception):
        pass

    written = []

    class Dies(FileSink):
        def write(self, start, rows):
            if len(written) == stop:
                raise Killed
            written.append(start)
            super().write(start, rows)

    with pytest.raises(Killed):
        path = tmp_path / "U_1.npy"
        embed_layer(layer, graph, graph.features, Dies(path, shape, digest_of(layer), mapped=False))
    sink = store.sink(1, layer, shape)
    assert len(sink.done) == stop
    np.testing.assert_array_equal(embed_layer(layer, graph, graph.features, sink).array, expected)
    monkeypatch.setattr("lrgi.encoder._all_sources", None)  # all is there: nothing is computed
    again = embed_layer(layer, graph, graph.features, store.sink(1, layer, shape))
    np.testing.assert_array_equal(again.array, expected)
