"""Hosts with addresses of their own: the same results over a network, and what happens when it fails."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lrgi.encoder import Encoder
from lrgi.graph.partition import save_partition
from lrgi.graph.store import save_graph
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.metis import owners_by_metis
from lrgi.training.run import read_record
from reference import shared_fits
from reference.hosts import Hosts, why_not
from reference.worlds import Processes

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

SETTINGS = {"layers": 2, "width": 16, "batch_size": 64, "updates": 12, "learning_rate": 5e-3, "seed": 3,
            "inputs": "given", "predictors": "network"}  # fmt: skip
SILENCE, SLACK = 3.0, 40.0  # seconds: what the processes are told, and what a busy machine may add


@pytest.fixture(scope="module")
def graph():
    return planted_communities(nodes=600, edges=6_000, features=24, seed=1)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts(3) as three:
        yield three


@pytest.fixture(scope="module")
def remote(hosts: Hosts) -> Iterator[Processes]:
    started = Processes(3, hosts)
    yield started
    started.stop()


@pytest.mark.parametrize("count", [2, 3])
def test_hosts_that_hold_the_whole_graph(processes, remote, hosts, graph, count):
    (one,) = processes.run(1, shared_fits.fitted, graph, SETTINGS)
    (local, *_), before = processes.run(count, shared_fits.fitted, graph, SETTINGS), hosts.sent(0)
    results = remote.run(count, shared_fits.fitted, graph, SETTINGS)
    left = hosts.sent(0) - before
    for result in results:
        assert np.array_equal(result["embedding"], local["embedding"])  # the same bits as on one host
        assert np.abs(result["embedding"] - one["embedding"]).max() < 5e-3
    counted = sum(results[0]["sent"])
    assert counted < left < 1.3 * counted + 100_000  # headers, acknowledgements and the greeting besides


@pytest.mark.parametrize("count", [2, 3])
def test_hosts_that_hold_a_part_each(processes, remote, graph, tmp_path, count):
    (one,) = processes.run(1, shared_fits.fitted, graph, SETTINGS)
    save_partition(graph, owners_by_metis(graph, count), tmp_path / "parts")
    for result in remote.run(count, shared_fits.fitted_in_parts, str(tmp_path / "parts"), SETTINGS):
        for a, b in zip(result["weights"], one["weights"], strict=True):
            assert np.abs(a - b).max() < 2e-3
        assert np.abs(result["tables"][0] - one["tables"][0][result["names"]]).max() < 5e-3


def test_a_host_that_is_cut_off_is_one_sentence_within_the_timeout(remote, hosts, graph, tmp_path):
    remote.begin(3, shared_fits.endless, graph, SETTINGS, str(tmp_path / "sign"), timeout=SILENCE)
    shared_fits.wait_for(tmp_path / "sign-0")
    hosts.cut(1)
    answers = remote.answers(range(3), SILENCE + SLACK)
    hosts.mend(1)
    for ok, text in answers:
        assert not ok
        assert "WorldError: the processes of a fit must all be within reach, got" in text
    assert len(remote.run(3, shared_fits.fitted, graph, SETTINGS)) == 3  # and all are well again


def test_a_host_that_is_killed_is_one_sentence_at_once(remote, graph, tmp_path):
    remote.begin(3, shared_fits.endless, graph, SETTINGS, str(tmp_path / "sign"), timeout=60)
    shared_fits.wait_for(tmp_path / "sign-0")
    remote.kill(2)
    for ok, text in remote.answers(range(2), SLACK):  # nobody waits for the 60 seconds
        assert not ok
        assert "WorldError: the processes of a fit must all be within reach, got" in text
    remote.start(2)
    assert len(remote.run(3, shared_fits.fitted, graph, SETTINGS)) == 3


@pytest.mark.parametrize("lost", [0, 1])
def test_a_host_that_is_killed_and_comes_back_loses_no_finished_layer(remote, graph, tmp_path, lost):
    """Host 0 is where the others meet: without it they say one sentence, with it again the run goes on."""
    save_graph(graph, tmp_path / "graph")
    words = ["fit", str(tmp_path / "graph"), "--no-probe", "--quiet", "--snapshot-seconds", "0.1"]
    words += ["--layers", "2", "--width", "16", "--batch-size", "64", "--updates", "60", "--out"]
    done = [(0, "")] * 3
    assert remote.run(3, shared_fits.command, [*words, str(tmp_path / "whole")], None, alone=True) == done
    out = [*words, str(tmp_path / "run")]
    remote.begin(3, shared_fits.command, out, str(tmp_path / "sign"), alone=True)
    shared_fits.wait_for(tmp_path / "sign")  # layer 2 is under way
    remote.kill(lost)
    for _, (code, said) in remote.answers([rank for rank in range(3) if rank != lost], SLACK):
        assert code == 2
        assert said.startswith("lrgi: error: the processes of a fit must all be within reach, got '")
        assert said.count("\n") == 1
    assert list((tmp_path / "run" / "state").glob("layer-1-*"))
    remote.start(lost)
    assert remote.run(3, shared_fits.command, out, None, alone=True) == done
    where = read_record(tmp_path / "run")["resumed"][0]["where"]
    assert "layer 2" in where or "after layer 1" in where
    whole, again = (Encoder.load(tmp_path / name / "encoder") for name in ("whole", "run"))
    for a, b in zip(whole.layers, again.layers, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_a_host_that_does_not_come_is_one_sentence_within_the_timeout(remote, graph, tmp_path):
    save_graph(graph, tmp_path / "graph")
    words = ["fit", str(tmp_path / "graph"), "--out", str(tmp_path / "run"), "--quiet", "--timeout", "2"]
    remote.begin(3, shared_fits.command, words, None, alone=True, only=range(2))
    for _, (code, said) in remote.answers(range(2), 2 + SLACK):
        assert code == 2
        assert said.startswith("lrgi: error: the processes of a fit must all be within reach, got '")
        assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()
