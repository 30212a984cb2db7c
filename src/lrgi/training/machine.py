"""What a run was made with: versions and hardware."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from lrgi import __version__


def versions() -> dict[str, str]:
    """Of this package, of what it computes with, and of Python."""
    others = {name: version(name) for name in ("torch", "numpy", "numba")}
    return {"lrgi": __version__, **others, "python": platform.python_version()}


def hardware() -> dict[str, Any]:
    """The processor's name, its cores, and the threads that torch uses now."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())
