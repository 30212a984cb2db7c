"""What a fit will need: the prediction beside what a fit took, and the sentences where it cannot be had."""

import json
import mmap
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from lrgi.baselines.methods import METHODS, fit_method
from lrgi.compute.memory import PeakWatch, available_disk, available_memory, resident
from lrgi.errors import InputError
from lrgi.graph.synthetic import planted_communities
from lrgi.training import cost
from lrgi.training.cost import (
    Needs,
    StepCost,
    measure_steps,
    needs_of,
    refuse_what_cannot_be,
    with_measurement,
)
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import planned_steps

SMALL = FitPlan(width=16, batch_size=64, updates=6, layers=2)
GIB = 2**30

# A process of its own, since what a heap keeps of earlier tests would blur the peak.
MEASURE = """
import json, sys
from lrgi.compute.memory import PeakWatch
from lrgi.graph.synthetic import planted_communities
from lrgi.training.cost import needs_of
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan
graph, plan = planted_communities(60_000, 600_000), FitPlan(**json.loads(sys.argv[1]))
needs = needs_of(graph, plan, steps=2, seconds=0.1)
with PeakWatch() as watch:
    fit_encoder(graph, plan)
print(json.dumps([needs.to_json(), watch.peak.anonymous]))
"""


def needs(**changes: int) -> Needs:
    step = StepCost(3, 0.01, 100.0, 200.0, 1 * GIB)
    given = {"process": GIB, "tables": 4 * GIB, "step": GIB, "disk": GIB, **changes}
    return Needs((100, 100), 10, (0.01, 0.02), (5.0,), measured=(step, step), **given)


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 3, "updates": 4, "batch_size": 512, "width": 256},  # tables: 60 MB each
        {"layers": 1, "updates": 3, "batch_size": 8192, "width": 128},  # a large step
    ],
)
def test_the_peak_of_a_fit_is_foreseen(settings):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(settings)], check=True, capture_output=True, text=True
    )
    foreseen, peak = json.loads(done.stdout)
    assert foreseen["memory"] == pytest.approx(peak, rel=0.25)
    assert foreseen["memory"] > 0.9 * peak  # rather too much than too little


def test_seconds_and_steps_add_up():
    one = needs()
    assert one.memory == 6 * GIB
    assert one.seconds == pytest.approx(100 * 0.01 + 100 * 0.02 + 5.0)
    assert one.epoch_seconds == pytest.approx(10 * 0.03)


def test_the_steps_foreseen_are_those_of_the_plan():
    graph = planted_communities(400, 4000)
    found = needs_of(graph, SMALL, steps=2, seconds=0.0)
    assert found.steps == planned_steps(SMALL, graph)
    assert len(found.step_seconds) == 2
    assert len(found.embed_seconds) == 1
    assert all(seconds > 0 for seconds in (*found.step_seconds, *found.embed_seconds))


def test_measuring_leaves_a_fit_as_it_was():
    graph = planted_communities(400, 4000)
    first = fit_encoder(graph, SMALL).layers[-1].weight
    needs_of(graph, SMALL, steps=2, seconds=0.0)
    assert first.equal(fit_encoder(graph, SMALL).layers[-1].weight)


@pytest.mark.parametrize("method", [name for name, m in METHODS.items() if m.fits == "a stack"])
def test_end_to_end_methods_are_measured_by_their_own_steps(method):
    graph = planted_communities(400, 4000)
    found = measure_steps(graph, SMALL, fit=lambda *a: fit_method(method, *a), steps=2, seconds=0.0)
    assert found.steps == 2
    alone = measure_steps(graph, replace(SMALL, layers=1), steps=2, seconds=0.0)
    assert found.nodes >= alone.nodes * 0.5
    whole = needs_of(graph, SMALL, fit=lambda *a: fit_method(method, *a), layerwise=False, steps=2)
    assert len(whole.steps) == 1
    assert whole.tables == 0


def test_mapped_tables_are_not_counted():
    graph = planted_communities(20_000, 40_000)
    plan = FitPlan(width=512, batch_size=64, updates=2, layers=3)
    in_memory, mapped = (needs_of(graph, plan, mapped=m, steps=2, seconds=0.0) for m in (False, True))
    assert in_memory.tables > 0
    assert mapped.tables == 0


def test_the_measurement_of_all_nodes_counts_where_it_takes_more():
    whole = planted_communities(20_000, 40_000)
    plan, small = FitPlan(width=512, layers=3), needs(tables=0, step=1, disk=1)
    held = with_measurement(small, whole, plan, mapped=False)
    assert held.tables == 2 * 4 * 512 * 20_000  # a layer's table, and the one before it
    assert held.disk == small.disk
    mapped = with_measurement(small, whole, plan, mapped=True)
    assert mapped.tables == 0 and mapped.memory < held.memory
    assert mapped.disk == 2 * 4 * 512 * 20_000
    large = needs(tables=9 * GIB)
    assert with_measurement(large, whole, plan, mapped=False) == large


@pytest.mark.parametrize(
    ("plan", "found", "remedy"),
    [
        (SMALL, needs(), "leave the tables between the layers on disk with --memory-gib"),
        (
            SMALL,
            needs(process=8 * GIB),
            "raise the bound: the libraries and the nodes that are fitted on take 8.00 GiB",
        ),
        (FitPlan(batch_size=0), needs(tables=0, step=8 * GIB), "take sampled batches with --batch-size 512"),
        (FitPlan(neighbours=0), needs(tables=0, step=8 * GIB), "sample neighbours with --neighbours 10"),
        (FitPlan(), needs(tables=0, step=8 * GIB), "lower --batch-size to 128"),
        (FitPlan(batch_size=64), needs(tables=0, step=8 * GIB), "lower --width to 128"),
    ],
)
def test_too_little_memory_is_refused_with_the_setting_that_helps(plan, found, remedy):
    with pytest.raises(InputError) as refused:
        refuse_what_cannot_be(found, plan, 3 * GIB, 2 * GIB)
    sentence = str(refused.value)
    assert sentence.startswith("memory for this fit must be at most 3.00 GiB, got a need of about ")
    assert remedy in sentence


def test_too_little_disk_is_refused():
    with pytest.raises(InputError, match=r"at most the 100 MiB that are free, got .* 1\.00 GiB; free"):
        refuse_what_cannot_be(needs(), SMALL, None, 100 * 2**20)
    refuse_what_cannot_be(needs(), SMALL, 7 * GIB, 2 * GIB)


def test_a_watch_sees_a_peak_that_is_gone():
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with PeakWatch() as watch, mmap.mmap(-1, 200 << 20, flags=private) as block:
        for _ in range(200):
            block.write(bytes(range(256)) * 4096)
        time.sleep(0.1)
    assert watch.peak.anonymous - watch.before.anonymous > 190 << 20
    assert resident().anonymous - watch.before.anonymous < 100 << 20


def test_what_the_machine_says(tmp_path):
    assert resident().anonymous > 10 << 20
    assert available_memory() is None or available_memory() > 0
    assert available_disk(tmp_path / "not" / "there") > 0


def test_a_large_stand_in_takes_no_memory(monkeypatch):
    monkeypatch.setattr(cost, "STAND_IN_ROWS", 1000)
    graph = planted_communities(20_000, 40_000)
    before = resident().anonymous
    table = cost._with_stand_in(graph, 2048).features  # 160 MB, were it filled
    assert table.array[::100].sum() == 0
    assert resident().anonymous - before < 80 << 20
