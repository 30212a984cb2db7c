"""A small run that dies where it is told to, for the tests of runs that go on."""

import json

from lrgi.training.journal import Listener
from lrgi.training.plan import FitPlan
from lrgi.training.resources import Resources
from lrgi.training.writer import STEPS
from reference.tiny import tiny_graph

GRAPH = tiny_graph()
PLAN = FitPlan(width=8, layers=2, batch_size=60, updates=6, expansion=2)  # 4 steps an epoch, 8 a layer
OFTEN = Resources(snapshot_seconds=0.0)


class Killed(Exception):
    """Stands for SIGKILL: nothing in the package catches it to write anything but the record."""


class Dies(Listener):
    """Ends a fit at one step."""

    def __init__(self, layer, step):
        self.at = (layer, step)

    def step_taken(self, record):
        if (record.place.layer, record.place.step) == self.at:
            raise Killed


def steps_of(path):
    """(layer, step) of every line of a run's steps."""
    lines = (path / STEPS).read_text().splitlines()
    return [(line["layer"], line["step"]) for line in map(json.loads, lines)]
