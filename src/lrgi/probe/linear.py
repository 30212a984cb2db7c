"""The paper's linear evaluation: a linear classifier on frozen embeddings, nothing flows back.

Features are standardised by the training rows; full-batch Adam; the test score is taken at the
epoch with the best validation score. All seeds are trained at once, side by side in one matrix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lrgi.errors import InputError
from lrgi.probe.blocks import Block, Source, measure_scale, open_source, source_bytes, stored_values
from lrgi.probe.data import ProbeData, Protocol
from lrgi.probe.scores import accuracy, micro_f1
from lrgi.seed import torch_stream

SMALL = 200_000_000  # multiplications per epoch and direction


@dataclass(frozen=True)
class ProbePlan:
    """Every setting of the linear probe; the defaults are the paper's protocol."""

    epochs: int = field(default=1000, metadata={"help": "full-batch steps of the classifier"})
    learning_rate: float = field(default=1e-2, metadata={"help": "Adam's learning rate"})
    weight_decay: float = field(default=0.0, metadata={"help": "L2 penalty, added to Adam's gradient"})
    seeds: tuple[int, ...] = field(
        default=(0, 1, 2), metadata={"help": "one classifier per seed, which draws its first weights"}
    )
    standardize: bool = field(
        default=True, metadata={"help": "give every column mean 0 and deviation 1 over the training rows"}
    )
    evaluate_every: int = field(
        default=10, metadata={"help": "epochs between looks at the validation score (1: every epoch)"}
    )
    resident_mb: int = field(
        default=256, metadata={"help": "keep rows in memory up to this many MB, else read them every epoch"}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))
        for name, least in (("epochs", 1), ("evaluate_every", 1), ("resident_mb", 0)):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"{name} must be at least {least}, got {value}; raise it")
        if not 0 < self.learning_rate < float("inf"):
            raise InputError(f"learning_rate must be above 0, got {self.learning_rate}; try 0.01")
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"weight_decay must be 0 or more, got {self.weight_decay}; try 0")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds must be one or more different numbers, got {self.seeds}; try (0, 1, 2)")


@dataclass(frozen=True)
class ProbeResult:
    """Scores over the seeds, each from 0 to 1; a spread is the population deviation over the seeds."""

    metric: Literal["accuracy", "micro_f1"]
    protocol: Protocol
    seeds: tuple[int, ...]
    validation_scores: tuple[float, ...]
    test_scores: tuple[float, ...]
    best_epochs: tuple[int, ...]
    seconds: float

    @property
    def validation_mean(self) -> float:
        """Mean over seeds of the best validation score."""
        return float(np.mean(self.validation_scores))

    @property
    def validation_spread(self) -> float:
        """Deviation over seeds of the best validation score."""
        return float(np.std(self.validation_scores))

    @property
    def test_mean(self) -> float:
        """Mean over seeds of the test score at the best validation score."""
        return float(np.mean(self.test_scores))

    @property
    def test_spread(self) -> float:
        """Deviation over seeds of the test score."""
        return float(np.std(self.test_scores))

    def to_dict(self) -> dict[str, Any]:
        """Everything above under its own name, as plain values that json can write."""
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        for name in ("validation_mean", "validation_spread", "test_mean", "test_spread"):
            values[name] = getattr(self, name)
        return values


def linear_probe(data: ProbeData, plan: ProbePlan | None = None) -> ProbeResult:
    """Train one linear classifier per seed on the training part, and score it on the two others.

    Softmax cross-entropy and accuracy for one class per row; a sigmoid per class and micro-F1 for
    many labels. Scores are of the first look, every `evaluate_every` epochs, with the best
    validation score. Deterministic for a given number of torch threads (small
    probes use one).
    """
    plan = plan or ProbePlan()
    begun = time.perf_counter()
    scale = measure_scale(data.train, standardize=plan.standardize)
    budget = plan.resident_mb << 20
    train = open_source(data.train, scale, budget)
    left = budget - (source_bytes(data.train) if train.kept is not None else 0)
    validation = open_source(data.validation, scale, left)
    with one_thread_if(stored_values(data.train) * data.num_classes * len(plan.seeds) < SMALL):
        best = _train(data, plan, train, validation)
        test = _scores(open_source(data.test, scale, 0), best.weights, data)
    return ProbeResult(
        metric="micro_f1" if data.many_labels else "accuracy",
        protocol=data.protocol,
        seeds=plan.seeds,
        validation_scores=tuple(best.scores.tolist()),
        test_scores=tuple(test.tolist()),
        best_epochs=tuple(best.epochs.tolist()),
        seconds=time.perf_counter() - begun,
    )


def pool_results(results: Sequence[ProbeResult]) -> ProbeResult:
    """One result out of several of the same kind, such as one per random split."""
    kinds = {(result.metric, result.protocol) for result in results}
    if len(kinds) != 1:
        raise InputError(
            f"results must share one metric and protocol, got {sorted(kinds)}; pool probes of one kind"
        )
    metric, protocol = next(iter(kinds))
    return ProbeResult(
        metric=metric,
        protocol=protocol,
        seeds=tuple(seed for result in results for seed in result.seeds),
        validation_scores=tuple(score for result in results for score in result.validation_scores),
        test_scores=tuple(score for result in results for score in result.test_scores),
        best_epochs=tuple(epoch for result in results for epoch in result.best_epochs),
        seconds=sum(result.seconds for result in results),
    )


@dataclass(eq=False)
class _Best:
    """Per seed: the best validation score so far, its epoch, and the weights that made it."""

    weights: Tensor  # [S, C, d + 1]; the last column is the bias
    scores: npt.NDArray[np.float64]
    epochs: npt.NDArray[np.int64]

    def look(self, epoch: int, scores: npt.NDArray[np.float64], weights: Tensor) -> None:
        better = np.flatnonzero(scores > self.scores)
        self.weights[better] = weights[better]
        self.scores[better], self.epochs[better] = scores[better], epoch


def _train(data: ProbeData, plan: ProbePlan, train: Source, validation: Source) -> _Best:
    """Full-batch Adam, all seeds at once."""
    weights = first_weights(data.train.table.shape[1], data.num_classes, plan.seeds)
    seeds = len(plan.seeds)
    best = _Best(weights.clone(), np.full(seeds, -1.0), np.zeros(seeds, dtype=np.int64))
    first, second = torch.zeros_like(weights), torch.zeros_like(weights)
    for epoch in range(1, plan.epochs + 1):
        gradient = _gradient(train, weights, data)
        gradient.add_(weights, alpha=plan.weight_decay)
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        size = (second / (1 - 0.999**epoch)).sqrt_().add_(1e-8)
        weights.addcdiv_(first, size, value=-plan.learning_rate / (1 - 0.9**epoch))
        if epoch % plan.evaluate_every == 0 or epoch == plan.epochs:
            best.look(epoch, _scores(validation, weights, data), weights)
    return best


def first_weights(columns: int, classes: int, seeds: Sequence[int]) -> Tensor:
    """Uniform in +-1/sqrt(d), as torch.nn.Linear draws them; [S, C, d + 1]."""
    bound = max(1, columns) ** -0.5
    drawn = [torch.rand(classes, columns + 1, generator=torch_stream(seed, "probe")) for seed in seeds]
    return torch.stack(drawn).mul_(2 * bound).sub_(bound)


def _gradient(source: Source, weights: Tensor, data: ProbeData) -> Tensor:
    """Of the mean loss: (P - Y) @ X / n for softmax; for sigmoids, the mean is over classes too."""
    gradient = torch.zeros_like(weights)
    for block, span in source:
        labels = torch.tensor(source.part.labels[span])
        logits = _logits(block, weights)
        if data.many_labels:
            error = logits.sigmoid_().sub_(labels.T)
        else:
            error = torch.softmax(logits, dim=1)
            place = labels.to(torch.int64).expand(len(weights), 1, -1)
            error.scatter_add_(1, place, torch.full((1, 1, 1), -1.0).expand_as(place))
        gradient[..., :-1] += block.onto(error.flatten(0, 1)).view_as(gradient[..., :-1])
        gradient[..., -1] += error.sum(2)
    rows = len(source.part.rows)
    return gradient.div_(rows * data.num_classes if data.many_labels else rows)


def _logits(block: Block, weights: Tensor) -> Tensor:
    """[S, C, n]: classes before rows, which makes the softmax ten times faster than the other way."""
    product = block.times(weights[..., :-1].flatten(0, 1))
    return product.view(*weights.shape[:2], -1).add_(weights[..., -1:])


def _scores(source: Source, weights: Tensor, data: ProbeData) -> npt.NDArray[np.float64]:
    """The score of every seed on the rows of a source."""
    guesses = []
    for block, _ in source:
        logits = _logits(block, weights)
        guesses.append(((logits > 0).mT if data.many_labels else logits.argmax(dim=1)).numpy())
    guess, score = np.concatenate(guesses, axis=1), micro_f1 if data.many_labels else accuracy
    return np.array([score(source.part.labels, one) for one in guess])


@contextmanager
def one_thread_if(small: bool) -> Iterator[None]:
    """One torch thread for small probes: waiting for a second one beside a busy neighbour costs more."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if small else before)
        yield
    finally:
        torch.set_num_threads(before)
