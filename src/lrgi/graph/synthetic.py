"""Graphs made from a seed: the demo's planted communities, and one shaped like ogbn-products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lrgi.errors import InputError
from lrgi.graph._planting import Ints, Plan, community_bounds, draw_pairs, heavy_tail
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.graph.split import TEST, TRAIN, VALIDATION
from lrgi.seed import stream

Rows = NDArray[np.float32]


def planted_communities(
    nodes: int = 20_000, edges: int = 400_000, classes: int = 10, features: int = 64, seed: int = 0
) -> Graph:
    """The demo graph: many communities per class, told apart only in a few directions of noisy features.

    `edges` counts directed edges: 400,000 are 200,000 undirected pairs, exactly. Each class has 10
    communities (fewer in small graphs) of about 200 nodes and uneven size. Degrees are heavy-tailed
    (2 % of the nodes are isolated); a quarter of the edges lead anywhere, and a twentieth of the
    communities link mostly to a partner community instead of to themselves. The centres of classes
    and communities lie in 10 random directions, so that a linear classifier cannot part them all;
    beside them are nuisance in 8 directions and noise in all. Columns have about unit variance.
    Split 60 / 20 / 20 % at random.

    Measured at the defaults with the linear probe, seeds 0 and 1, whole graph: 0.41 and 0.35 on the
    features, 0.50 and 0.40 on their mean over neighbours, 0.67 and 0.56 after two such means, 0.74
    and 0.67 after three. Made in 0.1 s.
    """
    _check_sizes(nodes, classes, features)
    if edges < 2 or edges % 2:
        raise InputError(
            f"edges must be an even number of directed edges of at least 2, got {edges:,}; "
            "every undirected pair counts twice"
        )
    rng = stream(seed, "planted_communities")
    count = classes * max(1, min(10, nodes // (40 * classes)))
    partner, mixed = _partners(count, 0.05, rng)
    plan = Plan(
        weights=heavy_tail(nodes, edges / nodes, 0.65 * edges / nodes, max(nodes / 40, 4.0), rng),
        bounds=community_bounds(nodes, count, 0.5, rng),
        inside=np.where(mixed, 0.11, 0.64),
        across=np.where(mixed, 0.64, 0.11),
        partner=partner,
    )
    pairs = draw_pairs(plan, edges // 2, rng)
    community = plan.community()
    labels = community % classes
    directions = rng.standard_normal((10, features), dtype=np.float32) / np.float32(10**0.5)
    table = (_signal(labels, 0.2, 10, rng) + _signal(community, 0.55, 10, rng)) @ directions
    table += rng.standard_normal((nodes, features), dtype=np.float32)
    nuisance = rng.standard_normal((nodes, 8), dtype=np.float32)
    table += nuisance @ (0.6 * rng.standard_normal((8, features), dtype=np.float32))
    table /= table.std()
    return _shuffled("planted-communities", pairs, table, labels, _random_split(nodes, rng), rng)


def products_training(
    nodes: int = 196_615,
    mean_degree: float = 57,
    features: int = 100,
    seed: int = 0,
    *,
    classes: int = 47,
) -> Graph:
    """A graph shaped like the training part of ogbn-products, for measuring speed and memory.

    Every node is a training node. Communities have about 200 nodes and very uneven size; 70 % of
    the edges stay inside. Features are class signal, community signal and noise.

    Measured at the defaults, seeds 0 and 1: 11,207,054 directed edges; mean degree 57.0, median 39,
    largest 4,158 and 4,325; 10 % of the nodes below degree 10, 0.1 % isolated. A batch (B 512,
    S_L 10, S_K 5) meets 24,200 nodes and 28,600 edges on average; the paper's has 23,769 and
    28,727. Made in 5 s with a peak of 0.9 GB.
    """
    _check_sizes(nodes, classes, features)
    if not 2 <= mean_degree < nodes / 4:
        raise InputError(
            f"mean_degree must be from 2 to below a quarter of the nodes ({nodes / 4:,.0f}), "
            f"got {mean_degree}; ask for fewer edges or more nodes"
        )
    rng = stream(seed, "products_training")
    count = max(1, nodes // 200)
    largest = min(5200.0 * mean_degree / 57, nodes / 4)
    plan = Plan(
        weights=heavy_tail(nodes, mean_degree, mean_degree * 38 / 57, largest, rng),
        bounds=community_bounds(nodes, count, 0.8, rng),
        inside=np.full(count, 0.7),
        across=np.full(count, 0.1),
        partner=np.roll(np.arange(count), 1),
    )
    pairs = draw_pairs(plan, int(nodes * mean_degree) // 2, rng)
    community = plan.community()
    labels = rng.integers(classes, size=count)[community]
    table = rng.standard_normal((nodes, features), dtype=np.float32)
    table += _signal(labels, 0.3, features, rng)
    table += _signal(community, 0.3, features, rng)
    split = np.full(nodes, TRAIN, dtype=np.uint8)
    return _shuffled("products-training", pairs, table, labels, split, rng)


def _check_sizes(nodes: int, classes: int, features: int) -> None:
    if features < 1:
        raise InputError(f"features must be at least 1, got {features}; ask for at least one column")
    if classes < 2:
        raise InputError(f"classes must be at least 2, got {classes}; ask for at least two")
    if nodes < 20 * classes:
        raise InputError(
            f"nodes must be at least 20 per class ({20 * classes}), got {nodes}; "
            "ask for more nodes or fewer classes"
        )


def _partners(count: int, share: float, rng: np.random.Generator) -> tuple[Ints, NDArray[np.bool_]]:
    """Pair the communities at random; a share of the pairs link mostly to each other."""
    half = count // 2
    order = rng.permutation(count)
    first, second = order[:half], order[half : 2 * half]
    partner = np.arange(count)
    partner[first], partner[second] = second, first
    mixed = np.zeros(count, dtype=bool)
    chosen = round(share * half)
    mixed[first[:chosen]] = mixed[second[:chosen]] = True
    return partner, mixed


def _signal(group: Ints, strength: float, columns: int, rng: np.random.Generator) -> Rows:
    """Every group's own random centre, at each of its nodes."""
    centres = rng.standard_normal((int(group.max()) + 1, columns), dtype=np.float32)
    return (np.float32(strength) * centres)[group]


def _random_split(nodes: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    split = np.full(nodes, TEST, dtype=np.uint8)
    order = rng.permutation(nodes)
    train, validation = int(0.6 * nodes), int(0.2 * nodes)
    split[order[:train]] = TRAIN
    split[order[train : train + validation]] = VALIDATION
    return split


def _shuffled(
    name: str, pairs: Ints, table: Rows, labels: Ints, split: NDArray[np.uint8], rng: np.random.Generator
) -> Graph:
    """The graph with its nodes in random order, so that ids say nothing about communities."""
    old_of_new = rng.permutation(len(labels))
    new_of_old = np.empty_like(old_of_new)
    new_of_old[old_of_new] = np.arange(len(labels))
    return Graph.from_edges(
        new_of_old[pairs],
        DenseTable(table[old_of_new]),
        labels=labels[old_of_new],
        split=split[old_of_new],
        name=name,
    )
