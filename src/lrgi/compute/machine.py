"""What the numbers of a record depend on beside its settings: versions and hardware."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from lrgi.errors import InputError


def describe_machine() -> dict[str, Any]:
    """Versions and hardware together; JSON."""
    return {**hardware(), **versions()}


def device_called(name: str) -> torch.device:
    """The device of that name; InputError where there is none on this machine."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"device must be one that torch finds here, got {name!r} ({reason}); use cpu"
        ) from error
    return device


def versions() -> dict[str, str]:
    """Of this package, of what it computes with, and of Python."""
    return {
        **{name: _version(name) for name in ("lrgi", "torch", "numpy", "numba")},
        "python": platform.python_version(),
    }


def hardware() -> dict[str, Any]:
    """The processor's name, the cores this process may use, the memory, and torch's threads now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _cpu(),
        "cores": cores,
        "memory_gib": _memory_gib(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "unknown"


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None
