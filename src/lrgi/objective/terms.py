"""What every loss hands over: its parts by name, and their weighted sum."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from lrgi.objective.infomax import Weights


class LossTerms(Protocol):
    """The parts of a loss, scalars. A `NamedTuple` of tensors with a `total` is one."""

    def _asdict(self) -> dict[str, Any]:
        """The parts by name."""

    def total(self, weights: Weights) -> Tensor:
        """The loss. `weights` are the plan's, which are Eq. 1's; other losses bring their own."""


def detached(terms: LossTerms) -> LossTerms:
    """The same parts, cut off from what they were computed from."""
    kind: Any = type(terms)
    parts: LossTerms = kind(**{name: part.detach() for name, part in terms._asdict().items()})
    return parts


def with_values(terms: LossTerms, values: Tensor) -> LossTerms:
    """Terms of the same kind with other values, in the order of their names."""
    kind: Any = type(terms)
    parts: LossTerms = kind(*values.unbind())
    return parts
