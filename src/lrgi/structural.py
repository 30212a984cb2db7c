"""Features made of the structure alone, for graphs that come without any.

degree       how many neighbours a node has, how many those have, and in which power of two
random-walk  how likely a walk from a node is back after 2, 3, ... steps (Dwivedi et al., "Graph Neural
             Networks with Learnable Structural and Positional Representations", 2022), estimated from random
             signs z as the mean of z * P^k z, since a large graph's P^k does not fit anywhere
random       random vectors, averaged over the neighbours up to three times (after FastRP, Chen et al. 2019):
             nodes near each other get like ones; they say nothing across graphs

What is drawn for a node depends on the seed and its place only, so nodes added at the end change no other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.encoder import propagated
from lrgi.errors import FormatError, InputError
from lrgi.graph.features import DenseTable
from lrgi.graph.graph import Graph
from lrgi.seed import stream

SOURCES = ("degree", "random-walk", "random")

_BUCKETS = 16  # of degrees: 0, 1, 2-3, 4-7, ...
_WALK = 16  # columns: 2 to 17 steps
_PROBES, _AT_ONCE = 64, 16
_RANDOM = 64
_HOPS = 3

Floats = npt.NDArray[np.float32]


def plan_features(
    graph: Graph, source: str, training: npt.NDArray[np.bool_] | None, seed: int = 0
) -> dict[str, Any]:
    """How features are to be made, JSON: what `structural_features` takes.

    It holds the statistics of the nodes in `training` (None: all), so that other graphs get the same.
    """
    if source not in SOURCES:
        raise InputError(
            f"features must be made from one of {', '.join(SOURCES)}, got {source!r}; choose one"
        )
    made = {"from": source, "seed": seed, "mean": [], "scale": []}
    if source == "random":
        return made
    raw = _raw(graph, source, seed)
    seen = raw if training is None else raw[training]
    mean, scale = seen.mean(0, dtype=np.float64), seen.std(0, dtype=np.float64)
    made["mean"] = mean.tolist()
    made["scale"] = np.where(scale > 1e-9 * np.abs(mean) + 1e-30, scale, 1.0).tolist()
    return made


def structural_features(graph: Graph, made: Mapping[str, Any]) -> Floats:
    """float32[N, columns]: what `plan_features` planned, of this graph; the graph's features are not read."""
    try:
        source, seed = str(made["from"]), int(made["seed"])
        mean, scale = np.asarray(made["mean"], np.float64), np.asarray(made["scale"], np.float64)
        raw = _raw(graph, source, seed)
        if source == "random":
            return raw
        return ((raw - mean) / scale).astype(np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"features made from the structure must say how, got {dict(made)!r} ({error}); "
            "import the graph again"
        ) from None


def feature_names(made: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the features that `structural_features` makes."""
    if made["from"] == "degree":
        near = (
            "log degree",
            "neighbours' log degree",
            "its spread",
            "log degree two steps away",
            "log out-degree",
        )
        return (*near, *(f"degree from {2**k - 1}" for k in range(_BUCKETS)))
    if made["from"] == "random-walk":
        return tuple(f"back after {k} steps" for k in range(2, _WALK + 2))
    return tuple(f"random {k}" for k in range(_RANDOM))


def in_words(made: Mapping[str, Any]) -> str:
    """What was done, for a person."""
    what = {
        "degree": "degrees of each node and around it, standardised",
        "random-walk": f"chances of a random walk to be back after 2 to {_WALK + 1} steps, estimated",
        "random": f"random vectors averaged over neighbours up to {_HOPS} times; they mean nothing elsewhere",
    }[made["from"]]
    return f"{len(feature_names(made))} columns made from the structure: {what}"


def _raw(graph: Graph, source: str, seed: int) -> Floats:
    makers = {"degree": _degree, "random-walk": _random_walk, "random": _random}
    return makers[source](graph, seed)


def _degree(graph: Graph, seed: int) -> Floats:
    degree = graph.degrees()
    log = np.log1p(degree).astype(np.float32)[:, None]
    once = _mean(graph, np.concatenate([log, log * log], axis=1))
    spread = np.sqrt(np.maximum(once[:, 1:] - once[:, :1] ** 2, 0))
    out_degree = np.zeros(graph.num_nodes, np.int64)
    for start in range(0, graph.num_edges, 1 << 24):
        out_degree += np.bincount(graph.indices[start : start + (1 << 24)], minlength=graph.num_nodes)
    out_log = np.log1p(out_degree).astype(np.float32)[:, None]
    bucket = np.minimum(np.floor(np.log2(degree + 1)).astype(np.int64), _BUCKETS - 1)
    return np.concatenate(
        [
            log,
            once[:, :1],
            spread,
            _mean(graph, once[:, :1]),
            out_log,
            np.eye(_BUCKETS, dtype=np.float32)[bucket],
        ],
        axis=1,
    )


def _random_walk(graph: Graph, seed: int) -> Floats:
    out = np.zeros((graph.num_nodes, _WALK), np.float32)
    for part in range(_PROBES // _AT_ONCE):
        random = stream(seed, "features", "walk", part)
        signs = random.integers(0, 2, (graph.num_nodes, _AT_ONCE), dtype=np.int8).astype(np.float32) * 2 - 1
        moved = _mean(graph, signs)
        for step in range(_WALK):
            moved = _mean(graph, moved)
            out[:, step] += (signs * moved).sum(1) / _PROBES
    return out


def _random(graph: Graph, seed: int) -> Floats:
    moved = stream(seed, "features", "random").standard_normal((graph.num_nodes, _RANDOM), dtype=np.float32)
    total = np.zeros_like(moved)
    for _ in range(_HOPS):
        moved = _mean(graph, moved)
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        total += moved * (np.float32(_RANDOM**0.5) / np.maximum(length, 1e-12))
    return (total / _HOPS).astype(np.float32)


def _mean(graph: Graph, x: Floats) -> Floats:
    return propagated(graph, DenseTable(np.ascontiguousarray(x))).array
