"""Runs that break off and go on: the same bits, no step lost or told twice, no damaged state believed."""

import json
import os
import signal
import time

import numpy as np
import pytest
import torch

from lrgi.baselines.methods import fit_method
from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError, Stopped
from lrgi.training import checkpoint as module
from lrgi.training.begin import Beginning
from lrgi.training.checkpoint import STATE, read_tensors, snapshots, write_tensors
from lrgi.training.journal import Listener
from lrgi.training.resources import Resources
from lrgi.training.run import ENCODER, RECORD, fit_run, open_run, read_record
from lrgi.training.writer import STEPS
from reference.kills import GRAPH, OFTEN, PLAN, Dies, Killed, steps_of

STEPS_OF_ALL = [(layer, step) for layer in (1, 2) for step in range(1, 9)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bits of a run that nothing disturbed."""
    path = tmp_path_factory.mktemp("whole") / "run"
    return fit_run(GRAPH, PLAN, path).encoder.embed(GRAPH).array


def killed_at(path, layer, step, **how):
    with pytest.raises(Killed):
        fit_run(GRAPH, PLAN, path, listeners=[Dies(layer, step)], **({"resources": OFTEN} | how))


@pytest.mark.parametrize(("layer", "step"), [(1, 1), (1, 2), (1, 5), (1, 8), (2, 1), (2, 7)])
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(tmp_path, whole, layer, step):
    killed_at(tmp_path, layer, step)
    assert read_record(tmp_path)["status"] == "failed"
    told = []
    run = fit_run(GRAPH, PLAN, tmp_path, resources=OFTEN, tell=told.append)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    np.testing.assert_array_equal(open_run(tmp_path).encoder.embed(GRAPH).array, whole)
    assert steps_of(tmp_path) == STEPS_OF_ALL
    assert [entry["steps"] for entry in run.record["layers"]] == [8, 8]
    assert not (tmp_path / STATE).exists()
    done = step - 1  # the step that was under way was not kept
    if (layer, step) == (1, 1):
        assert told == []
    elif done:
        assert told == [f"{tmp_path} goes on after step {done} of layer {layer}"]
        assert run.record["resumed"][0]["where"] == told[0]


def test_a_run_that_dies_again_and_again(tmp_path, whole):
    for layer, step in STEPS_OF_ALL[1:]:
        killed_at(tmp_path, layer, step)
    run = fit_run(GRAPH, PLAN, tmp_path)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    assert steps_of(tmp_path) == STEPS_OF_ALL
    assert len(run.record["resumed"]) == len(STEPS_OF_ALL) - 1


def test_tensorboard_hears_every_step_once(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    killed_at(tmp_path, 1, 3)
    killed_at(tmp_path, 2, 4)
    fit_run(GRAPH, PLAN, tmp_path)
    (file,) = tmp_path.glob("events.out.tfevents.*")
    assert len(list(loader.RawEventFileLoader(str(file)).Load())) == 1 + len(STEPS_OF_ALL)


@pytest.mark.parametrize("method", ["rgi", "bgrl", "graphmae", "whiten"])
def test_other_methods_go_on_too(tmp_path, method):
    def fit(graph, plan, journal):
        return fit_method(method, graph, plan, journal)

    how = {"fit": fit, "method": method}
    expected = fit_run(GRAPH, PLAN, tmp_path / "whole", **how).encoder.embed(GRAPH).array
    path = tmp_path / "run"
    if method != "whiten":  # which takes no steps
        killed_at(path, 1, 6, **how)
    run = fit_run(GRAPH, PLAN, path, **how)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, expected)
    assert len(run.record["layers"]) == (2 if method == "whiten" else 1)


@pytest.mark.parametrize("cut", [None, 0, 1, 100])
def test_a_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path, whole, cut):
    killed_at(tmp_path, 2, 6)
    newest = snapshots(tmp_path / STATE)
    assert len(newest) == 2
    data = newest[0][1].read_bytes()
    newest[0][1].write_bytes(data[:cut] if cut is not None else data[:-7] + bytes([data[-7] ^ 4]) + data[-6:])
    told = []
    run = fit_run(GRAPH, PLAN, tmp_path, tell=told.append)
    assert told == [f"{tmp_path} goes on after step 4 of layer 2"]
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    assert steps_of(tmp_path) == STEPS_OF_ALL


def test_without_a_whole_snapshot_it_begins_again(tmp_path, whole):
    killed_at(tmp_path, 2, 6)
    for path in (tmp_path / STATE).glob("layer-1-*"):
        path.write_bytes(b"torn")
    run = fit_run(GRAPH, PLAN, tmp_path)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    assert steps_of(tmp_path) == STEPS_OF_ALL


def test_changed_steps_are_not_taken_for_those_of_the_run(tmp_path):
    killed_at(tmp_path, 1, 6)
    part = tmp_path / f"{STEPS}.part"
    part.write_bytes(part.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(
        FormatError, match=r"the steps of a run must be those it wrote, got .*steps.jsonl.part"
    ):
        fit_run(GRAPH, PLAN, tmp_path)
    assert fit_run(GRAPH, PLAN, tmp_path, overwrite=True).record["status"] == "finished"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_a_last_snapshot_and_says_how_to_go_on(tmp_path, whole, number):
    class Asks(Listener):
        def step_taken(self, record):
            if record.place[:1] == (2,) and record.place.step == 3:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(
        Stopped, match="interrupted; layer 2, epoch 1, step 3 of 8 is kept, and the same comm"
    ):
        fit_run(GRAPH, PLAN, tmp_path, listeners=[Asks()])
    assert signal.getsignal(number) == before
    assert read_record(tmp_path)["status"] == "interrupted"
    told = []
    run = fit_run(GRAPH, PLAN, tmp_path, tell=told.append)
    assert told == [f"{tmp_path} goes on after step 3 of layer 2"]
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)


def test_a_signal_while_embedding_keeps_what_was_embedded(tmp_path, whole, monkeypatch):
    monkeypatch.setattr("lrgi.encoder.CHUNK_EDGES", 400)
    expected = fit_run(GRAPH, PLAN, tmp_path / "whole").encoder
    from lrgi.graph.sinks import FileSink

    write, rows = FileSink.write, []

    def asks(self, start, values):
        rows.append(start)
        if len(rows) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        write(self, start, values)

    monkeypatch.setattr(FileSink, "write", asks)
    with pytest.raises(Stopped, match="what was embedded is kept"):
        fit_run(GRAPH, PLAN, tmp_path / "run")
    run = fit_run(GRAPH, PLAN, tmp_path / "run")
    assert rows == sorted(set(rows))  # no chunk twice
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, expected.embed(GRAPH).array)


def test_snapshots_come_when_it_is_time_and_at_the_ends_of_epochs(tmp_path, monkeypatch):
    taken = []
    save = module.Checkpoint._save

    def spy(self, position, state):
        taken.append((position.layer, position.step))
        save(self, position, state)

    monkeypatch.setattr(module.Checkpoint, "_save", spy)
    monkeypatch.setattr(module, "_SHARE", 1e9)  # as if snapshots cost nothing
    fit_run(GRAPH, PLAN, tmp_path / "rarely", resources=Resources(snapshot_seconds=1e6))
    assert taken == [(1, 5), (2, 0), (2, 0), (2, 5), (3, 0)]  # an epoch has 4 steps
    taken.clear()
    monkeypatch.setattr(module, "_SHARE", 0.0)
    fit_run(GRAPH, PLAN, tmp_path / "never", resources=Resources(snapshot_seconds=1e6))
    assert taken == [(2, 0), (2, 0), (3, 0)]


def test_a_clock_that_jumps_changes_nothing(tmp_path, whole, monkeypatch):
    jumps = iter(range(10**9, 0, -(10**5)))
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    killed_at(tmp_path, 2, 3)
    run = fit_run(GRAPH, PLAN, tmp_path)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    assert steps_of(tmp_path) == STEPS_OF_ALL
    assert all(line["fit_seconds"] >= 0 for line in run.record["layers"])


def test_mapped_tables_and_a_scratch_folder_give_the_same_bits(tmp_path, whole):
    uses = Resources(snapshot_seconds=0.0, memory_gib=0.1, scratch=str(tmp_path / "scratch"))
    killed_at(tmp_path / "run", 2, 3, resources=uses)
    assert list((tmp_path / "scratch").rglob("U_1.npy"))
    run = fit_run(GRAPH, PLAN, tmp_path / "run", resources=uses)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    assert not list((tmp_path / "scratch").rglob("U_*"))


def test_a_run_from_the_weights_of_another(tmp_path):
    first = fit_run(GRAPH, PLAN, tmp_path / "first")
    again = PLAN.with_settings(seed=5, layers=3)
    begun = Beginning.of(first.path)
    none = again.with_settings(learning_rate=1e-30, weight_decay=0.0)  # steps that move nothing
    run = fit_run(GRAPH, none, tmp_path / "second", beginning=begun)
    for a, b in zip(first.encoder.layers, run.encoder.layers, strict=False):
        for x, y in zip(a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-4)  # into principal directions and back
    assert len(run.encoder.layers) == 3
    assert run.record["from"]["path"] == str(first.path)
    with pytest.raises(InputError, match="got weights to begin with None for"):
        fit_run(GRAPH, none, tmp_path / "second")
    wide = again.with_settings(width=16)
    with pytest.raises(
        InputError, match="weights to start from must have the shapes of the settings, got la"
    ):
        fit_run(GRAPH, wide, tmp_path / "wide", beginning=begun)


def test_a_run_from_the_weights_of_an_unfinished_one(tmp_path):
    killed_at(tmp_path / "first", 2, 6)
    begun = Beginning.of(tmp_path / "first")
    assert len(begun.layers) == 2
    fit_run(GRAPH, PLAN.with_settings(seed=1), tmp_path / "second", beginning=begun)
    with pytest.raises(FormatError, match="a run to start from must have weights, got"):
        Beginning.of(tmp_path / "nothing")


def test_tensors_on_disk_are_told_from_torn_ones(tmp_path):
    path = write_tensors(tmp_path, "layer-1", {"a": torch.arange(5.0)}, {"of": "it"})
    tensors, about = read_tensors(path)
    assert about["of"] == "it"
    assert tensors["a"].tolist() == [0, 1, 2, 3, 4]
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(FormatError, match="a snapshot must be whole, got"):
            read_tensors(path)


def test_killed_between_the_encoder_and_the_record(tmp_path, whole, monkeypatch):
    def dies(*given):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("lrgi.training.run.seal_run", dies)
        fit_run(GRAPH, PLAN, tmp_path)
    assert (tmp_path / ENCODER).is_dir()
    run = fit_run(GRAPH, PLAN, tmp_path)
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, whole)
    assert Encoder.load(tmp_path / ENCODER).extra["method"] == "lrgi"
    assert json.loads((tmp_path / RECORD).read_text())["status"] == "finished"
