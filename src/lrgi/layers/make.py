"""Layers by name."""

from __future__ import annotations

from typing import Any

from lrgi.errors import InputError
from lrgi.layers.gat import GATLayer
from lrgi.layers.gcn import GCNLayer
from lrgi.layers.layer import GraphLayer
from lrgi.layers.mean import MeanLayer
from lrgi.layers.plain_gcn import PlainGCNLayer
from lrgi.layers.propagate import PropagateLayer
from lrgi.layers.sage import SAGELayer

_KINDS: dict[str, type[GraphLayer]] = {
    kind.kind: kind for kind in (GATLayer, SAGELayer, GCNLayer, PlainGCNLayer, MeanLayer, PropagateLayer)
}


def make_layer(kind: str, in_dim: int, out_dim: int, **settings: Any) -> GraphLayer:
    """A layer whose weights are not drawn yet."""
    if kind not in _KINDS:
        raise InputError(f"a layer's kind must be one of {', '.join(_KINDS)}, got {kind!r}; choose one")
    return _KINDS[kind](in_dim, out_dim, **settings)
