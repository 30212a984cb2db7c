"""Both predictor networks at once, as tasks: each takes a block of one network's hidden units all the way.

Most of a step's arithmetic is here. Layer by layer it would stop at a barrier eight times, and cut by rows
every task would add up a weight gradient of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from lrgi.objective import _kernels

Task = Callable[[], None]

_MOST_BLOCKS, _LEAST_UNITS = 4, 32  # of a network's hidden units: enough tasks for eight lanes


class Pass:
    """One way there and back for inputs [B, D] of two networks (W_in, b_in, W_out, b_out); b_out is left out.

    `parts[i]` [blocks, B, D] are, once its tasks are done, what network i's blocks add to its output, and
    on the way back to the gradient of its input.
    """

    def __init__(self, inputs: list[np.ndarray], weights: list[list[np.ndarray]], precision: int) -> None:
        self._inputs, self._weights, self._precision = inputs, weights, precision
        units, rows = len(weights[0][1]), len(inputs[0])
        blocks = max(1, min(_MOST_BLOCKS, units // _LEAST_UNITS))
        borders = [units * i // blocks for i in range(blocks + 1)]
        self._jobs = [(i, at, span) for at, span in enumerate(pairwise(borders)) for i in range(2)]
        self._hidden = {(i, at): np.empty((rows, b - a), inputs[0].dtype) for i, at, (a, b) in self._jobs}
        self.parts = [np.empty((blocks, *x.shape), x.dtype) for x in inputs]
        self.d_weights: list[list[np.ndarray]] = []

    def forward(self) -> list[Task]:
        """What makes the hidden values and the parts of the outputs."""
        return [partial(self._forward, *job) for job in self._jobs]

    def backward(self, d_out: list[np.ndarray]) -> list[Task]:
        """What makes the gradients of the weights, and the parts of those of the inputs, in new arrays."""
        self.parts = [np.empty_like(part) for part in self.parts]
        self.d_weights = [
            [np.empty_like(w) for w in own[:3]] + [d.sum(0)]
            for own, d in zip(self._weights, d_out, strict=True)
        ]
        return [partial(self._backward, d_out, *job) for job in self._jobs]

    def _forward(self, i: int, at: int, units: tuple[int, int]) -> None:
        own = tuple(self._weights[i][:3])
        out = (self._hidden[i, at], self.parts[i][at])
        _kernels.network_forward(self._inputs[i], own, units, *out, self._precision)

    def _backward(self, d_out: list[np.ndarray], i: int, at: int, units: tuple[int, int]) -> None:
        hidden = self._hidden[i, at].view()
        hidden.flags.writeable = False
        w_in, _, w_out, _ = self._weights[i]
        both, written = (self._inputs[i], hidden), tuple(self.d_weights[i][:3])
        _kernels.network_backward(
            both, d_out[i], (w_in, w_out), units, written, self.parts[i][at], self._precision
        )
