"""LRGI: node embeddings for big graphs, one layer at a time."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrgi.encoder import Encoder, embed_layer
    from lrgi.errors import InputError, LRGIError
    from lrgi.estimator import LRGI
    from lrgi.graph.graph import Graph
    from lrgi.graph.inductive import training_subgraph
    from lrgi.graph.store import open_graph, save_graph
    from lrgi.graph.synthetic import planted_communities
    from lrgi.interop.npz import read_npz
    from lrgi.interop.pyg import from_pyg
    from lrgi.probe.data import ProbeData
    from lrgi.probe.linear import ProbePlan, linear_probe
    from lrgi.training.fit import fit_encoder, fit_layer
    from lrgi.training.plan import FitPlan
    from lrgi.training.presets import preset

__version__ = "0.1.0"

__all__ = [
    "LRGI",
    "Encoder",
    "FitPlan",
    "Graph",
    "InputError",
    "LRGIError",
    "ProbeData",
    "ProbePlan",
    "__version__",
    "embed_layer",
    "fit_encoder",
    "fit_layer",
    "from_pyg",
    "linear_probe",
    "open_graph",
    "planted_communities",
    "preset",
    "read_npz",
    "save_graph",
    "training_subgraph",
]

# Where each name lives: they are imported when first asked for, so that `import lrgi` costs nothing.
_HOMES = {
    "LRGI": "estimator",
    "Encoder": "encoder",
    "FitPlan": "training.plan",
    "Graph": "graph.graph",
    "InputError": "errors",
    "LRGIError": "errors",
    "ProbeData": "probe.data",
    "ProbePlan": "probe.linear",
    "embed_layer": "encoder",
    "fit_encoder": "training.fit",
    "fit_layer": "training.fit",
    "from_pyg": "interop.pyg",
    "linear_probe": "probe.linear",
    "open_graph": "graph.store",
    "planted_communities": "graph.synthetic",
    "preset": "training.presets",
    "read_npz": "interop.npz",
    "save_graph": "graph.store",
    "training_subgraph": "graph.inductive",
}


def __getattr__(name: str) -> Any:
    """A public name, imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lrgi' has no attribute {name!r}")
    value = getattr(import_module(f"lrgi.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
