"""Weights to begin with, other than random ones: those of a run, finished or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError
from lrgi.layers.stack import Stack
from lrgi.training.checkpoint import STATE, newest_weights


@dataclass(frozen=True)
class Beginning:
    """The weights of layers 1, 2, ... of a run; layers beyond them begin as usual."""

    path: Path
    layers: tuple[Mapping[str, Tensor], ...]

    @classmethod
    def of(cls, path: Path) -> Beginning:
        """The encoder of a finished run, or else the newest state of an unfinished one."""
        if (path / "encoder").is_dir():
            layers = [layer.state_dict() for layer in Encoder.load(path / "encoder").layers]
        else:
            layers = newest_weights(path / STATE)
        if not layers:
            raise FormatError(
                f"a run to start from must have weights, got {path}, which has none yet; name another run"
            )
        return cls(path, tuple(layers))

    @property
    def record(self) -> dict[str, Any]:
        """What a record says of it: where it lay, and a checksum of the weights."""
        digest = blake2b(digest_size=16)
        for weights in self.layers:
            for name, value in weights.items():
                digest.update(f"{name} {tuple(value.shape)} ".encode() + value.numpy().tobytes())
        return {"path": str(self.path), "checksum": digest.hexdigest()}

    def put_into(self, number: int, module: nn.Module) -> None:
        """Give layer `number`, or all layers of a stack, their weights."""
        numbered = enumerate(module.layers, 1) if isinstance(module, Stack) else [(number, module)]
        for at, layer in numbered:
            if at <= len(self.layers):
                self._load(at, layer)

    def _load(self, number: int, layer: nn.Module) -> None:
        try:
            layer.load_state_dict(dict(self.layers[number - 1]))
        except RuntimeError:
            raise InputError(
                f"the weights to start from must have the shapes of the settings, got layer {number} of "
                f"{self.path}, which has others; keep its kind, width and heads, and the columns of the graph"
            ) from None
