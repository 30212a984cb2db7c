"""The graph directory: what is written is what is opened, and damage has a sentence."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from lrgi.directory import write_sealed
from lrgi.errors import FormatError, InputError
from lrgi.graph.arrays import create_array, describe_array, open_array, verify_array, write_array
from lrgi.graph.graph import Graph
from lrgi.graph.store import open_graph, save_graph, verify_graph

EDGES = np.array([[0, 1, 3], [1, 2, 4]])
X = np.arange(15, dtype=np.float32).reshape(5, 3)
GRAPHS = {
    "plain": Graph.from_edges(EDGES, X, name="a name, é"),
    "classes": Graph.from_edges(EDGES, X, labels=[0, 1, -1, 1, 0], split=[1, 1, 2, 3, 0]),
    "many labels": Graph.from_edges(EDGES, X, labels=np.eye(5, 2, dtype=np.uint8)),
    "text ids": Graph.from_edges(EDGES, X, ids=["a", "bb", "ü", "", "e"]),
    "big-endian ids": Graph.from_edges(EDGES, X, ids=np.array(list("abcde"), dtype=">U3")),
    "number ids": Graph.from_edges(EDGES, X, ids=[9, 8, 7, 6, 5]),
    "many graphs": Graph.from_edges(EDGES, X, offsets=[0, 3, 5]),
    "sparse": Graph.from_edges(EDGES, scipy.sparse.csr_matrix(X)),
    "sparse, all zero": Graph.from_edges(EDGES, scipy.sparse.csr_matrix((5, 3))),
}


def mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def table_arrays(table):
    return [table.array] if hasattr(table, "array") else [table.indptr, table.indices, table.data]


def assert_equal(one, two):
    assert one.name == two.name
    assert type(one.features) is type(two.features)
    assert one.features.shape == two.features.shape
    names = ("indptr", "indices", "labels", "split", "ids", "offsets")
    pairs = [(getattr(one, name), getattr(two, name)) for name in names]
    pairs += zip(table_arrays(one.features), table_arrays(two.features), strict=True)
    for left, right in pairs:
        assert (left is None) == (right is None)
        if left is not None:
            assert left.dtype.newbyteorder("=") == right.dtype.newbyteorder("=")
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
def test_what_is_saved_is_opened_mapped(graph, tmp_path):
    save_graph(graph, tmp_path / "deep" / "g")
    opened = open_graph(tmp_path / "deep" / "g")
    assert_equal(graph, opened)
    for array in [opened.indptr, opened.indices, opened.offsets, *table_arrays(opened.features)]:
        assert array.size == 0 or mapped(array)
        assert not array.flags.writeable
    verify_graph(tmp_path / "deep" / "g")
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["g"]  # nothing is left beside it


def test_opening_a_table_larger_than_memory_takes_milliseconds(tmp_path):
    save_graph(GRAPHS["plain"], tmp_path / "g")
    nodes, width = 2_000_000, 2500  # 20 GB of features, as a hole in the file
    indptr = np.full(nodes + 1, 2, dtype=np.int64)
    indptr[:2] = 0, 1
    entries = {"indptr": write_array(tmp_path / "g/indptr.npy", indptr)}
    entries["indices"] = write_array(tmp_path / "g/indices.npy", np.array([1, 0], dtype=np.int32))
    entries["offsets"] = write_array(tmp_path / "g/offsets.npy", np.array([0, nodes]))
    try:
        place = {"mode": "w+", "dtype": np.float32, "shape": (nodes, width)}
        table = np.lib.format.open_memmap(tmp_path / "g/features.npy", **place)
    except OSError as error:
        pytest.skip(f"no room for a 20 GB file with a hole here: {error}")
    table[-1] = 7
    del table
    manifest = json.loads((tmp_path / "g/manifest.json").read_text())
    size = (tmp_path / "g/features.npy").stat().st_size
    manifest["arrays"]["features"].update(shape=[nodes, width], bytes=size)
    manifest["arrays"].update({key: entry.to_json() for key, entry in entries.items()})
    manifest.update(nodes=nodes, edges=2)
    write_sealed(tmp_path / "g/manifest.json", manifest)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        graph = open_graph(tmp_path / "g")
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1
    assert size > 2e10
    np.testing.assert_array_equal(graph.features.rows([nodes - 1]), np.full((1, width), 7))


def test_arrays_filled_a_few_rows_at_a_time_are_described_after(tmp_path):
    out = create_array(tmp_path / "t.npy", (6, 2), np.float32)
    for start in range(0, 6, 2):
        out[start : start + 2] = start
    del out
    entry = describe_array(tmp_path / "t.npy")
    assert entry == write_array(tmp_path / "t.npy", np.repeat(np.float32([[0], [2], [4]]), 2, 0).repeat(2, 1))
    verify_array(tmp_path, entry)
    assert open_array(tmp_path, entry).shape == (6, 2)


def test_a_place_that_holds_something_is_kept(tmp_path):
    graph = GRAPHS["plain"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(
            InputError, match=r"must be free, got .*thesis, which holds something else; choose"
        ):
            save_graph(graph, tmp_path / "thesis", overwrite=overwrite)
    assert (tmp_path / "thesis" / "text").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    save_graph(graph, tmp_path / "empty")
    with pytest.raises(InputError, match=r"must be free, got .*empty, which holds a graph; .* overwrite it"):
        save_graph(graph, tmp_path / "empty")
    opened = open_graph(tmp_path / "empty")
    save_graph(GRAPHS["sparse"], tmp_path / "empty", overwrite=True)
    assert_equal(open_graph(tmp_path / "empty"), GRAPHS["sparse"])
    assert_equal(opened, graph)  # what was mapped before stays readable
    save_graph(open_graph(tmp_path / "empty"), tmp_path / "empty", overwrite=True)  # onto itself
    verify_graph(tmp_path / "empty")


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    save_graph(GRAPHS["plain"], tmp_path / "g")

    def full_disk(path, array):
        raise OSError("No space left on device")

    monkeypatch.setattr("lrgi.graph.store.write_array", full_disk)
    for name in ("g", "fresh"):
        with pytest.raises(OSError, match="No space left"):
            save_graph(GRAPHS["sparse"], tmp_path / name, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["g"]
    assert_equal(open_graph(tmp_path / "g"), GRAPHS["plain"])


def test_an_interrupt_between_the_renames_puts_the_old_graph_back(tmp_path, monkeypatch):
    save_graph(GRAPHS["plain"], tmp_path / "g")
    rename = Path.rename

    def interrupted(path, target):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr("lrgi.directory._swap", lambda one, other: False)  # a system that cannot
    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_graph(GRAPHS["sparse"], tmp_path / "g", overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["g"]
    assert_equal(open_graph(tmp_path / "g"), GRAPHS["plain"])


def test_a_changed_manifest_is_not_believed(tmp_path):
    save_graph(GRAPHS["plain"], tmp_path / "g")
    path = tmp_path / "g/manifest.json"
    path.write_text(path.read_text().replace("a name", "b name"))
    with pytest.raises(
        FormatError, match=r"manifest.json must be as lrgi wrote it, got a file that was changed"
    ):
        open_graph(tmp_path / "g")


def cut(path):
    path.write_bytes(path.read_bytes()[:-4])


def edit(change):
    def apply(directory):
        manifest = json.loads((directory / "manifest.json").read_text())
        change(manifest)
        write_sealed(directory / "manifest.json", manifest)

    return apply


def array_edit(key, **values):
    return edit(lambda manifest: manifest["arrays"][key].update(values))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda d: cut(d / "features.npy"), "features.npy must have 188 bytes, got 184; it is truncated"),
        (lambda d: (d / "indices.npy").unlink(), "indices.npy must exist, got no such file; write"),
        (lambda d: (d / "manifest.json").unlink(), "must hold a manifest.json of format 'lrgi-graph', got"),
        (lambda d: (d / "manifest.json").write_text("{"), "which is something else; make one with"),
        (edit(lambda m: m.update(format="lrgi-run")), "which is something else; make one with"),
        (edit(lambda m: m.update(version=2)), "version must be at most 1, got 2 in .*; upgrade lrgi to open"),
        (edit(lambda m: m.update(version="1")), "must be a whole number from 1, got '1' in .*; write"),
        (edit(lambda m: m.update(nodes=6)), "must be whole, got 6 nodes in the manifest and 5 in the arrays"),
        (edit(lambda m: m.pop("arrays")), "manifest must list its arrays, got None; write"),
        (edit(lambda m: m["arrays"].pop("indptr")), "must be whole, got no 'indptr'; write"),
        (edit(lambda m: m["arrays"]["indptr"].pop("bytes")), "array indptr must name file, dtype, shape, "),
        (edit(lambda m: m["features"].update(kind="odd")), "features must be described as dense or sparse"),
        (array_edit("indptr", file="../indptr.npy"), r"inside its directory, got '\.\./indptr\.npy'; do not"),
        (array_edit("indptr", file=".."), r"name a file inside its directory, got '\.\.'"),
        (array_edit("indptr", file="/etc/passwd"), "name a file inside its directory, got '/etc/passwd'"),
        (array_edit("features", dtype="<f8"), "array features must have type <f4, got <f8; convert"),
        (array_edit("features", shape=[3, 5]), r"must hold <f4 \[3, 5\], got <f4 \[5, 3\]; write"),
        (array_edit("features", file="manifest.json"), "manifest.json must have 188 bytes, got "),
        (lambda d: (d / "features.npy").write_bytes(b"x" * 188), "must be a .npy file, got something else"),
    ],
)
def test_sentences_on_opening(damage, sentence, tmp_path):
    save_graph(GRAPHS["plain"], tmp_path / "g")
    damage(tmp_path / "g")
    with pytest.raises(FormatError, match=sentence):
        open_graph(tmp_path / "g")


def test_a_directory_that_is_not_there_has_a_sentence(tmp_path):
    with pytest.raises(
        FormatError, match=r"a graph directory must exist, got .*nowhere, which does not; check"
    ):
        open_graph(tmp_path / "nowhere")


def test_arrays_that_disagree_have_a_sentence(tmp_path):
    save_graph(GRAPHS["plain"], tmp_path / "g")
    entry = write_array(tmp_path / "g/features.npy", X[:4])
    array_edit("features", **entry.to_json())(tmp_path / "g")
    with pytest.raises(FormatError, match=r"must be whole, got this: features must have one row per node"):
        open_graph(tmp_path / "g")


def test_verifying_reads_every_byte_and_every_rule(tmp_path):
    save_graph(GRAPHS["plain"], tmp_path / "g")
    path = tmp_path / "g/features.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    open_graph(tmp_path / "g")
    with pytest.raises(
        FormatError, match=r"must have checksum blake2b-128:.*, got blake2b-128:.*; it was chan"
    ):
        verify_graph(tmp_path / "g")
    bad = X.copy()
    bad[2, 2] = np.nan
    array_edit("features", **write_array(path, bad).to_json())(tmp_path / "g")
    with pytest.raises(
        FormatError, match="must be whole, got this: features must be finite, got nan in row 2"
    ):
        verify_graph(tmp_path / "g")


def test_python_objects_are_never_written(tmp_path):
    with pytest.raises(FormatError, match="must not hold Python objects, got object; use numbers or text"):
        write_array(tmp_path / "a.npy", np.array([{}]))
