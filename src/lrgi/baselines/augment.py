"""Views of a block that methods of invariance compare: fewer edges, fewer columns; and rows in disorder.

Every draw comes from a generator that is handed in, a function of (seed, method, step).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.layers.rows import Rows
from lrgi.sampling.block import Block, Hop
from lrgi.training.objective import FittedModule, outermost_first


@dataclass(frozen=True)
class Shares:
    """What an augmented view leaves out: shares of the edges and of the feature columns."""

    edges: float
    columns: float

    def __post_init__(self) -> None:
        check_share("the share of edges to drop", self.edges)
        check_share("the share of columns to mask", self.columns)


def check_share(what: str, value: float) -> None:
    """Raise InputError for what is no share from 0 to below 1."""
    if not 0 <= value < 1:
        raise InputError(f"{what} must be from 0 to below 1, got {value}; try 0.2")


def augmented(
    table: Table, block: Block, encoder: FittedModule, shares: Shares, random: np.random.Generator
) -> tuple[Rows, list[Hop]]:
    """One random view of a block: what an encoder is applied to."""
    rows = mask_columns(Rows.of(table, block, str(encoder.device)), shares.columns, random)
    return rows, outermost_first(drop_edges(block, shares.edges, random))


def drop_edges(block: Block, share: float, random: np.random.Generator) -> Block:
    """The block without a random share of its edges, each direction of an edge by itself."""
    if share == 0:
        return block
    kept = random.random(len(block.indices), dtype=np.float32) >= share
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])
    return replace(block, indptr=before[block.indptr], indices=block.indices[kept])


def mask_columns(rows: Rows, share: float, random: np.random.Generator) -> Rows:
    """The rows with a random share of the columns zero, the same ones in all; nothing is copied."""
    if share == 0:
        return rows
    kept = (random.random(rows.width, dtype=np.float32) >= share).astype(np.float32)
    return replace(rows, kept=kept if rows.kept is None else rows.kept * kept)


def shuffle_rows(rows: Rows, random: np.random.Generator) -> Rows:
    """The same rows in random order; nothing is copied."""
    order = random.permutation(rows.count).astype(np.int32)
    return replace(rows, nodes=order if rows.nodes is None else rows.nodes[order])
