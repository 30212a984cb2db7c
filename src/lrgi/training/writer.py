"""What is written while a fit runs: a line and some scalars per step, and the seconds of every layer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from torch import nn

from lrgi.directory import flush_directory
from lrgi.distributed.collectives import present
from lrgi.errors import FormatError
from lrgi.graph.features import DenseTable
from lrgi.training.events import EventWriter
from lrgi.training.journal import Listener, StepRecord
from lrgi.training.plan import FitPlan

STEPS, EVENTS = "steps.jsonl", "events.out.tfevents."

_MOST_EVENTS = 1000  # per layer: enough for any curve
_BUFFER = 256 << 10  # bytes of steps.jsonl between writes
_FLUSH_SECONDS = 5.0


class RunWriter(Listener):
    """Writes what it hears into a directory.

    `mark` puts everything on the disk and says how far it came; a writer that is given a mark cuts off what
    was written after it, so that the steps taken again are not written twice.
    """

    def __init__(
        self, directory: Path, record: dict[str, Any], mark: Mapping[str, Any] | None = None
    ) -> None:
        mark = mark or {}
        self.record = record
        self._part = directory / f"{STEPS}.part"
        if (
            mark and not self._part.exists() and (directory / STEPS).exists()
        ):  # killed a moment before its end
            (directory / STEPS).replace(self._part)
        self._steps = _open_at(self._part, mark.get("steps"))
        self._digest = blake2b(self._steps.read(), digest_size=16)
        if mark and mark["steps_digest"] != self._digest.hexdigest():
            self._steps.close()
            raise FormatError(
                f"the steps of a run must be those it wrote, got {self._part}, which was changed or damaged; "
                "delete the run, or start it again with --overwrite"
            )
        self._events = EventWriter(directory, time.time, mark.get("events"))
        self._plan, self._every, self._sent = FitPlan(), 1, present().sent
        record["layers"] = list(mark.get("layers", []))
        self._earlier, self._total = float(mark.get("layer_seconds", 0)), int(mark.get("layer_steps", 0))
        self._seconds = float(mark.get("seconds", 0))
        self._opened = self._begun = self._last = self._flushed = time.monotonic()

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Start its clock."""
        self._plan, self._every = plan, max(1, steps // _MOST_EVENTS)
        self._begun = self._last = time.monotonic()

    def step_taken(self, record: StepRecord) -> None:
        """One line, and every so often one set of scalars."""
        now, place, block = time.monotonic(), record.place, record.block
        terms = {name: float(term) for name, term in record.terms._asdict().items()}
        line = {
            "layer": place.layer,
            "epoch": place.epoch,
            "step": place.step,
            "loss": float(record.terms.total(self._plan.weights)),
            **terms,
            "learning_rate": record.learning_rate,
            "nodes": len(block.nodes),
            "edges": len(block.indices),
            "seconds": round(now - self._last, 6),
        }
        if record.sent:
            line["sent_bytes"], self._sent = record.sent - self._sent, record.sent
        text = (json.dumps(line) + "\n").encode()
        self._steps.write(text)
        self._digest.update(text)
        self._total, self._last = self._total + 1, now
        if place.step % self._every == 0 or place.step == place.steps:
            names = ("loss", *terms, "learning_rate", "seconds")
            values = {f"{name}/layer {place.layer}": line[name] for name in names}
            self._events.scalars(place.step, values)
        if now - self._flushed > _FLUSH_SECONDS:
            self._flushed = now
            self._steps.flush()
            self._events.flush()

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """Its seconds, without embedding."""
        seconds = round(self._layer_seconds(), 3)
        self.record["layers"].append({"layer": layer, "steps": self._total, "fit_seconds": seconds})
        self._total, self._earlier = 0, 0.0
        self._begun = self._last = time.monotonic()

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """The seconds of embedding with it, in the process that ended it."""
        if "embed_seconds" not in self.record["layers"][layer - 1]:
            self.record["layers"][layer - 1]["embed_seconds"] = round(time.monotonic() - self._last, 3)
        self._begun = self._last = time.monotonic()

    @property
    def seconds(self) -> float:
        """Of all processes that worked on the run, as far as their work was kept."""
        return self._seconds + time.monotonic() - self._opened

    def mark(self) -> dict[str, Any]:
        """Everything to the disk; how far it came, for the writer that goes on from here."""
        self._steps.flush()
        os.fsync(self._steps.fileno())
        return {
            "steps": self._steps.tell(),
            "steps_digest": self._digest.hexdigest(),
            "events": self._events.mark(),
            "layers": [dict(layer) for layer in self.record["layers"]],
            "layer_steps": self._total,
            "layer_seconds": round(self._layer_seconds(), 3) if self._total else 0.0,
            "seconds": round(self.seconds, 3),
        }

    def finish(self) -> None:
        """Close, and give steps.jsonl its name."""
        self.mark()
        self.close()
        self._part.replace(self._part.with_name(STEPS))
        flush_directory(self._part.parent)

    def close(self) -> None:
        """Hand everything to the system."""
        if not self._steps.closed:
            with self._events, self._steps:
                self._steps.flush()

    def _layer_seconds(self) -> float:
        return self._earlier + time.monotonic() - self._begun


def mark_of(directory: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """The mark at the end of a finished run, whose steps and events lie in `directory`."""
    steps, events = directory / f"{STEPS}.part", sorted(directory.glob(f"{EVENTS}*"))
    return {
        "steps": steps.stat().st_size,
        "steps_digest": blake2b(steps.read_bytes(), digest_size=16).hexdigest(),
        "events": {
            "file": events[-1].name,
            "bytes": events[-1].stat().st_size,
            "digest": blake2b(events[-1].read_bytes(), digest_size=16).hexdigest(),
        }
        if events
        else None,
        "layers": list(record["layers"]),
        "seconds": record["seconds"],
    }


def _open_at(path: Path, size: int | None) -> Any:
    """A file to append to, cut to a size; new without one. It stands at its beginning, to be read once."""
    file = path.open("w+b" if size is None or not path.exists() else "r+b", buffering=_BUFFER)
    if size is not None:
        file.truncate(min(size, path.stat().st_size))
    return file
