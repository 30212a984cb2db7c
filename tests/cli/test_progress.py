"""The bar and the lines, with a clock of our own."""

from dataclasses import dataclass

import pytest
import torch

from lrgi.cli.progress import Progress, duration
from lrgi.objective.infomax import Terms
from lrgi.training.journal import Place
from lrgi.training.plan import FitPlan


class Screen:
    """A console that remembers."""

    def __init__(self, on_terminal):
        self.on_terminal, self.notes, self.sketches = on_terminal, [], []

    def note(self, text):
        self.notes.append(text)

    def sketch(self, text):
        self.sketches.append(text)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@dataclass
class Record:
    place: Place
    terms: Terms


def play(progress, clock, layer, steps, pace):
    """Fit one layer, its first step ten times as slow."""
    progress.layer_started(layer, FitPlan(reconstruction=25.0), steps)
    for step in range(1, steps + 1):
        clock.now += 10 * pace if step == 1 else pace
        terms = Terms(torch.tensor(0.1), torch.tensor(0.2), torch.tensor(0.5))
        progress.step_taken(Record(Place(layer, 1, step, steps), terms))
    progress.layer_fitted(layer, None)


@pytest.mark.parametrize("columns", ["100", "40"])
def test_a_terminal_gets_a_bar(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    clock, screen = Clock(), Screen(on_terminal=True)
    progress = Progress(screen, [50, 50], clock)
    play(progress, clock, 1, 50, 0.5)
    assert screen.sketches[0].startswith("layer 1 of 2  [....................")
    assert all(len(sketch) < int(columns) for sketch in screen.sketches)
    assert screen.sketches[-1] == ""  # the bar goes, the line stays
    assert screen.notes == ["layer 1 of 2 fitted: 50 steps in 30 s, loss 8.00 at the end"]
    if columns == "100":
        assert screen.sketches[0].endswith("loss 8.00  measuring the speed")
        assert screen.sketches[24].endswith(
            "[############............]   50 %  loss 8.00  38 s left for all layers"
        )


def test_the_time_left_is_measured_without_the_slow_first_steps():
    clock = Clock()
    progress = Progress(Screen(on_terminal=False), [50, 100], clock)
    progress.layer_started(1, FitPlan(reconstruction=25.0), 50)
    assert progress.left(1, 0) is None
    play(progress, clock, 1, 50, 2.0)
    assert progress.left(1, 50) == pytest.approx(200.0)
    clock.now += 30  # embedding
    progress.layer_embedded(1, None)
    play(progress, clock, 2, 100, 1.0)
    assert progress.left(2, 90) == pytest.approx(10.0)


def test_the_time_left_counts_the_embeddings_to_come():
    clock = Clock()
    progress = Progress(Screen(on_terminal=False), [20, 20, 20], clock)
    play(progress, clock, 1, 20, 1.0)
    clock.now += 7
    progress.layer_embedded(1, None)
    play(progress, clock, 2, 20, 1.0)
    assert progress.left(2, 10) == pytest.approx(10 + 20 + 7)


def test_a_pipe_gets_lines_now_and_then():
    clock, screen = Clock(), Screen(on_terminal=False)
    progress = Progress(screen, [1000], clock)
    play(progress, clock, 1, 1000, 0.1)
    assert screen.sketches == []
    assert screen.notes[0] == "layer 1 of 1: 1000 steps"
    assert 8 <= len(screen.notes) - 2 <= 10
    assert screen.notes[1].startswith("  layer 1: step 100 of 1000, loss 8.00, 1 min 30 s left")
    slow = Screen(on_terminal=False)
    play(Progress(slow, [20], clock), clock, 1, 20, 100.0)
    assert len(slow.notes) - 2 == 19  # every step is more than a minute
    quick = Screen(on_terminal=False)
    play(Progress(quick, [20], clock), clock, 1, 20, 0.01)
    assert len(quick.notes) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.9, "60 s"),
     (60, "1 min 00 s"), (185, "3 min 05 s"),
     (8040, "2 h 14 min")],
)  # fmt: skip
def test_durations(seconds, words):
    assert duration(seconds) == words
