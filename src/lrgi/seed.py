"""The only source of randomness: streams that are pure functions of a seed and a path.

A path is a few integers or words, such as ("order", layer, epoch). The same seed and path give the
same numbers on any number of threads or processes and after a resume, and nothing needs storing.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import torch


def key(seed: int, *path: int | str) -> np.uint64:
    """A 64-bit key for kernels that draw their own numbers by counter."""
    return np.uint64(int.from_bytes(_digest(seed, path)[:8], "little"))


def stream(seed: int, *path: int | str) -> np.random.Generator:
    """A counter-based generator (Philox) of its own for this path."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(seed, path)[:16], "little")))


def torch_stream(seed: int, *path: int | str) -> torch.Generator:
    """A CPU torch generator of its own for this path; weights are drawn from these."""
    value = int.from_bytes(_digest(seed, path)[:8], "little")
    return torch.Generator().manual_seed(value & 0x7FFF_FFFF_FFFF_FFFF)


def _digest(seed: int, path: tuple[int | str, ...]) -> bytes:
    text = struct.pack("<q", seed) + b"\x00".join(repr(part).encode() for part in path)
    return hashlib.blake2b(text, digest_size=16).digest()
