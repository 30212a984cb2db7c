"""How the generators plant communities: heavy-tailed weights, and edges drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrgi.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """Where the nodes of a degree-corrected block model lie, and where their edges lead.

    Community k is the nodes bounds[k]:bounds[k+1]. A node of weight w starts and receives edges in
    proportion to w. An edge stays inside with probability inside[k], leads to the partner
    community with probability across[k], and anywhere otherwise.
    """

    weights: Floats
    bounds: Ints
    inside: Floats
    across: Floats
    partner: Ints

    def community(self) -> Ints:
        """The community of each node."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))


def community_bounds(nodes: int, communities: int, skew: float, rng: np.random.Generator) -> Ints:
    """Split nodes into communities with log-normal sizes (skew 0: equal); every one has a node."""
    share = np.exp(skew * rng.standard_normal(communities))
    inner = np.cumsum(share / share.sum()) * (nodes - communities)
    return np.concatenate([[0], np.rint(inner).astype(np.int64) + np.arange(1, communities + 1)])


def heavy_tail(nodes: int, mean: float, median: float, largest: float, rng: np.random.Generator) -> Floats:
    """Expected degrees: log-normal, wider below the median, one in 50 with a Pareto tail; scaled, clipped."""
    spread = np.sqrt(2 * np.log(mean / median))
    z = rng.standard_normal(nodes)
    degree = median * np.exp(spread * np.where(z < 0, 1.2 * z, z))
    tail = rng.random(nodes) < 0.02
    degree[tail] *= 1 + rng.pareto(1.2, int(tail.sum()))
    degree = np.minimum(degree, largest)
    scaled: Floats = np.minimum(degree * (mean / degree.mean()), largest)
    return scaled


def draw_pairs(plan: Plan, pairs: int, rng: np.random.Generator) -> Ints:
    """Exactly `pairs` distinct unordered pairs of different nodes, int64[2, pairs], by the plan.

    Raises InputError when the communities are too dense to hold so many distinct pairs.
    """
    nodes = len(plan.weights)
    found = np.empty(0, dtype=np.int64)
    for _ in range(50):
        missing = pairs - len(found)
        if missing <= 0:
            break
        a, b = _draw(plan, missing + missing // 8 + 16, rng)
        low, high = np.minimum(a, b), np.maximum(a, b)
        keys = (low * nodes + high)[low != high]
        found = _distinct(np.concatenate([found, keys]))
    if len(found) < pairs:
        raise InputError(
            f"edges must leave room for distinct pairs among {nodes:,} nodes, got {2 * pairs:,}; "
            "ask for fewer edges or more nodes"
        )
    excess = rng.choice(len(found), size=len(found) - pairs, replace=False, shuffle=False)
    kept = np.delete(found, excess)
    return np.stack([kept // nodes, kept % nodes])


def _distinct(keys: Ints) -> Ints:
    keys.sort()
    fresh = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return keys[fresh]


def _draw(plan: Plan, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Sources by weight; destinations by weight inside, in the partner community, or anywhere."""
    cumulative = np.concatenate([[0.0], np.cumsum(plan.weights)])
    source = _by_weight(cumulative, rng.random(count) * cumulative[-1])
    home = np.searchsorted(plan.bounds, source, side="right") - 1
    # A hub cannot spend thousands of edges in a community of hundreds: it goes out into the graph.
    size = np.diff(plan.bounds)[home]
    room = np.minimum(1.0, 0.5 * size / np.maximum(plan.weights[source], 1.0))
    choice = rng.random(count)
    inside = choice < plan.inside[home] * room
    across = ~inside & (choice < (plan.inside[home] + plan.across[home]) * room)
    goal = np.where(across, plan.partner[home], home)
    anywhere = ~inside & ~across
    low = np.where(anywhere, 0.0, cumulative[plan.bounds[goal]])
    high = np.where(anywhere, cumulative[-1], cumulative[plan.bounds[goal + 1]])
    return source, _by_weight(cumulative, low + rng.random(count) * (high - low))


def _by_weight(cumulative: Floats, position: Floats) -> Ints:
    index = np.searchsorted(cumulative, position, side="right") - 1
    return np.minimum(index, len(cumulative) - 2)
