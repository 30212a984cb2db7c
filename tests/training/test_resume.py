"""A fit that is taken up at any step ends with the bits of one that never stopped."""

import copy

import numpy as np
import pytest
import torch

from lrgi.baselines.methods import fit_method
from lrgi.errors import InputError
from lrgi.training.journal import Journal, Keeper, Listener
from lrgi.training.plan import FitPlan
from lrgi.training.resources import Resources
from reference.tiny import tiny_graph

GRAPH = tiny_graph()
PLAN = FitPlan(width=8, layers=2, batch_size=60, updates=6, expansion=2)  # 4 steps an epoch, 8 a layer


class Killed(Exception):
    pass


class KeepsOne(Keeper):
    """Holds the state after one step in memory, and stops the fit there; then puts it back."""

    def __init__(self, layer, step):
        super().__init__()
        self.at, self.state, self.moving = (layer, step), None, None
        self.done = {}

    def resume(self, layer, moving, steps):
        self.moving = moving
        if layer in self.done:
            moving.result.load_state_dict(self.done[layer])
            return steps
        if self.state is None or layer != self.at[0]:
            return 0
        for part, state in zip(moving[:3], self.state, strict=True):
            part.load_state_dict(state)
        return self.at[1]

    def step_taken(self, record):
        if self.state is None and (record.place.layer, record.place.step) == self.at:
            self.state = copy.deepcopy([part.state_dict() for part in self.moving[:3]])
            raise Killed

    def layer_fitted(self, layer, module):
        self.done[layer] = copy.deepcopy(module.state_dict())


class Places(Listener):
    def __init__(self):
        self.heard = []

    def step_taken(self, record):
        self.heard.append((record.place, record.block.nodes.tolist()))


def fitted(method, plan, keeper=None):
    places = Places()
    encoder = None
    try:
        encoder = fit_method(method, GRAPH, plan, Journal(places, keeper=keeper))
    except Killed:
        assert keeper is not None
    return encoder, places.heard


@pytest.mark.parametrize(
    ("method", "layer", "step"),
    [("lrgi", 1, 1), ("lrgi", 1, 4), ("lrgi", 1, 7), ("lrgi", 2, 3), ("rgi", 1, 5), ("dgi", 1, 5),
     ("gbt", 1, 5), ("graphmae", 1, 5), ("bgrl", 1, 5), ("cca-ssg", 1, 5), ("supervised", 1, 5)],
)  # fmt: skip
def test_taking_up_a_fit_anywhere_gives_the_same_bits(method, layer, step):
    whole, all_places = fitted(method, PLAN)
    keeper = KeepsOne(layer, step)
    none, before = fitted(method, PLAN, keeper)
    resumed, after = fitted(method, PLAN, keeper)
    assert none is None
    assert before + after == all_places  # every step once, on the same nodes
    np.testing.assert_array_equal(resumed.embed(GRAPH).array, whole.embed(GRAPH).array)


def test_whole_graphs_are_skipped_too():
    plan = PLAN.with_settings(batch_size=0, neighbours=0, next_neighbours=0)
    whole, places = fitted("lrgi", plan)
    keeper = KeepsOne(1, 4)
    fitted("lrgi", plan, keeper)
    resumed, after = fitted("lrgi", plan, keeper)
    assert len(after) == len(places) - 4
    np.testing.assert_array_equal(resumed.embed(GRAPH).array, whole.embed(GRAPH).array)


def test_a_layer_on_constants_makes_them_again():
    plan = PLAN.with_settings(layer="sage")
    whole, _ = fitted("lrgi", plan)
    keeper = KeepsOne(2, 3)
    fitted("lrgi", plan, keeper)
    resumed, after = fitted("lrgi", plan, keeper)
    assert len(after) == 5
    np.testing.assert_array_equal(resumed.embed(GRAPH).array, whole.embed(GRAPH).array)


def test_a_run_with_one_thread_is_taken_up_with_two(restore_threads):
    torch.set_num_threads(1)
    whole, _ = fitted("lrgi", PLAN)
    keeper = KeepsOne(2, 2)
    fitted("lrgi", PLAN, keeper)
    torch.set_num_threads(2)
    resumed, _ = fitted("lrgi", PLAN, keeper)
    np.testing.assert_array_equal(resumed.embed(GRAPH).array, whole.embed(GRAPH).array)


@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan"), "60"])
def test_resources_that_cannot_be(value):
    with pytest.raises(InputError, match=r"snapshot_seconds must be a number of at least 0, got"):
        Resources(snapshot_seconds=value)
