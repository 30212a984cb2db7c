"""The products generator's kernels, the slow way."""

import numpy as np

_MASK = (1 << 64) - 1


def uniform(key: int, counter: int) -> float:
    """splitmix64's output number `counter` after `key`, as 53 bits in [0, 1)."""
    x = (key + counter * 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((x ^ (x >> 31)) >> 11) / 2**53


def draw_key(sources, goals, shares, ids, key, i) -> int:
    """The key of draw `i`."""
    weights, _, home_of, first = sources
    goal_weights, _, bounds, goal_first = goals
    a = np.searchsorted(weights, uniform(key, 3 * i) * weights[-1], side="right") - 1
    home = home_of[a]
    inside, across, partner = (share[home] for share in shares)
    room = min(1.0, 0.5 * (bounds[home + 1] - bounds[home]) / max(weights[a + 1] - weights[a], 1.0))
    choice = uniform(key, 3 * i + 1)
    low, high = 0.0, goal_weights[-1]
    if choice < (inside + across) * room:
        goal = home if choice < inside * room else partner
        low, high = goal_weights[bounds[goal]], goal_weights[bounds[goal + 1]]
    position = low + uniform(key, 3 * i + 2) * (high - low)
    b = np.searchsorted(goal_weights, position, side="right") - 1
    pair = sorted((int(ids[first + a]), int(ids[goal_first + b])))
    return -1 if pair[0] == pair[1] else pair[0] * len(ids) + pair[1]
