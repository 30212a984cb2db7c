"""The linear probe of `linear.py` on many splits of one table at once, where the table is.

All splits' classifiers are trained side by side in one batched matrix product per direction, on the CPU or on
an accelerator; the rows of a split are gathered once. The rules are those of `linear.py` (standardised by
the training rows, full-batch Adam, the test at the best validation score), to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from lrgi.probe.data import Labels
from lrgi.probe.linear import SMALL, ProbePlan, first_weights, one_thread_if
from lrgi.probe.scores import roc_auc

_BUDGET = {"cpu": 1 << 28, "cuda": 1 << 32}  # bytes of gathered rows at once
_ROWS = 1 << 18  # of the table scored at once


@dataclass(frozen=True, eq=False)
class Task:
    """One split: rows and labels of its three parts. Training rows are those of the training table."""

    train: npt.NDArray[np.int64]
    validation: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]
    seed: int = 0  # draws the classifier's first weights


@dataclass(frozen=True)
class Scores:
    """Per task: the metric's best validation score and its test score, and the same of further metrics."""

    metric: str
    validation: tuple[float, ...]
    test: tuple[float, ...]
    further: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]


def probe_tasks(
    tables: tuple[Tensor, Tensor],
    labels: tuple[Labels, Labels],
    tasks: Sequence[Task],
    plan: ProbePlan | None = None,
    further: Sequence[str] = (),
) -> Scores:
    """Probe the tables (of training rows; of the others), whose labels are handed over in the same order.

    `further` may name "roc_auc", for labels of two classes.
    """
    plan = plan or ProbePlan()
    many = labels[0].ndim == 2
    classes = labels[0].shape[1] if many else 1 + int(max(label.max() for label in labels))
    truth = [torch.from_numpy(np.array(label)).to(tables[0].device) for label in labels]
    found: list[tuple[Any, ...]] = []
    for group in _groups(tasks, tables):
        run = _Run(tables, (truth[0], truth[1]), group, classes, plan)
        with one_thread_if(run.x.numel() * classes < SMALL):
            run.train()
        found += run.scores(further)
    sizes = range(1 + len(further))
    columns = [tuple(zip(*(one[i] for one in found), strict=True)) for i in sizes]
    parts = [(tuple(map(float, c[0])), tuple(map(float, c[1]))) for c in columns]
    metric = "micro_f1" if many else "accuracy"
    return Scores(metric, *parts[0], further=dict(zip(further, parts[1:], strict=True)))


class _Run:
    """Tasks of one size: S classifiers [S, C, d + 1], whose last column is the bias."""

    def __init__(
        self,
        tables: tuple[Tensor, Tensor],
        truth: tuple[Tensor, Tensor],
        tasks: Sequence[Task],
        classes: int,
        plan: ProbePlan,
    ) -> None:
        self.table, self.truth, self.tasks, self.plan = tables[1], truth, tasks, plan
        device, self.classes, self.many = tables[0].device, classes, truth[0].ndim == 2
        rows = torch.from_numpy(np.stack([task.train for task in tasks])).to(device)
        x = tables[0][rows]
        self.mean, self.deviation = _moments(x, plan.standardize)
        self.x = self._standardised(x)
        self.y = self._targets(truth[0][rows])
        held = torch.from_numpy(np.stack([task.validation for task in tasks])).to(device)
        self.held_x, self.held_y = self._standardised(tables[1][held]), truth[1][held]
        columns = tables[0].shape[1]
        drawn = [first_weights(columns, classes, (task.seed,)) for task in tasks]
        self.weights = torch.cat(drawn).to(device)
        self.best = self.weights.clone()
        self.best_score = torch.full((len(tasks),), -1.0, dtype=torch.float64, device=device)

    def train(self) -> None:
        """Full-batch Adam; the best weights so far are kept, and nothing waits for the device."""
        plan, weights = self.plan, self.weights.requires_grad_()
        adam = torch.optim.Adam([weights], lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True)
        size = self.x.shape[1] * (self.classes if self.many else 1)
        for epoch in range(1, plan.epochs + 1):
            with torch.no_grad():
                logits = weights @ self.x.mT
                error = (torch.sigmoid(logits) if self.many else torch.softmax(logits, 1)).sub_(self.y)
                weights.grad = torch.baddbmm(self.x.new_zeros(1), error, self.x, beta=0, alpha=1 / size)
            adam.step()
            if epoch % plan.evaluate_every == 0 or epoch == plan.epochs:
                self._look(weights.detach())

    def _look(self, weights: Tensor) -> None:
        score = self._score(weights @ self.held_x.mT, self.held_y)
        better = score > self.best_score
        self.best_score = torch.where(better, score, self.best_score)
        self.best = torch.where(better[:, None, None], weights, self.best)

    def _score(self, logits: Tensor, truth: Tensor) -> Tensor:
        """Of every task, float64[S]: as `scores.accuracy` or `scores.micro_f1`."""
        if not self.many:
            return (logits.argmax(1) == truth).double().mean(1)
        guess, real = logits > 0, truth.mT > 0
        hits = (guess & real).sum((1, 2)).double()
        marked = (guess.sum((1, 2)) + real.sum((1, 2))).double()
        return torch.where(marked > 0, 2 * hits / marked.clamp(min=1), torch.zeros_like(hits))

    def scores(self, further: Sequence[str]) -> list[tuple[Any, ...]]:
        """Per task: (validation, test) of the metric and of every further one."""
        validation = self.best_score.cpu().numpy()
        logits = self._all_logits()
        found = []
        for at, task in enumerate(self.tasks):
            rows = torch.from_numpy(task.test).to(logits.device)
            test = self._score(logits[at][:, rows][None], self.truth[1][rows][None])
            row: tuple[Any, ...] = ((float(validation[at]), float(test[0])),)
            for _ in further:
                row += (tuple(_area(logits[at], self.truth[1], r) for r in (task.validation, task.test)),)
            found.append(row)
        return found

    def _all_logits(self) -> Tensor:
        """[S, C, N] of the whole table: standardisation is folded into the weights, so no row is copied."""
        folded = self.best[..., :-1] / self.deviation
        bias = self.best[..., -1] - (folded * self.mean).sum(-1)
        spans = range(0, len(self.table), _ROWS)
        parts = [folded.flatten(0, 1) @ self.table[start : start + _ROWS].T for start in spans]
        return torch.cat(parts, 1).view(*bias.shape, -1) + bias[..., None]

    def _standardised(self, rows: Tensor) -> Tensor:
        """Rows [S, n, d + 1] with a last column of ones, which the bias meets."""
        return functional.pad(rows.sub_(self.mean).div_(self.deviation), (0, 1), value=1.0)

    def _targets(self, truth: Tensor) -> Tensor:
        """[S, C, n] of 0 and 1."""
        if self.many:
            return truth.mT.to(torch.float32)
        return functional.one_hot(truth, self.classes).mT.to(torch.float32).contiguous()


def _moments(x: Tensor, standardize: bool) -> tuple[Tensor, Tensor]:
    """Mean and population deviation [S, 1, d] of rows [S, n, d]; a constant column gets deviation 1."""
    if not standardize:
        return torch.zeros_like(x[:, :1]), torch.ones_like(x[:, :1])
    mean = x.mean(1, keepdim=True, dtype=torch.float64)
    square = torch.stack([(one.double() - m).square_().mean(0) for one, m in zip(x, mean, strict=True)])
    deviation = square.sqrt_()[:, None]
    constant = (deviation <= 1e-7 * mean.abs()) | (deviation == 0)
    return mean.float(), torch.where(constant, torch.ones_like(deviation), deviation).float()


def _area(logits: Tensor, truth: Tensor, rows: npt.NDArray[np.int64]) -> float:
    """Area under the ROC curve of the second class against the first."""
    at = torch.from_numpy(rows).to(logits.device)
    values = (logits[1] - logits[0])[at]
    return roc_auc(truth[at].cpu().numpy(), values.cpu().numpy())


def _groups(tasks: Sequence[Task], tables: tuple[Tensor, Tensor]) -> Iterator[list[Task]]:
    """Neighbouring tasks of one size, as many as fit the budget."""
    columns = tables[0].shape[1] + 1
    budget = _BUDGET.get(tables[0].device.type, 1 << 30)
    for (train, validation), alike in groupby(tasks, lambda task: (len(task.train), len(task.validation))):
        most = max(1, budget // (8 * (train + validation) * columns))
        kept = list(alike)
        yield from (kept[start : start + most] for start in range(0, len(kept), most))
