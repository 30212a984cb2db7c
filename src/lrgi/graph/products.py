"""A graph of ogbn-products' size and shape, drawn from a seed and written straight into a directory.

Counted as the paper counts: a batch's nodes are distinct, and every node reads its sampled neighbours
once, when it is first met (docs/decisions/0005). Its published figures fit no other way of counting.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgi.compute.threads import run_tasks
from lrgi.errors import InputError
from lrgi.graph import _products_kernels as kernels
from lrgi.graph._planting import Floats, Ints, community_bounds, heavy_tail
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.graph.store import GraphFiles, new_graph
from lrgi.seed import key, stream

NODES, EDGES, FEATURES, CLASSES = 2_449_029, 61_859_140, 100, 47
TRAINING, VALIDATING = 196_615, 39_323  # the rest are test nodes
SMALLEST = 0.002  # below it a community of the training part cannot hold its edges

_TRAINING_DEGREE, _TRAINING_MEDIAN, _TRAINING_LARGEST = 57.0, 38.0, 5200.0
_OUTER_DEGREE, _OUTER_LARGEST = 50.0, 13_300.0  # of a training node, towards the others
_MEDIAN, _LARGEST = 26.0, 6000.0  # of the others
_COMMUNITY = 2450  # nodes, of which about 200 are training nodes
_EDGES_PER_TASK, _ROWS_PER_CHUNK = 1 << 20, 1 << 16
_ROUNDS = 200
_INSIDE, _ACROSS = 0.7, 0.1  # shares of the edges within a community, and to its partner
_CLASS_SKEW, _PURITY = 1.2, (0.65, 0.98)
_RANK, _CLASS_SIGNAL, _COMMUNITY_SIGNAL, _NOISE = 24, 0.28, 0.85, 1.0

Rows = NDArray[np.float32]
Shares = tuple[NDArray[Any], ...]  # per community: edges inside, edges across, the partner


@dataclass(frozen=True)
class _Side:
    """Training nodes, or the others: in the order of their communities, numbered from `first`."""

    first: int
    weights: Floats  # running sums, one more than nodes
    guide: Ints
    bounds: Ints
    community: Ints

    @classmethod
    def of(cls, first: int, weights: Floats, bounds: Ints) -> _Side:
        running = np.concatenate([[0.0], np.cumsum(weights)])
        cells = np.arange(2 * len(weights) + 1) * (running[-1] / (2 * len(weights)))
        guide = np.minimum(np.searchsorted(running, cells, side="right") - 1, len(weights) - 1)
        return cls(first, running, guide, bounds, np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)))


@dataclass(frozen=True)
class Sizes:
    """How many of everything, at a scale from SMALLEST to 1."""

    nodes: int
    edges: int
    training: int
    validating: int

    @classmethod
    def at(cls, scale: float) -> Sizes:
        """The published numbers times the scale; InputError for a scale that is no such share."""
        if not SMALLEST <= scale <= 1:
            raise InputError(f"scale must lie in {SMALLEST} to 1, got {scale}; 1 is ogbn-products' size")
        return cls(*(round(scale * count) for count in (NODES, EDGES, TRAINING, VALIDATING)))

    @property
    def inner(self) -> int:
        """Edges between training nodes."""
        return round(self.training * _TRAINING_DEGREE / 2)

    @property
    def outer(self) -> int:
        """Edges between a training node and another."""
        return round(self.training * _OUTER_DEGREE)


def write_products(
    path: str | os.PathLike[str], scale: float = 1.0, seed: int = 0, *, overwrite: bool = False
) -> None:
    """Write a graph directory shaped like ogbn-products; `scale` 1 is its full size.

    The edges are drawn as keys of 8 bytes, sorted, and written to the mapped directory one after the
    other: in memory they are never more than once. Communities lead to the classes only in part.
    """
    sizes = Sizes.at(scale)
    with new_graph(path, "products" if scale == 1 else f"products-{scale:g}", overwrite=overwrite) as files:
        training, others, shares = _sides(sizes, seed)
        order = stream(seed, "products", "order").permutation(sizes.nodes)  # ids say nothing
        _write_edges(files, _draw_edges(sizes, (training, others), shares, order, seed), sizes.nodes)
        community = np.empty(sizes.nodes, dtype=np.int32)
        community[order] = np.concatenate([training.community, others.community])
        labels = _write_labels(files, community, seed)
        _write_features(files, labels, community, seed)
        _write_split(files, order, sizes, seed)


def _sides(sizes: Sizes, seed: int) -> tuple[_Side, _Side, Shares]:
    """Both sides of the same communities, and where edges lead from each community."""
    rng = stream(seed, "products", "communities")
    count = max(2, sizes.nodes // _COMMUNITY)
    rest = sizes.nodes - sizes.training
    bounds = community_bounds(sizes.training, count, 0.8, rng)
    # Where the popular nodes are is not where the others are: their sizes agree only in part.
    share = np.diff(bounds) ** 0.7 * np.exp(0.5 * rng.standard_normal(count))
    inner = np.cumsum(share / share.sum()) * (rest - count)
    other_bounds = np.concatenate([[0], np.rint(inner).astype(np.int64) + np.arange(1, count + 1)])
    largest = min(_TRAINING_LARGEST, sizes.training / 4)
    popular = heavy_tail(sizes.training, _TRAINING_DEGREE, _TRAINING_MEDIAN, largest, rng)
    mean = (2 * (sizes.edges - sizes.inner) - sizes.outer) / rest
    plain = heavy_tail(rest, mean, _MEDIAN / 45.6 * mean, min(_LARGEST, rest / 4), rng)
    shares = (np.full(count, _INSIDE), np.full(count, _ACROSS), rng.permutation(count))
    return _Side.of(0, popular, bounds), _Side.of(sizes.training, plain, other_bounds), shares


def _outer_side(training: _Side, sizes: Sizes) -> _Side:
    """The training nodes with their weights towards the others: a hub has most of its edges there."""
    weights = np.diff(training.weights) ** 1.3
    for _ in range(8):  # clipping lowers the mean
        weights = np.minimum(weights * (_OUTER_DEGREE / weights.mean()), min(_OUTER_LARGEST, sizes.nodes / 8))
    return _Side.of(0, weights, training.bounds)


def _draw_edges(sizes: Sizes, sides: tuple[_Side, _Side], shares: Shares, order: Ints, seed: int) -> Ints:
    """Exactly the edges asked for, as sorted keys low * N + high."""
    training, others = sides
    keys = np.empty(sizes.edges, dtype=np.int64)
    parts = (
        (training, training, sizes.inner),
        (_outer_side(training, sizes), others, sizes.outer),
        (others, others, sizes.edges - sizes.inner - sizes.outer),
    )
    start = 0
    for number, (source, goal, count) in enumerate(parts):
        draw = partial(_draw, source, goal, shares, order)
        _fill_distinct(keys[start : start + count], draw, partial(key, seed, "products", "edges", number))
        start += count
    keys.sort()
    return keys


def _draw(source: _Side, goal: _Side, shares: Shares, order: Ints, word: np.uint64, keys: Ints) -> None:
    """Fill `keys` with draws that are functions of (word, place) alone."""
    sources = (source.weights, source.guide, source.community, source.first)
    goals = (goal.weights, goal.guide, goal.bounds, goal.first)
    spans = [(at, min(at + _EDGES_PER_TASK, len(keys))) for at in range(0, len(keys), _EDGES_PER_TASK)]
    run_tasks(lambda i: kernels.draw_keys(sources, goals, shares, order, word, spans[i], keys), len(spans))


def _fill_distinct(
    keys: Ints, draw: Callable[[np.uint64, Ints], None], word: Callable[[int], np.uint64]
) -> None:
    """Draw what is missing until all keys are distinct; they end up sorted."""
    found = 0
    for again in range(_ROUNDS):
        draw(word(again), keys[found:])
        keys.sort()
        found = int(kernels.distinct(keys))
        if found == len(keys):
            return
    raise InputError(
        f"scale must leave room for distinct edges within communities, got {len(keys) - found:,} of "
        f"{len(keys):,} missing; raise it"
    )


def _write_edges(files: GraphFiles, keys: Ints, nodes: int) -> None:
    indptr = files.create("indptr", (nodes + 1,), np.int64)
    kernels.count_ends(keys, nodes, indptr)
    indices = files.create("indices", (2 * len(keys),), np.int32)
    kernels.place_ends(keys, nodes, indptr[:-1].copy(), indices)


def _write_labels(files: GraphFiles, community: NDArray[Any], seed: int) -> NDArray[np.int32]:
    """Every community has a class of its own, which a share of its nodes has; the others have any class."""
    rng = stream(seed, "products", "labels")
    share = 1.0 / np.arange(1, CLASSES + 1) ** _CLASS_SKEW
    limits = np.cumsum(share / share.sum())
    mass = np.bincount(community)
    mixed = rng.permutation(len(mass))
    middle = (np.cumsum(mass[mixed]) - mass[mixed] / 2) / mass.sum()
    own = np.empty(len(mass), dtype=np.int32)
    own[mixed] = np.minimum(np.searchsorted(limits, middle), CLASSES - 1)
    purity = rng.uniform(*_PURITY, size=len(mass))
    labels: NDArray[np.int32] = own[community]
    strange = rng.random(len(community)) >= purity[community]
    drawn = np.minimum(np.searchsorted(limits, rng.random(int(strange.sum()))), CLASSES - 1)
    labels[strange] = drawn
    files.create("labels", (len(labels),), np.int64)[:] = labels
    return labels


def _write_features(files: GraphFiles, labels: NDArray[np.int32], community: NDArray[Any], seed: int) -> None:
    """Class and community in a few directions, what classes and communities do not explain, and noise."""
    rng = stream(seed, "products", "features")
    directions = _normal((_RANK, FEATURES), _RANK**-0.5, rng)
    classes = _normal((CLASSES, _RANK), _CLASS_SIGNAL, rng) @ directions
    groups = _normal((int(community.max()) + 1, _RANK), _COMMUNITY_SIGNAL, rng) @ directions
    rows = files.create("features", (len(labels), FEATURES), np.float32)
    for start in range(0, len(rows), _ROWS_PER_CHUNK):
        part = slice(start, start + _ROWS_PER_CHUNK)
        values = classes[labels[part]] + groups[community[part]]
        rows[part] = values + _normal(values.shape, _NOISE, rng)


def _normal(shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> Rows:
    values: Rows = rng.standard_normal(shape, dtype=np.float32)
    values *= np.float32(deviation)
    return values


def _write_split(files: GraphFiles, order: Ints, sizes: Sizes, seed: int) -> None:
    """The popular nodes are for training, the others at random for validation and test."""
    split = files.create("split", (sizes.nodes,), np.uint8)
    split[:] = TEST
    split[order[: sizes.training]] = TRAIN
    rest = stream(seed, "products", "split").permutation(order[sizes.training :])
    split[rest[: sizes.validating]] = VALIDATION
