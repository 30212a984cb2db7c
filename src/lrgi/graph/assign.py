"""Splits for graphs that come without one: whole graphs to each part."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.seed import stream


def split_by_graph(offsets: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.uint8]:
    """uint8[N]: about 15 % of the graphs for validation, 15 % for the test, the others to train on.

    `offsets` is a graph's: graph g is nodes offsets[g]:offsets[g+1]. The seed shuffles the graphs; each
    part gets at least one, so there must be three.
    """
    graphs = len(offsets) - 1
    if graphs < 3:
        raise InputError(
            f"a data set to split by graph must have at least 3 graphs, got {graphs}; split it at random"
        )
    held = max(1, round(0.15 * graphs))
    order = stream(seed, "split", "graphs").permutation(graphs)
    part = np.full(graphs, TRAIN, dtype=np.uint8)
    part[order[:held]] = TEST
    part[order[held : 2 * held]] = VALIDATION
    return np.repeat(part, np.diff(offsets))
