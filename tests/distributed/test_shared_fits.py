"""Several processes on one batch give what one process gives: sums, gradients, samples, fits."""

from __future__ import annotations

import numpy as np
import pytest

from lrgi.graph.inductive import disjoint_union
from lrgi.graph.partition import save_partition
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.metis import owners_by_metis
from lrgi.training.plan import FitPlan
from lrgi.training.traffic import step_traffic
from reference import shared_fits
from reference.worlds import Processes

SETTINGS = {"layers": 2, "width": 16, "batch_size": 64, "updates": 12, "learning_rate": 5e-3, "seed": 3}


@pytest.fixture(scope="module")
def graph():
    return planted_communities(nodes=600, edges=6_000, features=24, seed=1)


@pytest.mark.parametrize("size", [2, 4])
def test_collectives(processes: Processes, size: int) -> None:
    for rank, got in enumerate(processes.run(size, shared_fits.collectives)):
        total = size * (size + 1) / 2
        assert got["a"].tolist() == [total] * 3
        assert got["b"].tolist() == [[0, total], [2 * total, 3 * total]]
        assert got["c"].tolist() == [7, 7]
        assert [part.shape for part in got["got"]] == [(rank + 1, 2)] * size
        assert [part[0, 0] for part in got["got"]] == [10 * source + rank for source in range(size)]


@pytest.mark.parametrize("kind", ["network", "closed"])
@pytest.mark.parametrize(("size", "empty"), [(2, False), (4, False), (4, True)])
def test_terms_and_gradients_are_those_of_the_whole_batch(processes, kind, size, empty):
    args = (kind, 200, 12, empty)
    (whole,) = processes.run(1, shared_fits.terms_and_gradients, *args)
    for shared in processes.run(size, shared_fits.terms_and_gradients, *args):
        np.testing.assert_allclose(shared["terms"], whole["terms"], rtol=2e-5)
        for a, b in zip(shared["gradients"], whole["gradients"], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5 * np.abs(b).max())


@pytest.mark.parametrize(
    ("batch_size", "fan_outs"), [(60, (6, 3)), (60, (3, 7)), (0, (2, 2)), (60, (4, 4, 4))]
)
def test_every_node_reads_what_it_would_read_in_the_whole_block(processes, batch_size, fan_outs):
    (whole,) = processes.run(1, shared_fits.blocks, batch_size, fan_outs)
    shares = processes.run(4, shared_fits.blocks, batch_size, fan_outs)
    met_elsewhere = 0
    for number, expected in enumerate(whole):
        parts = [share[number] for share in shares]
        assert [node for part in parts for node in part.pop(-1)] == expected.pop(-1)
        batch = expected.pop(-2)
        assert all(part.pop(-2) == batch for part in parts)
        for part in parts:
            for node, neighbours in part.items():
                assert neighbours == expected[node]
                met_elsewhere += 1
    assert met_elsewhere > sum(map(len, whole))  # processes do overlap


CASES = {
    "gat": {},
    "gat wide": {"width": 64, "expansion": 2},
    "sage": {"layer": "sage"},
    "gcn": {"layer": "gcn"},
    "closed": {"predictors": "closed"},
    "whole": {"batch_size": 0, "layers": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_by_several_processes_is_the_fit_of_one(processes, graph, case):
    """Same bits for the same number of processes; 1, 2 and 4 agree to a tolerance."""
    settings = SETTINGS | CASES[case]
    (one,) = processes.run(1, shared_fits.fitted, graph, settings)
    for size in (2, 4):
        results = processes.run(size, shared_fits.fitted, graph, settings)
        if case == "gat":
            results += processes.run(size, shared_fits.fitted, graph, settings)
        for result in results[1:]:
            assert result["losses"] == results[0]["losses"]
            assert np.array_equal(result["embedding"], results[0]["embedding"])
        np.testing.assert_allclose(results[0]["losses"], one["losses"], rtol=1e-3)
        assert np.abs(results[0]["embedding"] - one["embedding"]).max() < 5e-3


@pytest.mark.parametrize("more", [{}, {"predictors": "closed"}, {"reduction": "bf16", "layer": "sage"}])
def test_bytes_are_counted_and_known_before(processes, graph, more):
    settings = SETTINGS | more
    for size in (2, 4):
        result = processes.run(size, shared_fits.fitted, graph, settings)[0]
        plan, half = FitPlan(**settings), len(result["sent"]) // 2
        for number, sent in ((1, result["sent"][1:half]), (2, result["sent"][half + 1 :])):
            in_dim = 24 if number == 1 else 16
            expected = step_traffic(plan, in_dim, number, size).total
            assert len(set(sent)) == 1  # the same in every step
            assert abs(sent[0] - expected) <= 4  # rounded here and there


def test_gradients_in_bf16_stay_close_and_weigh_half(processes, graph):
    settings = SETTINGS | {"layers": 1, "updates": 100, "predictors": "network", "inputs": "given"}
    (one,) = processes.run(1, shared_fits.fitted, graph, settings)
    exact, narrow = (
        processes.run(2, shared_fits.fitted, graph, settings | {"reduction": reduction})
        for reduction in ("float32", "bf16")
    )
    assert np.array_equal(narrow[0]["embedding"], narrow[1]["embedding"])
    ends = [np.mean(result["losses"][-10:]) for result in (one, exact[0], narrow[0])]
    assert abs(ends[1] / ends[0] - 1) < 1e-3
    assert 0 < abs(ends[2] / ends[0] - 1) < 2e-2
    assert 0.5 < narrow[0]["sent"][1] / exact[0]["sent"][1] < 0.6  # covariances stay exact


@pytest.mark.parametrize(
    ("layer", "case"), [("gat", "sampled"), ("gat", "whole graphs"), ("gat", "closed"), ("gcn", "sampled")]
)
def test_a_fit_of_a_graph_in_parts_is_the_fit_of_one(processes, graph, tmp_path, layer, case):
    both = disjoint_union([graph, planted_communities(200, 1_000, features=24, seed=4)])
    more = {
        "sampled": {},
        "whole graphs": {"batch_size": 0, "updates": 4},
        "closed": {"predictors": "closed"},
    }
    settings = SETTINGS | more[case] | {"layer": layer}
    (one,) = processes.run(1, shared_fits.fitted, both, settings)
    for size in (2, 3):
        save_partition(both, owners_by_metis(both, size), tmp_path / f"{size}")
        results = processes.run(size, shared_fits.fitted_in_parts, str(tmp_path / f"{size}"), settings)
        for result in results:
            assert result["losses"] == results[0]["losses"]
            for a, b in zip(result["weights"], one["weights"], strict=True):
                assert np.abs(a - b).max() < 2e-3
            difference = result["tables"][0] - one["tables"][0][result["names"]]
            assert np.abs(difference).max() < 5e-3
        np.testing.assert_allclose(results[0]["losses"], one["losses"], rtol=1e-3)


@pytest.mark.parametrize("kind", ["mapped", "in memory", "gathered"])
def test_a_table_is_made_together(processes, graph, tmp_path, kind):
    """The same bytes in the same files as by one process; no process makes a range twice.

    How often two processes make the same range depends on who is slow, so nothing is said of it here.
    """
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    (one,) = processes.run(1, shared_fits.table_in_files, str(alone), graph, kind, False)
    results = processes.run(3, shared_fits.table_in_files, str(shared), graph, kind, False)
    for result in results:
        assert np.array_equal(result["table"], one["table"])
        assert len(set(result["made"])) == len(result["made"])
    assert {start for result in results for start in result["made"]} == set(one["made"])
    if kind != "gathered":  # nobody waits for process 1 to make more than one range
        results = processes.run(3, shared_fits.table_in_files, str(tmp_path / "slow"), graph, kind, True)
        assert len(results[1]["made"]) == 1
        assert all(np.array_equal(result["table"], one["table"]) for result in results)
        assert {p.name: p.read_bytes() for p in alone.iterdir()} == {
            p.name: p.read_bytes() for p in shared.iterdir()
        }
