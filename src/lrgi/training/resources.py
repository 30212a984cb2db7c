"""What a fit may use. Nothing here changes its result: that is the plan's affair."""

from __future__ import annotations

from dataclasses import dataclass

from lrgi.errors import InputError
from lrgi.training.plan import setting


@dataclass(frozen=True)
class Resources:
    """How a fit is computed and kept, besides what it computes. Raises InputError for what cannot be."""

    memory_gib: float = setting(
        0.0, "memory to stay within; above 0, the tables of the layers stay on disk, mapped (0: no bound)"
    )
    scratch: str = setting("", "folder for large temporary files (default: the run directory)")
    snapshot_seconds: float = setting(
        60.0, "seconds of work that a kill may cost: how often the state of a fit is written down"
    )

    def __post_init__(self) -> None:
        for name in ("memory_gib", "snapshot_seconds"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise InputError(f"{name} must be a number of at least 0, got {value!r}; change it")

    @property
    def mapped_tables(self) -> bool:
        """Whether the tables between the layers are left on disk."""
        return self.memory_gib > 0
