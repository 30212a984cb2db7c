"""The collapse alarm: looks at embeddings while they are fitted, says what goes wrong and what may help.

It computes both views of a batch anew, without gradients, so that the fit is not touched; how often depends
on what a look costs, so that all looks together take at most 2 % of the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lrgi.compute.threads import lanes
from lrgi.errors import CollapsedError
from lrgi.graph.features import Table
from lrgi.layers.aggregate import targets_and_mean
from lrgi.layers.layer import GraphLayer
from lrgi.layers.rows import Rows
from lrgi.layers.stack import Stack
from lrgi.sampling.block import Block
from lrgi.training.journal import Listener, Place, StepRecord
from lrgi.training.objective import outermost_first
from lrgi.training.plan import FitPlan

_SHARE = 0.02  # of the time that looking may take
_STILL = 1e-4  # a dimension stands still whose variance is below this share of the mean variance
_ALIKE = 0.5  # mean squared correlation of two dimensions from which on they say the same
_FALLEN = 0.5  # share of its highest value in this layer to which the effective rank may fall
_SMOOTH = 0.01  # mean cosine distance of a node to the mean of its neighbours
_RISEN = 3.0  # times the best loss, as a mean over the steps between two looks
_OFTEN = 3  # looks in a row at which the loss must be so high


class Look(NamedTuple):
    """What one look at a batch shows."""

    still: int  # dimensions that stand still
    columns: int
    rank: float  # effective rank
    alike: float  # mean squared correlation between different dimensions
    distance: float  # mean cosine distance of a node to the mean of its neighbours; nan where it is not known

    @classmethod
    def at(cls, u: Tensor, v: Tensor | None) -> Look:
        """Of the views u (and v) [B, D] of a batch."""
        centred = (u - u.mean(0)).double()
        squares = (centred.t() @ centred) / len(u)
        variance = squares.diagonal()
        still = int((variance <= _STILL * variance.mean()).sum())
        values = torch.linalg.eigvalsh(squares).clamp(min=0).sqrt()
        shares = values / values.sum().clamp(min=1e-30)
        rank = float(torch.exp(-(shares * shares.clamp(min=1e-30).log()).sum())) if values.sum() > 0 else 0.0
        scale = torch.where(variance > 0, variance, 1.0).rsqrt()
        between = ((squares * scale[:, None] * scale) ** 2).fill_diagonal_(0).sum()
        pairs = max(1, u.shape[1] * (u.shape[1] - 1))
        distance = math.nan if v is None else float(1 - nn.functional.cosine_similarity(u, v).mean())
        return cls(still, u.shape[1], rank, float(between) / pairs, distance)


class CollapseAlarm(Listener):
    """Tells, once for each layer and kind, what looks like a collapse; `stop` makes it an error.

    What it told is in `told`, for the record.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        stop: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._stop, self._clock = tell, stop, clock
        self.told: list[str] = []
        self._known: set[tuple[int, str]] = set()
        self._module: nn.Module | None = None
        self._table: Table | None = None

    def fit_begins(self, module: nn.Module, table: Table) -> None:
        """What to look at."""
        self._module, self._table = module, table

    def layer_started(self, layer: int, plan: FitPlan, steps: int) -> None:
        """Every layer has its own measure of what is normal."""
        self._plan, self._highest, self._best, self._high = plan, 0.0, math.inf, 0
        self._losses: list[float] = []
        self._cost, self._looked = 0.0, -math.inf
        self._settled = max(10, round(plan.warmup * steps))

    def step_taken(self, record: StepRecord) -> None:
        """A look, where the time since the last one allows it, and at the end of a layer."""
        place = record.place
        self._losses.append(float(record.terms.total(self._plan.weights)))
        now = self._clock()
        if now - self._looked < self._cost / _SHARE and place.step < place.steps:
            return
        self._loss_check(place)
        self._losses.clear()
        self._look_check(self._look(record.block), place)
        self._looked = self._clock()
        self._cost = self._looked - now

    def _look(self, block: Block) -> Look:
        module, table = self._module, self._table
        assert isinstance(module, GraphLayer | Stack)
        assert table is not None
        with torch.no_grad(), lanes():
            hops = outermost_first(block)
            u = module(Rows.of(table, block, str(module.device)), *hops[: module.hops])
            inner = hops[module.hops :]
            if inner:
                u, v = targets_and_mean(u, inner[-1]) if len(inner) == 1 else (u, None)
            else:
                v = None
        return Look.at(u[: block.num_targets].float().cpu(), None if v is None else v.float().cpu())

    def _loss_check(self, place: Place) -> None:
        mean = sum(self._losses) / len(self._losses)
        if mean > 0 and self._best < math.inf and mean > _RISEN * max(self._best, 1e-12):
            self._high += 1
        else:
            self._high = 0
        self._best = min(self._best, mean)
        if self._high >= _OFTEN and place.step > self._settled:
            self._alarm(
                place, "loss", f"the loss must fall, got {mean:.4g} after {self._best:.4g}",
                "the steps are too large", "lower --learning-rate, or raise --warmup",
            )  # fmt: skip

    def _look_check(self, look: Look, place: Place) -> None:
        settled = place.step >= min(self._settled, place.steps)
        self._highest = max(self._highest, look.rank)
        if look.still:
            self._alarm(
                place, "dead",
                f"every dimension must vary, got {look.still} of {look.columns} that stand still",
                "the variance term is too weak, or feature columns are constant",
                "raise --variance, lower --learning-rate, or drop constant columns",
            )  # fmt: skip
        if settled and look.rank < _FALLEN * self._highest:
            self._alarm(
                place, "rank",
                f"the effective rank must last, got {look.rank:.1f} after {self._highest:.1f} "
                f"of {look.columns} dimensions",
                "the dimensions begin to say the same", "raise --covariance and --variance",
            )  # fmt: skip
        if settled and look.alike > _ALIKE:
            self._alarm(
                place, "alike",
                f"dimensions must differ, got a mean squared correlation of {look.alike:.2f}",
                "the covariance term is too weak, or the input has few directions",
                "raise --covariance, or lower --width",
            )  # fmt: skip
        if settled and look.distance < _SMOOTH:
            self._alarm(
                place, "smooth",
                f"nodes must differ from their neighbours, got a mean cosine distance of {look.distance:.4f}",
                "the layers before have smoothed the graph away", "fit fewer layers, or use --layer sage",
            )  # fmt: skip

    def _alarm(self, place: Place, kind: str, what: str, cause: str, remedy: str) -> None:
        if (place.layer, kind) in self._known:
            return
        self._known.add((place.layer, kind))
        sentence = f"{what} at {place} (likely {cause}); {remedy}"
        self.told.append(sentence)
        if self._stop:
            raise CollapsedError(sentence)
        self._tell(f"warning: {sentence}")
