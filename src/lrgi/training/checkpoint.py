"""Snapshots: what a fit needs to go on in another process, with the same bits as if it had never stopped.

state/snapshot-<n>-<checksum>.safetensors   the layer in the making: its weights, its objective's, the
                                            optimizer's moments, and where it is; the newest two are kept
state/layer-<l>-<checksum>.safetensors      a fitted layer
state/tables/U_<l>.npy, U_<l>.log           the tables between them (graph/sinks.py)

The checksum (blake2b, 16 bytes, over the whole file) is in the name, so one rename makes a file appear that
can be told from a torn one. What is damaged is passed over: the snapshot before it does, or the beginning.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from lrgi.directory import write_file
from lrgi.errors import FormatError
from lrgi.graph.features import DenseTable
from lrgi.training.journal import Keeper, Moving, StepRecord
from lrgi.training.resources import Resources
from lrgi.training.stopping import Stop
from lrgi.training.tables import TableStore

STATE = "state"
FORMAT, VERSION = "lrgi-snapshot", 1

_NAME = re.compile(r"(snapshot|layer)-(\d{1,9})-([0-9a-f]{32})\.safetensors")
_KEPT = 2  # snapshots: the newest, and the one before in case that is damaged
_SHARE = 0.02  # of the time that snapshots at the ends of epochs may take

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Position:
    """Where a fit is: `step` steps of `layer` are done, `fitted` are the files of the layers below."""

    layer: int = 1
    step: int = 0
    fitted: tuple[str, ...] = ()
    mark: Mapping[str, Any] = field(
        default_factory=dict
    )  # what the writer of the run's record needs to go on
    number: int = 0  # of the snapshot

    def words(self, path: Path) -> str:
        """Where a run goes on, for a person."""
        if self.step:
            return f"{path} goes on after step {self.step} of layer {self.layer}"
        return f"{path} goes on after layer {len(self.fitted)}"


class Checkpoint(Keeper):
    """Keeps the state of one fit in a directory, and takes it up from there.

    `key` says which fit it is: snapshots of another one are not taken up. `mark` is called at every snapshot,
    and what it returns is in it. `begin` gives the weights that a layer begins with, if not its own.
    """

    def __init__(
        self,
        directory: Path,
        resources: Resources,
        key: str,
        *,
        mark: Callable[[], Mapping[str, Any]] = dict,
        begin: Callable[[int, nn.Module], None] | None = None,
        stop: Stop | None = None,
    ) -> None:
        self.directory, self.resources, self.key = directory, resources, key
        self.mark, self._begin, self.stop = mark, begin, stop or Stop()
        tables = (Path(resources.scratch) / key if resources.scratch else directory) / "tables"
        super().__init__(TableStore(tables, mapped=resources.mapped_tables, heed=self._heed_between))
        directory.mkdir(parents=True, exist_ok=True)
        for torn in directory.glob(".*.part"):
            torn.unlink()
        self.position, self._state = self._newest()
        self._moving: Moving | None = None
        self._epoch, self._cost = 0, 0.0
        self._saved = time.monotonic()

    def resume(self, layer: int, moving: Moving, steps: int) -> int:
        """The state of the newest whole snapshot, where it is of this layer."""
        self._moving, self._epoch, position = moving, 0, self.position
        if layer <= len(position.fitted):
            put_back(moving.result, "", read_tensors(self.directory / position.fitted[layer - 1])[0])
            return steps
        if layer == position.layer and position.step:
            restore(moving, self._state)
            self._state = {}
            return position.step
        if self._begin is not None:
            self._begin(layer, moving.result)
        return 0

    def step_taken(self, record: StepRecord) -> None:
        """A snapshot when it is time, at the end of an epoch, or when asked to stop."""
        place = record.place
        if place.step == place.steps:
            return  # the layer is fitted: a moment later it is written as such
        waited = time.monotonic() - self._saved
        ended = self._epoch not in (0, place.epoch) and waited * _SHARE > self._cost
        self._epoch = place.epoch
        if ended or waited >= self.resources.snapshot_seconds or self.stop.asked:
            assert self._moving is not None
            self._save(Position(place.layer, place.step, self.position.fitted), state_of(self._moving))
            self.stop.heed(f"{place} is kept")

    def layer_fitted(self, layer: int, module: nn.Module) -> None:
        """Its weights, once and for all."""
        if layer <= len(self.position.fitted):
            return
        path = write_tensors(self.directory, f"layer-{layer}", weights_of(module), {})
        self._save(Position(layer + 1, 0, (*self.position.fitted, path.name)), {})
        self.stop.heed(f"layer {layer} is kept")

    def layer_embedded(self, layer: int, table: DenseTable) -> None:
        """That its table is there."""
        if layer == self.position.layer - 1 and not self.position.step:
            self._save(Position(self.position.layer, 0, self.position.fitted), {})
        self.stop.heed(f"layer {layer} and its table are kept")

    def discard(self) -> None:
        """When the fit is finished and its result is written."""
        if self.tables.directory is not None:
            shutil.rmtree(self.tables.directory, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _save(self, position: Position, state: Tensors) -> None:
        begun = time.monotonic()
        number = self.position.number + 1
        position = Position(position.layer, position.step, position.fitted, self.mark(), number)
        save_position(self.directory, self.key, position, state)
        self.position = position
        for old, path in snapshots(self.directory)[_KEPT:]:
            del old
            path.unlink(missing_ok=True)
        self._saved = time.monotonic()
        self._cost = self._saved - begun

    def _newest(self) -> tuple[Position, Tensors]:
        """The newest snapshot that is whole, belongs to this fit and whose layers are there."""
        last = 0
        for number, path in snapshots(self.directory):
            last = max(last, number)
            try:
                tensors, about = read_tensors(path)
                position = self._position(about, last)
                return position, tensors
            except FormatError:
                continue
        return Position(number=last), {}

    def _position(self, about: Mapping[str, Any], number: int) -> Position:
        try:
            fitted = tuple(about["fitted"])
            whole = about["key"] == self.key and all(map(_NAME.fullmatch, fitted))
            position = Position(int(about["layer"]), int(about["step"]), fitted, dict(about["mark"]), number)
        except (KeyError, TypeError, ValueError):
            whole = False
        if not whole:
            raise FormatError("a snapshot must be one of this fit, got another one's; start again")
        for name in position.fitted:
            read_tensors(self.directory / name)
        return position

    def _heed_between(self) -> None:
        self.stop.heed("what was embedded is kept")


def newest_weights(directory: Path) -> list[Tensors]:
    """The weights of every layer that a state holds, whatever fit it is of, as far as it went."""
    for _, path in snapshots(directory) if directory.is_dir() else ():
        with suppress(FormatError):
            tensors, about = read_tensors(path)
            parts = [read_tensors(directory / str(name))[0] for name in about.get("fitted", [])]
            parts.append({name[6:]: value for name, value in tensors.items() if name.startswith("layer.")})
            return [layer for part in parts if part for layer in _unstacked(part)]
    return []


def _unstacked(part: Tensors) -> list[Tensors]:
    """The layers of a stack's weights; those of a layer are its own."""
    if not all(name.startswith("layers.") for name in part):
        return [part]
    count = 1 + max(int(name.split(".")[1]) for name in part)
    starts = [f"layers.{i}." for i in range(count)]
    return [{n.removeprefix(start): v for n, v in part.items() if n.startswith(start)} for start in starts]


def save_position(directory: Path, key: str, position: Position, state: Tensors) -> None:
    """Write the snapshot of a position in the fit called `key`."""
    about = {
        "key": key,
        "layer": position.layer,
        "step": position.step,
        "fitted": list(position.fitted),
        "mark": position.mark,
    }
    write_tensors(directory, f"snapshot-{position.number}", state, about)


def is_snapshot_name(name: str) -> bool:
    """Whether a file of that name is a snapshot, or a layer, with its checksum."""
    return _NAME.fullmatch(name) is not None


def snapshots(directory: Path) -> list[tuple[int, Path]]:
    """(number, file) of what is named as a snapshot, newest first."""
    found = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    numbered = [(int(m[2]), path) for m, path in found if m is not None and m[1] == "snapshot"]
    return sorted(numbered, reverse=True)


def write_tensors(directory: Path, stem: str, tensors: Tensors, about: Mapping[str, Any]) -> Path:
    """Write a file whole, with its checksum in its name."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **about}, sort_keys=True)
    data = save(tensors, metadata={"lrgi": text})
    path = directory / f"{stem}-{blake2b(data, digest_size=16).hexdigest()}.safetensors"
    write_file(path, data)
    return path


def read_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors of such a file, and what is said of them; FormatError where a byte is not as written."""
    named = _NAME.fullmatch(path.name)
    try:
        with path.open("rb") as file:
            digest = blake2b(digest_size=16)
            while part := file.read(1 << 24):
                digest.update(part)
        if named is None or digest.hexdigest() != named[3]:
            raise ValueError("its checksum is not the one in its name")
        with safe_open(path, "pt") as opened:
            about = json.loads((opened.metadata() or {})["lrgi"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            raise ValueError(f"it is of format {about.get('format')!r}, version {about.get('version')!r}")
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EIO):
            raise  # a right or a handle is wanting: the file may well be whole
        raise FormatError(f"a snapshot must be there, got {path}, {error.strerror}; fit again") from error
    except (ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise FormatError(
            f"a snapshot must be whole, got {path}, which is not ({error}); fit again to make it again"
        ) from error
    return tensors, about


def weights_of(module: nn.Module, prefix: str = "") -> Tensors:
    """Its state by name, on the CPU, each tensor with memory of its own."""
    return {
        f"{prefix}{name}": value.detach().cpu().contiguous().clone()
        for name, value in module.state_dict().items()
    }


def put_back(module: nn.Module, prefix: str, tensors: Tensors) -> None:
    """The reverse; FormatError where the names or shapes are not the module's."""
    own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    try:
        module.load_state_dict(own)
    except (RuntimeError, KeyError) as error:
        raise FormatError(
            "a snapshot must hold the weights of its settings, got others; start again with --overwrite"
        ) from error


def state_of(moving: Moving) -> Tensors:
    """Everything that moves in a fit."""
    moments = {
        f"optimizer.{index}.{name}": value.detach().cpu().contiguous().clone()
        for index, entry in moving.optimizer.state_dict()["state"].items()
        for name, value in entry.items()
    }
    layer = weights_of(moving.layer, _prefix(moving))
    return {**layer, **weights_of(moving.objective, "objective."), **moments}


def restore(moving: Moving, tensors: Tensors) -> None:
    """Put a `state_of` back."""
    put_back(moving.layer, _prefix(moving), tensors)
    put_back(moving.objective, "objective.", tensors)
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            index, _, entry = rest.partition(".")
            state.setdefault(int(index), {})[entry] = value
    groups = moving.optimizer.state_dict()["param_groups"]
    moving.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _prefix(moving: Moving) -> str:
    """Of the weights that move: another one where they are not yet those of a layer of the encoder."""
    return "layer." if moving.layer is moving.result else "turned."
