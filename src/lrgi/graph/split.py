"""The split of a graph's nodes: one small number per node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError

NO_SPLIT, TRAIN, VALIDATION, TEST = 0, 1, 2, 3
SPLIT_NAMES = ("no split", "train", "validation", "test")


def split_from_masks(
    num_nodes: int,
    train: npt.ArrayLike | None = None,
    validation: npt.ArrayLike | None = None,
    test: npt.ArrayLike | None = None,
) -> npt.NDArray[np.uint8] | None:
    """One split array from up to three masks [N], None where no mask is given; masks must not overlap."""
    if train is None and validation is None and test is None:
        return None
    split = np.zeros(num_nodes, dtype=np.uint8)
    for part, given in ((TRAIN, train), (VALIDATION, validation), (TEST, test)):
        if given is None:
            continue
        mask = np.asarray(given)
        if mask.shape != (num_nodes,):
            raise InputError(
                f"{SPLIT_NAMES[part]} mask must have shape ({num_nodes},), got {mask.shape}; "
                "give one truth value per node"
            )
        mask = mask.astype(bool)
        taken = mask & (split != NO_SPLIT)
        if taken.any():
            node = int(np.argmax(taken))
            raise InputError(
                f"masks must not overlap, got node {node} in both {SPLIT_NAMES[split[node]]} "
                f"and {SPLIT_NAMES[part]}; put each node into one part"
            )
        split[mask] = part
    return split
