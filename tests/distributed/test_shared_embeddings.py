"""`lrgi embed` by several processes: the same files as by one, whoever makes a shard, and after a death."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from lrgi.graph.graph import Graph
from lrgi.graph.partition import save_partition
from lrgi.graph.store import open_graph, save_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.metis import owners_by_metis
from reference import shared_fits
from reference.worlds import Processes

FIT = ["--layers", "2", "--width", "16", "--batch-size", "64", "--updates", "10", "--no-probe", "--quiet"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> Path:
    """A folder with `graph`, which has ids, the same in two `parts`, and `run`, fitted on it."""
    folder = tmp_path_factory.mktemp("embeddings")
    drawn = planted_communities(nodes=500, edges=4_000, features=24, seed=1)
    ids = np.array([f"n{i:03d}" for i in range(500)])
    graph = Graph.trusted(drawn.indptr, drawn.indices, drawn.features, ids=ids, name="named")
    save_graph(graph, folder / "graph")
    save_partition(graph, owners_by_metis(graph, 2), folder / "parts")
    words = ["fit", str(folder / "graph"), "--out", str(folder / "run"), *FIT]
    assert processes.run(1, shared_fits.command, words, None, alone=True) == [(0, "")]
    return folder


def embed(processes: Processes, size: int, place: Path, out: str, *more: str, of: str = "graph") -> Path:
    words = ["embed", str(place / "run"), str(place / of), "--out", str(place / out), "--quiet", *more]
    assert processes.run(size, shared_fits.command, words, None, alone=True) == [(0, "")] * size
    return place / out


def files(folder: Path) -> dict[str, str]:
    """Every file but the manifest, by a digest."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    return {str(p.relative_to(folder)): hashlib.blake2b(p.read_bytes()).hexdigest() for p in found}


KINDS = {
    "parquet": ("--shard-rows", "60", "--view", "both", "--layers", "all"),
    "npy": ("--format", "npy"),
    "word2vec": ("--format", "word2vec", "--layers", "1"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_several_processes_leave_the_files_of_one(processes, place, kind):
    one = embed(processes, 1, place, f"{kind}-1", *KINDS[kind])
    for size in (2, 4):
        several = embed(processes, size, place, f"{kind}-{size}", *KINDS[kind])
        assert files(several) == files(one)
        manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (one, several)]
        assert manifests[0] == manifests[1]


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_a_graph_in_parts_is_embedded_by_those_who_hold_them(processes, place, kind):
    import pyarrow.parquet as pq

    one = embed(processes, 1, place, f"whole-{kind}", *KINDS[kind])
    parts = embed(processes, 2, place, f"parts-{kind}", *KINDS[kind], of="parts")
    if kind == "npy":
        a, b = (np.load(folder / "embeddings.npy") for folder in (one, parts))
        assert (np.load(parts / "ids.npy") == open_graph(place / "graph").ids).all()
    else:
        tables = [pq.read_table(folder / "vectors") for folder in (one, parts)]
        assert tables[0]["id"] == tables[1]["id"]
        a, b = (np.stack(table["embedding"].to_numpy()) for table in tables)
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, atol=1e-5)
    manifest = json.loads((parts / "manifest.json").read_text())
    assert (manifest["nodes"], manifest["graph"]) == (500, "named")
    assert not (parts / "state").exists()


def test_what_a_dead_process_leaves_is_taken_over_by_fewer(processes, place):
    """Process 1 dies in the middle of a shard; what is finished is not made again."""
    one = embed(processes, 1, place, "undisturbed", *KINDS["parquet"])
    out = place / "disturbed"
    words = ["embed", str(place / "run"), str(place / "graph"), "--out", str(out), "--quiet"]
    processes.begin(3, shared_fits.command_that_dies, [*words, *KINDS["parquet"]], 1, alone=True)
    processes.workers[1].join(60)
    answers = processes.answers([0, 2], 60)
    processes.start(1)
    for _, (code, said) in answers:
        assert code == 2
        assert "the processes of a fit must all be within reach, got" in said
    shards = sorted((out / "vectors").glob("part-*.parquet"))
    assert len(shards) == 9  # the others made all of them, the dead one's too, before they missed it
    made = {path.name: path.stat().st_mtime_ns for path in shards}
    assert not (out / "manifest.json").exists()
    embed(processes, 2, place, "disturbed", *KINDS["parquet"])
    assert {path.name: path.stat().st_mtime_ns for path in shards} == made
    assert files(out) == files(one)


def test_what_cannot_be_embedded_is_one_sentence(processes, place):
    words = ["embed", str(place / "run"), str(place / "parts"), "--out", str(place / "no"), "--quiet"]
    ((code, said),) = processes.run(1, shared_fits.command, words, None, alone=True)
    assert code == 2
    assert "a graph in 2 parts must be taken by 2 processes, got 1; start as many" in said
    answers = processes.run(2, shared_fits.command, [*words, "--training-subgraph"], None, alone=True)
    assert "--training-subgraph must come with a whole graph, got one in parts" in answers[0][1]
    (place / "full").mkdir()
    (place / "full" / "something").touch()
    words = ["embed", str(place / "run"), str(place / "graph"), "--out", str(place / "full"), "--quiet"]
    answers = processes.run(2, shared_fits.command, words, None, alone=True)
    assert "the place for an embedding must be free, got" in answers[0][1]
    assert "process 0 must begin, got a refusal; see what it says" in answers[1][1]
