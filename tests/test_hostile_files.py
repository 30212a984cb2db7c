"""Files made to do harm: no code runs, nothing outside the named folder is written, no memory is taken."""

import json
import struct
import tracemalloc

import numpy as np
import pytest

from lrgi.directory import checksum, write_sealed
from lrgi.encoder import CONFIG, WEIGHTS, Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.store import attributes_of, open_graph, save_graph, verify_graph
from lrgi.interop.export import ExportPlan, export_embedding
from lrgi.interop.npz import read_npz
from lrgi.interop.tables.read import import_tables
from lrgi.layers.make import make_layer
from lrgi.outputs import verify_embedding
from lrgi.training.checkpoint import STATE, read_tensors, snapshots, write_tensors
from lrgi.training.run import RECORD, fit_run
from lrgi.training.verify import problems_of_run
from reference.kills import GRAPH, OFTEN, PLAN, Dies, Killed


class Harm:
    """What unpickling it would do."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.fixture
def harmful(tmp_path):
    return np.array([Harm(tmp_path / "harmed")] * 240, dtype=object)


@pytest.mark.parametrize("key", ["x", "y", "edge_index", "something"])
def test_objects_in_an_npz_are_never_unpickled(tmp_path, harmful, key):
    arrays = {"edge_index": np.array([[0], [1]]), "x": np.ones((2, 2), np.float32), key: harmful}
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(FormatError, match=f"must be plain numbers or text, got '{key}', which"):
        read_npz(tmp_path / "g.npz")
    assert not (tmp_path / "harmed").exists()


def edited(path, change):
    manifest = json.loads(path.read_text())
    change(manifest)
    write_sealed(path, manifest)


@pytest.mark.parametrize("dtype", ["|O", "<f4"])
def test_objects_in_a_graph_directory_are_never_unpickled(tmp_path, harmful, dtype):
    save_graph(GRAPH, tmp_path / "g")
    file = tmp_path / "g" / "features.npy"
    np.save(file, harmful, allow_pickle=True)
    told = {"dtype": dtype, "bytes": file.stat().st_size, "checksum": checksum(file)}
    edited(tmp_path / "g" / "manifest.json", lambda m: m["arrays"]["features"].update(told))
    with pytest.raises(FormatError, match=r"array features must have type|must be a \.npy file, got"):
        open_graph(tmp_path / "g")
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("name", ["../out.npy", "/etc/passwd", "..", "a/b", "C:x", "a\0b", "x" * 300])
def test_names_that_lead_out_of_a_folder(tmp_path, name):
    save_graph(GRAPH, tmp_path / "g")
    manifest = tmp_path / "g" / "manifest.json"
    edited(manifest, lambda m: m.update(attributes={"file": name, "bytes": 1, "checksum": "c"}))
    with pytest.raises(FormatError, match="attributes must name a file inside its directory, got"):
        attributes_of(tmp_path / "g")
    edited(manifest, lambda m: m["arrays"]["indptr"].update(file=name))
    with pytest.raises(FormatError, match="array indptr must name a file inside its directory, got"):
        verify_graph(tmp_path / "g")
    encoder = Encoder([make_layer("sage", GRAPH.num_features, 4)])
    export_embedding(encoder, GRAPH, tmp_path / "e", ExportPlan(kind="parquet"))
    edited(tmp_path / "e" / "manifest.json", lambda m: m["shards"][0].update(file=name))
    with pytest.raises(FormatError, match="a shard must name a file inside its directory, got"):
        verify_embedding(tmp_path / "e")


def test_a_record_that_names_files_elsewhere(tmp_path):
    fit_run(GRAPH, PLAN, tmp_path / "run")
    entry = {"bytes": 1, "checksum": "c"}
    edited(tmp_path / "run" / RECORD, lambda m: m["files"].update({"../mine.txt": entry}))
    assert any("must name files inside its directory, got '../mine.txt'" in p
               for p in problems_of_run(tmp_path / "run"))  # fmt: skip


def test_a_snapshot_that_names_files_elsewhere(tmp_path):
    """Its steps and events are those of the run, whatever it says."""
    with pytest.raises(Killed):
        fit_run(GRAPH, PLAN, tmp_path / "run", listeners=[Dies(1, 5)], resources=OFTEN)
    outside = tmp_path / "mine.txt"
    outside.write_text("dear diary")
    for _, path in snapshots(tmp_path / "run" / STATE):
        tensors, about = read_tensors(path)
        about["mark"]["events"]["file"] = "../mine.txt"
        stem = path.name.rsplit("-", 1)[0]
        path.unlink()
        write_tensors(path.parent, stem, tensors, {k: v for k, v in about.items() if k not in ("format",)})
    fit_run(GRAPH, PLAN, tmp_path / "run")
    assert outside.read_text() == "dear diary"


@pytest.mark.parametrize("claim", [2**60, 2**63 - 1, 2**64 - 1, 10**9])
def test_a_safetensors_header_that_claims_too_much(tmp_path, claim):
    encoder = Encoder([make_layer("sage", 3, 4)])
    encoder.save(tmp_path / "e")
    weights = tmp_path / "e" / WEIGHTS
    weights.write_bytes(struct.pack("<Q", claim) + weights.read_bytes()[8:])
    edited(tmp_path / "e" / CONFIG, lambda m: m.update(weights=checksum(weights)))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="must belong together, got"):
            Encoder.load(tmp_path / "e")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20  # a checksum reads 16 MiB at a time
    finally:
        tracemalloc.stop()


def test_a_config_that_claims_too_much(tmp_path):
    """No memory is taken for weights that are not there."""
    Encoder([make_layer("sage", 3, 4)]).save(tmp_path / "e")
    edited(tmp_path / "e" / CONFIG, lambda m: m["layers"][0].update(in_dim=2**30, out_dim=2**30))
    with pytest.raises(FormatError, match=r"layer 1 has weights of other shapes"):
        Encoder.load(tmp_path / "e")


def test_a_line_of_a_gigabyte(tmp_path):
    """A file with a hole: it takes no room here, and a gigabyte to whoever believes it."""
    with (tmp_path / "e.csv").open("wb") as file:
        file.write(b"src,dst\n0,1\n")
        file.truncate(1 << 30)
    with pytest.raises(InputError, match=r" must .*, got .*; "):
        import_tables(str(tmp_path / "e.csv"), tmp_path / "g")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv"]


@pytest.mark.parametrize("name", ["steps.jsonl.part", ".run.json.part", f"{STATE}/tables", "encoder"])
def test_links_out_of_a_run_directory_are_not_written_through(tmp_path, name):
    with pytest.raises(Killed):
        fit_run(GRAPH, PLAN, tmp_path / "run", listeners=[Dies(2, 5)], resources=OFTEN)
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "diary.txt").write_text("dear diary")
    place = tmp_path / "run" / name
    if place.is_dir():
        place.rename(tmp_path / "aside")
    place.unlink(missing_ok=True)
    place.symlink_to(outside if "." not in name else outside / "diary.txt")
    with pytest.raises(InputError, match=r"must hold files of its own, got .*, which is a link; remove it"):
        fit_run(GRAPH, PLAN, tmp_path / "run")
    assert [path.name for path in outside.iterdir()] == ["diary.txt"]
    assert (outside / "diary.txt").read_text() == "dear diary"


def test_links_out_of_an_export_are_not_written_through(tmp_path):
    (tmp_path / "e").mkdir()
    encoder = Encoder([make_layer("sage", GRAPH.num_features, 4)])
    export_embedding(encoder, GRAPH, tmp_path / "e", ExportPlan())
    (tmp_path / "diary.txt").write_text("dear diary")
    (tmp_path / "e" / ".embeddings.npy.part").symlink_to(tmp_path / "diary.txt")
    with pytest.raises(InputError, match="which is a link; remove it"):
        export_embedding(encoder, GRAPH, tmp_path / "e", ExportPlan(), overwrite=True)
    assert (tmp_path / "diary.txt").read_text() == "dear diary"
