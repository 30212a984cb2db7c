"""The progress of a fit: a bar with the time that is left on a terminal, plain lines in a pipe."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence

from torch import nn

from lrgi.cli.console import Console
from lrgi.graph.features import DenseTable
from lrgi.training.journal import Listener, StepRecord
from lrgi.training.plan import FitPlan

_WARM = 5  # first steps of a layer that say nothing about the others: kernels are compiled in them
_RECENT = 200  # steps that the speed is measured on
_REDRAW = 0.1  # seconds between two pictures of the bar
_LEAST, _MOST = 5.0, 60.0  # seconds between two lines in a pipe: 10 % of a layer, but not too often or rarely
_BAR = 24


class Progress(Listener):
    """Shows where a fit is; `steps` are those of every layer, so the time left is for all of them."""

    def __init__(
        self, console: Console, steps: Sequence[int], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._console, self._steps, self._clock = console, list(steps), clock
        self._bar = console.on_terminal
        self._weights = FitPlan().weights
        self._begun = self._drawn = self._lined = clock()
        self._fitted_at, self._embedding = 0.0, 0.0
        self._line_step = 0
        self._loss = float("nan")
        self._times: deque[float] = deque(maxlen=_RECENT)

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """A new layer has a speed of its own: the table below it may have other columns."""
        self._weights = plan.weights
        self._begun = self._lined = self._clock()
        self._line_step = 0
        self._times.clear()
        if not self._bar:
            self._console.note(f"layer {layer} of {len(self._steps)}: {steps} steps")

    def step_taken(self, record: StepRecord) -> None:
        """Now and then a picture or a line."""
        now, place = self._clock(), record.place
        if place.step >= _WARM:
            self._times.append(now)
        last = place.step == place.steps
        if not (last or now - self._drawn >= _REDRAW):
            return
        self._drawn = now
        self._loss = float(record.terms.total(self._weights))
        if self._bar:
            self._console.sketch(self._picture(place.layer, place.step, place.steps))
        elif not last and self._line_is_due(now, place.step, place.steps):
            self._lined, self._line_step = now, place.step
            self._console.note("  " + self._words(place.layer, place.step, place.steps))

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """One line that stays."""
        now = self._clock()
        if self._bar:
            self._console.sketch("")
        steps = self._steps[layer - 1]
        self._console.note(
            f"layer {layer} of {len(self._steps)} fitted: {steps} steps in {duration(now - self._begun)}, "
            f"loss {self._loss:.2f} at the end"
        )
        self._fitted_at = now

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """How long embedding takes belongs to the time left, for the layers to come."""
        self._embedding = self._clock() - self._fitted_at

    def left(self, layer: int, step: int) -> float | None:
        """Seconds until the last layer is fitted, from the speed of recent steps; None while unknown."""
        if len(self._times) < 2 or self._times[-1] == self._times[0]:
            return None
        pace = (self._times[-1] - self._times[0]) / (len(self._times) - 1)
        later = sum(self._steps[layer:])
        embeddings = (len(self._steps) - layer) * self._embedding
        return pace * (self._steps[layer - 1] - step + later) + embeddings

    def _line_is_due(self, now: float, step: int, steps: int) -> bool:
        waited = now - self._lined
        return waited >= _MOST or (waited >= _LEAST and step - self._line_step >= 0.1 * steps)

    def _words(self, layer: int, step: int, steps: int) -> str:
        left = self.left(layer, step)
        time_left = "" if left is None else f", {duration(left)} left for all layers"
        return f"layer {layer}: step {step} of {steps}, loss {self._loss:.2f}{time_left}"

    def _picture(self, layer: int, step: int, steps: int) -> str:
        filled = _BAR * step // steps
        left = self.left(layer, step)
        text = (
            f"layer {layer} of {len(self._steps)}  [{'#' * filled}{'.' * (_BAR - filled)}]  "
            f"{100 * step // steps:3d} %  loss {self._loss:.2f}  "
            + ("measuring the speed" if left is None else f"{duration(left)} left for all layers")
        )
        return text[: shutil.get_terminal_size().columns - 1]


def duration(seconds: float) -> str:
    """In words as short as they can be honest: 8.2 s, 3 min 05 s, 2 h 14 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
