"""More layers for a finished run: the bits of a fit from the beginning, in a run that stays whole."""

import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.training import grow as module
from lrgi.training.grow import GROWING, GROWN, grow_run, settle
from lrgi.training.run import RECORD, fit_run, open_run
from lrgi.training.verify import problems_of_run
from lrgi.training.writer import STEPS
from reference.kills import GRAPH, OFTEN, PLAN, Dies, Killed, steps_of


def table(run):
    return run.encoder.embed(GRAPH).array


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """What a fit of four layers from the beginning gives."""
    return table(fit_run(GRAPH, PLAN.with_settings(layers=4), tmp_path_factory.mktemp("four") / "run"))


def test_a_grown_run_is_one_that_was_fitted_with_so_many_layers(tmp_path, longer):
    first = fit_run(GRAPH, PLAN, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    grown = grow_run(tmp_path, GRAPH, 4)
    np.testing.assert_array_equal(table(grown), longer)
    np.testing.assert_array_equal(table(open_run(tmp_path)), longer)
    assert steps_of(tmp_path) == [(layer, step) for layer in range(1, 5) for step in range(1, 9)]
    assert [layer["steps"] for layer in grown.record["layers"]] == [8] * 4
    assert grown.record["layers"][0]["fit_seconds"] == first.record["layers"][0]["fit_seconds"]
    assert grown.record["grown_from"] == 2
    assert grown.record["plan"]["layers"] == 4
    assert list(problems_of_run(tmp_path)) == []
    assert (tmp_path / "notes.txt").read_text() == "mine"
    names = {"encoder", RECORD, STEPS, "notes.txt"}
    assert {p.name for p in tmp_path.iterdir() if not p.name.startswith("events")} == names
    assert fit_run(GRAPH, PLAN.with_settings(layers=4), tmp_path).record == grown.record


@pytest.mark.parametrize(("layer", "step"), [(3, 1), (3, 5), (4, 2)])
def test_a_killed_growth_leaves_the_run_and_goes_on(tmp_path, longer, layer, step):
    before = table(fit_run(GRAPH, PLAN, tmp_path))
    with pytest.raises(Killed):
        grow_run(tmp_path, GRAPH, 4, listeners=[Dies(layer, step)], resources=OFTEN)
    np.testing.assert_array_equal(table(open_run(tmp_path)), before)
    assert list(problems_of_run(tmp_path)) == []
    told = []
    grown = grow_run(tmp_path, GRAPH, 4, tell=told.append)
    assert f"after {'layer 2' if step == 1 and layer == 3 else ''}" in told[0]
    np.testing.assert_array_equal(table(grown), longer)
    assert not (tmp_path / GROWING).exists()


@pytest.mark.parametrize("moved", range(5))
def test_a_process_that_dies_while_the_files_change_places(tmp_path, longer, monkeypatch, moved):
    fit_run(GRAPH, PLAN, tmp_path)
    exchange, replace, count = module.exchange, module.Path.replace, iter(range(100))

    def dying(move):
        def moves(one, other):
            if GROWN in str(one) and next(count) == moved:
                raise Killed
            return move(one, other)

        return moves

    with monkeypatch.context() as patch:
        patch.setattr(module, "exchange", dying(exchange))
        patch.setattr(module.Path, "replace", dying(replace))
        if moved < 4:
            with pytest.raises(Killed):
                grow_run(tmp_path, GRAPH, 4)
        else:
            grow_run(tmp_path, GRAPH, 4)
    np.testing.assert_array_equal(table(settle(tmp_path)), longer)
    assert list(problems_of_run(tmp_path)) == []
    assert not (tmp_path / GROWN).exists()


def test_a_layer_that_brings_nothing_is_dropped(tmp_path):
    before = fit_run(GRAPH, PLAN, tmp_path)
    seen = []
    kept = grow_run(tmp_path, GRAPH, 3, judge=lambda run: seen.append(len(run.encoder.layers)) or False)
    assert seen == [3]
    assert kept.record == before.record
    assert not (tmp_path / GROWING).exists()
    assert list(problems_of_run(tmp_path)) == []


def test_runs_that_cannot_grow(tmp_path):
    fit_run(GRAPH, PLAN, tmp_path / "run")
    with pytest.raises(
        InputError, match=r"a run must grow to more layers than it has, got 2 for .*, which has 2"
    ):
        grow_run(tmp_path / "run", GRAPH, 2)
    fit_run(GRAPH, PLAN, tmp_path / "rgi", method="rgi")
    with pytest.raises(InputError, match=r"a run to grow must be fitted layer by layer, got .*'rgi'"):
        grow_run(tmp_path / "rgi", GRAPH, 3)
