"""Compiled sampling: arrays in, arrays out. Slow twins: tests/reference/sampling.py."""

from __future__ import annotations

import numba
import numpy as np

from lrgi.compute.prefetch import prefetch_place

_FLOYD_LIMIT = 48  # above it, testing whether a place was drawn already costs more than one pass over the row
_AHEAD = 128  # rows whose neighbours are drawn before the first of them is read


@numba.njit(inline="always")
def _mix(x):  # splitmix64's finaliser: a bijection of 64-bit words that passes the usual batteries
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(inline="always")
def _below(state, bound):
    """A number in [0, bound), bound < 2^32, and the next state; exact (Lemire's rejection)."""
    wide_bound = np.uint64(bound)
    low_mask = np.uint64(0xFFFFFFFF)
    while True:
        state += np.uint64(0x9E3779B97F4A7C15)
        product = (_mix(state) >> np.uint64(32)) * wide_bound
        low = product & low_mask
        if low >= wide_bound or low >= (np.uint64(0x100000000) - wide_bound) % wide_bound:
            return np.int64(product >> np.uint64(32)), state


@numba.njit(inline="always")
def _draw(degree, fan_out, base, state, places, at):
    """places[at:at + fan_out]: fan_out < degree places from `base` on, every subset equally likely."""
    if fan_out <= _FLOYD_LIMIT:  # Floyd: k draws, no scratch
        for i in range(fan_out):
            top = degree - fan_out + i
            drawn, state = _below(state, top + 1)
            place = base + drawn
            for before in range(at, at + i):
                if places[before] == place:
                    place = base + top
                    break
            places[at + i] = place
        return
    wanted = fan_out  # selection: each place is taken with probability (still wanted) / (still to come)
    for i in range(degree):
        drawn, state = _below(state, degree - i)
        if drawn < wanted:
            places[at + fan_out - wanted] = base + i
            wanted -= 1
            if wanted == 0:
                break


@numba.njit(nogil=True, cache=True)
def sample_neighbours(graph, rows, fan_outs, key, out_indptr, span, out):
    """For each row of the span, min(degree, fan_out) of its neighbours, from out[out_indptr[row]] on.

    Without replacement, every subset equally likely, a function of (key, name) alone. `rows` are the nodes
    and their names, which are the same but for a part of a graph, whose nodes keep the whole one's.
    Neighbours lie all over the graph's `indices`, larger than any cache: each place is asked for when it is
    drawn, and read when its turn comes, _AHEAD rows later.
    """
    (indptr, indices), (nodes, names) = graph, rows
    start, stop = span
    for first in range(start, stop, _AHEAD):
        last = min(first + _AHEAD, stop)
        begin, end = out_indptr[first], out_indptr[last]
        places = np.empty(end - begin, np.int64)
        for r in range(first, last):
            node, fan_out, at = nodes[r], fan_outs[r], out_indptr[r] - begin
            base = indptr[node]
            degree = indptr[node + 1] - base
            if degree <= fan_out:
                for i in range(degree):
                    places[at + i] = base + i
                prefetch_place(indices, base)
                continue
            state = _mix(np.uint64(names[r]) * np.uint64(0xD1342543DE82EF95) + key)
            _draw(degree, fan_out, base, state, places, at)
            for i in range(at, at + fan_out):
                prefetch_place(indices, places[i])
        for i in range(end - begin):
            out[begin + i] = indices[places[i]]


@numba.njit(nogil=True, cache=True)
def number_nodes(met, nodes, known, table_keys, table_values, local):
    """Give every id in `met` its place in `nodes`, adding new ids behind `known`; returns the new count.

    `table_keys` (filled with -1) and `table_values` are an open-addressing table, a power of two long.
    """
    mask = np.uint64(len(table_keys) - 1)
    for i in range(len(met)):
        node = met[i]
        slot = _mix(np.uint64(node)) & mask
        while table_keys[slot] != node and table_keys[slot] != -1:
            slot = (slot + np.uint64(1)) & mask
        if table_keys[slot] == -1:
            table_keys[slot] = node
            table_values[slot] = known
            nodes[known] = node
            known += 1
        local[i] = table_values[slot]
    return known


@numba.njit(nogil=True, cache=True)
def transpose(indptr, indices, num_sources):
    """Edges by source, in the order of rows: (indptr_t, row of each edge, place of each edge)."""
    base = indptr[0]
    edges = indptr[-1] - base
    starts = np.zeros(num_sources + 1, np.int64)
    for e in range(base, indptr[-1]):
        starts[indices[e] + 1] += 1
    for s in range(num_sources):
        starts[s + 1] += starts[s]
    fill = starts[:-1].copy()
    rows = np.empty(edges, np.int32)
    places = np.empty(edges, np.int64)
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            source = indices[e]
            at = fill[source]
            rows[at] = r
            places[at] = e - base
            fill[source] = at + 1
    return starts, rows, places
