"""`lrgi fit` by several processes into one run directory: ended, killed, taken up by fewer, in parts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lrgi.encoder import Encoder
from lrgi.graph.partition import save_partition
from lrgi.graph.store import save_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.metis import owners_by_metis
from lrgi.training.run import read_record
from reference import shared_fits
from reference.worlds import Processes

SETTINGS = [
    "--layers",
    "2",
    "--width",
    "16",
    "--batch-size",
    "64",
    "--updates",
    "150",
    "--no-probe",
    "--quiet",
]
TOLERANCE = 5e-3  # of a weight, between one process and several


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> Path:
    """A folder with `graph`, and `one`: its run by one process."""
    folder = tmp_path_factory.mktemp("runs")
    graph = planted_communities(nodes=600, edges=6_000, features=24, seed=1)
    save_graph(graph, folder / "graph")
    save_partition(graph, owners_by_metis(graph, 2), folder / "parts")
    assert fit(processes, 1, folder, "one") == [(0, "")]
    return folder


def words(folder: Path, out: str, graph: str = "graph") -> list[str]:
    return ["fit", str(folder / graph), "--out", str(folder / out), *SETTINGS, "--snapshot-seconds", "0.1"]


def fit(
    processes: Processes, size: int, folder: Path, out: str, graph: str = "graph"
) -> list[tuple[int, str]]:
    return processes.run(size, shared_fits.command, words(folder, out, graph), None, alone=True)


def furthest(folder: Path, a: str, b: str) -> float:
    """The largest difference between two runs' weights."""
    one, two = (Encoder.load(folder / name / "encoder") for name in (a, b))
    return max(
        float((p - q).detach().abs().max())
        for x, y in zip(one.layers, two.layers, strict=True)
        for p, q in zip(x.parameters(), y.parameters(), strict=True)
    )


@pytest.mark.parametrize("graph", ["graph", "parts"])
def test_a_run_by_two_processes(processes, place, graph):
    assert fit(processes, 2, place, f"two-{graph}", graph) == [(0, ""), (0, "")]
    assert 0 < furthest(place, "one", f"two-{graph}") < TOLERANCE
    record, steps = read_record(place / f"two-{graph}"), place / f"two-{graph}" / "steps.jsonl"
    lines = [json.loads(line) for line in steps.read_text().splitlines()]
    assert record["processes"] == 2
    assert sum(line["sent_bytes"] for line in lines) < record["sent_bytes"]
    assert record["graph"]["nodes"] == 600
    assert not (place / f"two-{graph}" / "state").exists()
    assert fit(processes, 2, place, f"two-{graph}", graph)[1] == (0, "")  # finished: there is nothing to do


@pytest.mark.parametrize("fewer", [2, 1])
def test_a_worker_killed_in_the_middle(processes, place, fewer):
    """What is started again goes on, with as many processes or fewer; layer 1 is not fitted again."""
    out = f"killed-{fewer}"
    processes.begin(2, shared_fits.command, words(place, out), str(place / f"{out}.sign"), alone=True)
    shared_fits.wait_for(place / f"{out}.sign")
    processes.kill(1)
    ((ok, (code, said)),) = processes.answers([0], 90)
    assert (ok, code) == (True, 2)
    assert said.startswith("lrgi: error: the processes of a fit must all be within reach, got '")
    assert said.endswith("start the same command again, and it goes on from the last snapshot\n")
    assert said.count("\n") == 1
    processes.start(1)
    assert list((place / out / "state").glob("layer-1-*"))
    assert read_record(place / out)["status"] == "failed"

    assert [code for code, _ in fit(processes, fewer, place, out)] == [0] * fewer
    record = read_record(place / out)
    assert "layer 2" in record["resumed"][0]["where"] or "after layer 1" in record["resumed"][0]["where"]
    assert furthest(place, "one", out) < TOLERANCE
    lines = (place / out / "steps.jsonl").read_text().splitlines()
    places = [(step["layer"], step["step"]) for step in map(json.loads, lines)]
    assert places == sorted(set(places))  # every step once
    if fewer == 2:
        undisturbed = Encoder.load(place / "two-graph" / "encoder")
        for a, b in zip(Encoder.load(place / out / "encoder").layers, undisturbed.layers, strict=True):
            assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_parts_that_are_cut_when_they_are_needed(processes, place):
    """`--placement parts` is the fit of the same parts on disk, and the whole graph takes such a run up."""
    out = words(place, "cut")
    assert processes.run(
        2, shared_fits.command, [*out, "--placement", "parts"], None, alone=True
    ) == [(0, "")] * 2  # fmt: skip
    assert fit(processes, 2, place, "two-parts", "parts") == [(0, "")] * 2
    assert furthest(place, "cut", "two-parts") == 0
    assert read_record(place / "cut")["graph"] == read_record(place / "one")["graph"]
    assert fit(processes, 1, place, "cut") == [(0, "")]  # the same run: there is nothing to do


def test_torchrun_starts_a_killed_worker_again(processes, place):
    """As a user types it: a worker is killed in the middle, and torchrun goes on from the last snapshot."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2"]
    started = subprocess.Popen(
        [*launch, "--max-restarts=1", "--monitor-interval=0.1", "-m", "lrgi", *words(place, "launched")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        state = place / "launched" / "state"
        wait_until(lambda: any(state.glob("layer-1-*")), 180)
        os.kill(max(children_of(started.pid)), signal.SIGKILL)
        said, _ = started.communicate(timeout=180)
    finally:
        started.kill()
    assert started.returncode == 0, said
    assert said.count("lrgi: error: the processes of a fit must all be within reach, got") <= 1
    record = read_record(place / "launched")
    assert "layer 2" in record["resumed"][0]["where"] or "after layer 1" in record["resumed"][0]["where"]
    assert fit(processes, 2, place, "two-graph") == [(0, "")] * 2  # undisturbed, perhaps made before
    assert furthest(place, "launched", "two-graph") == 0


def children_of(pid: int) -> list[int]:
    """Processes that one started itself."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"nothing happened for {seconds} s"
        time.sleep(0.02)


def test_what_process_0_refuses_ends_all(processes, place):
    (place / "taken").mkdir()
    (place / "taken" / "something").touch()
    (code, said), (other, elsewhere) = fit(processes, 2, place, "taken")
    assert (code, other) == (2, 2)
    assert "the place for a run must be free, got" in said
    assert "process 0 must begin, got a refusal; see what it says" in elsewhere
    (code, said), _ = processes.run(
        2, shared_fits.command, [*words(place, "dgi"), "--method", "dgi"], None, alone=True
    )
    assert "a fit by 2 processes must be of method lrgi or rgi, got dgi; start it as one process" in said
    assert not (place / "dgi").exists()
