"""Compiled drawing of edges: arrays in, arrays out. The draws are splitmix64 by counter.

Slow twins: tests/reference/products.py.
"""

from __future__ import annotations

import numba
import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(inline="always")
def _uniform(key, counter):
    """A number in [0, 1) that depends on (key, counter) alone."""
    x = key + np.uint64(counter) * _GAMMA
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return np.float64(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@numba.njit(inline="always")
def _by_weight(cumulative, guide, position):
    """The index whose span of the running sum holds `position`; `guide` says where to begin to look."""
    cell = np.int64(position / cumulative[-1] * (len(guide) - 1))
    i = guide[min(max(cell, 0), len(guide) - 1)]
    while i > 0 and cumulative[i] > position:
        i -= 1
    while i < len(cumulative) - 2 and cumulative[i + 1] <= position:
        i += 1
    return i


@numba.njit(nogil=True, cache=True)
def draw_keys(sources, goals, shares, ids, key, span, keys):
    """keys[span] = low * N + high of drawn pairs of ids, or -1 for a node with itself.

    sources = (running weights, guide, community of each node, first id); goals the same with the
    communities' bounds in place of the communities. shares = (inside, across, partner) per community.
    """
    weights, guide, home_of, first = sources
    goal_weights, goal_guide, bounds, goal_first = goals
    inside, across, partner = shares
    total, goal_total = weights[-1], goal_weights[-1]
    nodes = len(ids)
    for i in range(span[0], span[1]):
        a = _by_weight(weights, guide, _uniform(key, 3 * i) * total)
        home = home_of[a]
        # A hub cannot spend thousands of edges in a community of hundreds: it goes out into the graph.
        size = bounds[home + 1] - bounds[home]
        weight = weights[a + 1] - weights[a]
        room = min(1.0, 0.5 * size / max(weight, 1.0))
        choice = _uniform(key, 3 * i + 1)
        low, high = 0.0, goal_total
        if choice < (inside[home] + across[home]) * room:
            goal = home if choice < inside[home] * room else partner[home]
            low, high = goal_weights[bounds[goal]], goal_weights[bounds[goal + 1]]
        b = _by_weight(goal_weights, goal_guide, low + _uniform(key, 3 * i + 2) * (high - low))
        one, other = ids[first + a], ids[goal_first + b]
        keys[i] = min(one, other) * nodes + max(one, other) if one != other else -1


@numba.njit(nogil=True, cache=True)
def distinct(keys):
    """Move the distinct keys from 0 up of a sorted array to its front; returns how many there are."""
    filled, last = 0, np.int64(-1)
    for i in range(len(keys)):
        if keys[i] != last:
            last = keys[i]
            keys[filled] = last
            filled += 1
    return filled


@numba.njit(nogil=True, cache=True)
def count_ends(keys, nodes, indptr):
    """indptr [N + 1] of the graph whose undirected edges are the keys low * N + high."""
    for i in range(len(keys)):
        low = keys[i] // nodes
        indptr[low + 1] += 1
        indptr[keys[i] - low * nodes + 1] += 1
    for i in range(nodes):
        indptr[i + 1] += indptr[i]


@numba.njit(nogil=True, cache=True)
def place_ends(keys, nodes, cursor, indices):
    """Write both directions of sorted keys; `cursor` begins as indptr[:-1] and moves.

    In the order of the keys every node first meets its smaller neighbours, rising, as the higher end of
    a pair, and then its larger ones, rising, as the lower end: each row comes out sorted.
    """
    for i in range(len(keys)):
        low = keys[i] // nodes
        high = keys[i] - low * nodes
        indices[cursor[low]] = high
        cursor[low] += 1
        indices[cursor[high]] = low
        cursor[high] += 1
