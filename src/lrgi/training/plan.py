"""Every setting of a fit, frozen and checked. The command line's flags are made from these fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from lrgi.errors import InputError
from lrgi.objective.infomax import Weights
from lrgi.sampling.sample import ALL, Sampling

LAYER_KINDS = ("gat", "sage", "gcn", "plain-gcn")
FIT_ON = ("auto", "all", "train", "train+validation")
PREDICTORS = ("network", "closed")
INPUTS = ("auto", "principal", "given")
WHOLE = 0  # a batch size: every graph is one batch
PASSES, FEWEST_STEPS, MOST_STEPS = 10, 40, 200  # of a layer's fit, where nobody says how long
EVERY = 0  # a number of neighbours: all of them


def setting(default: Any, help: str, choices: tuple[str, ...] | None = None) -> Any:
    """A field of a settings object; the help text and the choices become those of its flag."""
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class FitPlan:
    """All that decides a fitted encoder, besides the graph. Raises InputError for what cannot be."""

    layers: int = setting(3, "how many layers to fit, one after the other (the paper's L)")
    width: int = setting(256, "numbers per node after every layer (D); a multiple of the heads")
    layer: str = setting("gat", "what a layer is", LAYER_KINDS)
    heads: int = setting(4, "attention heads of a gat layer")
    fit_on: str = setting(
        "auto",
        "nodes to fit on; auto: the training graphs of a data set of many graphs with a split, "
        "otherwise all nodes (labels are never read)",
        FIT_ON,
    )
    inputs: str = setting(
        "auto",
        "what the first layer is fitted on: the features in their principal directions, or as given; the "
        "encoder takes them as given either way; auto: as given where most values are zero",
        INPUTS,
    )
    batch_size: int = setting(512, "target nodes per step (B); 0: whole graphs, nothing is sampled")
    neighbours: int = setting(10, "sampled neighbours of a target (S_L); 0: all")
    next_neighbours: int = setting(5, "sampled neighbours of those (S_K); 0: all")
    updates: int = setting(
        0,
        "steps per layer, at least; rounded up to whole epochs (0: ten passes over the nodes, but 40 to 200 "
        "steps)",
    )
    epochs: int = setting(0, "passes over all nodes per layer; 0: as many as `updates` asks for")
    learning_rate: float = setting(2e-3, "AdamW's learning rate, at its highest")
    weight_decay: float = setting(1e-5, "AdamW's weight decay")
    warmup: float = setting(0.1, "share of a layer's steps in which the learning rate rises from 0")
    schedule: str = setting("cosine", "the learning rate after the warm-up", ("constant", "cosine"))
    reconstruction: float = setting(50.0, "weight of predicting u from v and v from u (lambda 1)")
    variance: float = setting(25.0, "weight of the variances' distance from 1 (lambda 2)")
    covariance: float = setting(1.0, "weight of the covariances (lambda 3)")
    predictors: str = setting(
        "closed",
        "what predicts one view from the other: the paper's networks, or a ridge regression solved in every "
        "step, which has nothing to train",
        PREDICTORS,
    )
    expansion: int = setting(8, "hidden width of network predictors, in multiples of the width")
    ridge: float = setting(0.1, "what closed predictors add to the covariances' diagonal")
    precision: str = setting("float32", "of the matrix products", ("float32", "bf16"))
    reduction: str = setting(
        "float32",
        "of the gradients that several processes send each other; bf16 halves what travels",
        ("float32", "bf16"),
    )
    device: str = setting("cpu", "where to compute: cpu, cuda, cuda:1, ...")
    seed: int = setting(0, "decides every random choice")
    per_layer: tuple[Mapping[str, Any], ...] = field(
        default=(),
        metadata={"help": "settings that differ: one mapping per layer, first layer first", "flag": False},
    )

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_ranges()
        given: Any = self.per_layer
        if not isinstance(given, list | tuple) or not all(isinstance(own, Mapping) for own in given):
            raise InputError(f"per_layer must be a list of settings by name, got {given!r}; correct it")
        object.__setattr__(self, "per_layer", tuple(dict(changes) for changes in given))
        if len(self.per_layer) > self.layers:
            raise InputError(
                f"per_layer must name at most {self.layers} layers, got {len(self.per_layer)}; "
                "raise layers or drop some"
            )
        for number in range(1, len(self.per_layer) + 1):
            self.for_layer(number)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> FitPlan:
        """A plan from JSON; a name that is no setting is refused."""
        known = {entry.name for entry in fields(cls)}
        for name in settings:
            if name not in known:
                raise InputError(
                    f"a setting must be one of {', '.join(sorted(known))}, got {name!r}; correct the name"
                )
        return cls(**settings)

    def for_layer(self, number: int) -> FitPlan:
        """The plan of one layer (from 1): its own settings in place of the common ones."""
        changes = self.per_layer[number - 1] if number <= len(self.per_layer) else {}
        for fixed in ("layers", "fit_on", "device", "seed", "per_layer"):
            if fixed in changes:
                raise InputError(f"per_layer must not set {fixed}, got it for layer {number}; set it for all")
        merged = {**asdict(self), **changes, "per_layer": ()}
        return FitPlan.from_mapping(merged)

    def to_mapping(self) -> dict[str, Any]:
        """JSON of all settings; `from_mapping` gives the same plan back."""
        settings = asdict(self)
        settings["per_layer"] = [dict(changes) for changes in self.per_layer]
        return settings

    def with_settings(self, **changes: Any) -> FitPlan:
        """A copy with some settings changed."""
        return replace(self, **changes)

    def epochs_of(self, batches: int) -> int:
        """Passes over so many batches that are made for one layer.

        Few nodes bear few passes: where the same ones come again and again, their noise is fitted too.
        """
        few = FEWEST_STEPS if self.batch_size else MOST_STEPS  # a whole graph is one batch
        updates = self.updates or min(max(PASSES * batches, few), MOST_STEPS)
        return self.epochs or math.ceil(updates / batches)

    @property
    def weights(self) -> Weights:
        """lambda 1 to 3."""
        return Weights(self.reconstruction, self.variance, self.covariance)

    @property
    def sampling(self) -> Sampling:
        """Two hops for any layer: S_L, then S_K."""
        return self.sampling_over(1, 1)

    def sampling_over(self, hops: int, further: int) -> Sampling:
        """S_L for as many hops as there are layers at once, and at least one; S_K for those further out."""
        near = max(hops, 1)
        fan_outs = (self.neighbours or ALL,) * near + (self.next_neighbours or ALL,) * (hops + further - near)
        return Sampling(self.batch_size, fan_outs)

    def _check_kinds(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.type == "int" and (isinstance(value, bool) or not isinstance(value, int)):
                raise InputError(f"{entry.name} must be a whole number, got {value!r}; round it")
            if entry.type == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise InputError(f"{entry.name} must be a number, got {value!r}; write it as 0.5 or 1e-3")
            choices = entry.metadata.get("choices")
            if choices and value not in choices:
                allowed = ", ".join(choices)
                raise InputError(f"{entry.name} must be one of {allowed}, got {value!r}; choose one")

    def _check_ranges(self) -> None:
        least = {"layers": 1, "width": 1, "heads": 1, "expansion": 1}
        least |= dict.fromkeys(("batch_size", "neighbours", "next_neighbours", "updates", "epochs"), 0)
        for name, low in least.items():
            if getattr(self, name) < low:
                raise InputError(f"{name} must be at least {low}, got {getattr(self, name)}; raise it")
        if self.batch_size == 1:
            raise InputError(
                "batch_size must be 0 or at least 2, got 1; a covariance needs two nodes, raise it"
            )
        for name in ("weight_decay", "reconstruction", "variance", "covariance"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be 0 or more, got {getattr(self, name)}; change it")
        for name in ("learning_rate", "ridge"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} must be above 0, got {getattr(self, name)}; try 1e-3")
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup must be a share from 0 to below 1, got {self.warmup}; try 0.1")
        if not -(2**63) <= self.seed < 2**63:
            raise InputError(f"seed must fit 64 bits, got {self.seed}; choose a smaller one")
        if self.layer == "gat" and self.width % self.heads:
            raise InputError(
                f"width must be divisible by the number of heads, got width {self.width} and "
                f"{self.heads} heads; choose a width that is a multiple of {self.heads}, or other heads"
            )
