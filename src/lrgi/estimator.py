"""`LRGI`: fit and transform in the manner of scikit-learn, without depending on it."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.inductive import training_subgraph
from lrgi.interop.anything import as_graph
from lrgi.outputs import Layers, embed_layers
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import resolve_fit_on


class LRGI:
    """Layer-wise regularized graph infomax: `LRGI(layers=3, width=128).fit(graph).transform(graph)`.

    Takes every setting of `FitPlan` by keyword, with its defaults. Graphs are `Graph`s, objects of PyG,
    NetworkX, scipy.sparse and NumPy, or paths (docs/objects.md). After `fit`, `encoder_` is the fitted
    Encoder and `fit_on_` says which nodes it saw.
    """

    def __init__(self, **settings: Any) -> None:
        for entry in fields(FitPlan):
            setattr(self, entry.name, None if entry.default is MISSING else entry.default)
        self.set_params(**settings)

    def fit(self, graph: Any, y: Any = None, *, journal: Journal | None = None) -> LRGI:
        """Fit the encoder; labels are never read, `y` is there for scikit-learn's pipelines."""
        given, plan = as_graph(graph), self.plan()
        self.fit_on_ = resolve_fit_on(plan, given)
        seen, _ = training_subgraph(given, self.fit_on_)
        self.encoder_ = fit_encoder(seen, plan, journal)
        return self

    def transform(self, graph: Any, layers: Layers = "last", view: str = "u") -> npt.NDArray[np.float32]:
        """Embeddings [N, D] of any graph with the same columns; of several layers side by side.

        `layers` is "last", "all", a number from 1 or a list of them; `view` is "u" (a layer's output), "v"
        (its mean over the neighbours) or "both".
        """
        return embed_layers(self._fitted(), as_graph(graph), layers, view=view)

    def fit_transform(self, graph: Any, y: Any = None, layers: Layers = "last") -> npt.NDArray[np.float32]:
        """Fit, then embed the same graph, all of it."""
        given = as_graph(graph)
        return self.fit(given, y).transform(given, layers)

    def plan(self) -> FitPlan:
        """The settings as a plan; raises InputError for what cannot be."""
        return FitPlan.from_mapping(self.get_params())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name."""
        return {entry.name: getattr(self, entry.name) for entry in fields(FitPlan)}

    def set_params(self, **settings: Any) -> LRGI:
        """Change settings; an unknown name or an impossible value raises InputError and changes nothing."""
        FitPlan.from_mapping({**self.get_params(), **settings})
        for name, value in settings.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [(e.name, getattr(self, e.name)) for e in fields(FitPlan)]
        defaults = {e.name: e.default for e in fields(FitPlan)}
        return f"LRGI({', '.join(f'{k}={v!r}' for k, v in changed if v != defaults[k])})"

    def _fitted(self) -> Encoder:
        encoder = getattr(self, "encoder_", None)
        if not isinstance(encoder, Encoder):
            raise InputError("an LRGI must be fitted before it embeds, got one that is not; call fit first")
        return encoder
