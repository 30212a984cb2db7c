"""Every row of the paper's table by name. All are called alike, and all give something that embeds graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from lrgi.baselines.bgrl import BGRLSettings, fit_bgrl
from lrgi.baselines.cca_ssg import CCASettings, fit_cca_ssg
from lrgi.baselines.dgi import fit_dgi
from lrgi.baselines.gbt import GBTSettings, fit_gbt
from lrgi.baselines.graphmae import GraphMAESettings, fit_graphmae
from lrgi.baselines.rgi import fit_rgi
from lrgi.baselines.supervised import fit_supervised
from lrgi.baselines.untrained import untrained_encoder
from lrgi.baselines.whiten import fit_whiten
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.layers.propagate import PropagateLayer
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal
from lrgi.training.plan import FitPlan


class Method(NamedTuple):
    """How a row of the table is made, and the settings it has beside the plan's."""

    title: str  # in tables
    fit: Callable[..., Encoder]  # (graph, plan, journal), then the settings if there are any
    settings: type[Any] | None = None
    fits: str = "a stack"  # what is fitted: "nothing", "layers" one after the other, or "a stack" of all


def _raw(graph: Graph, plan: FitPlan, journal: Journal | None) -> Encoder:
    return Encoder([], num_features=graph.num_features)


def _random(graph: Graph, plan: FitPlan, journal: Journal | None) -> Encoder:
    return untrained_encoder(plan, graph.num_features)


def _propagate(graph: Graph, plan: FitPlan, journal: Journal | None) -> Encoder:
    columns = graph.num_features
    return Encoder([PropagateLayer(columns, columns) for _ in range(plan.layers)])


METHODS: dict[str, Method] = {
    "raw": Method("Raw features", _raw, fits="nothing"),
    "random": Method("Random initialisation", _random, fits="nothing"),
    "propagate": Method("Propagated features", _propagate, fits="nothing"),
    "whiten": Method("Propagated and whitened", fit_whiten, fits="nothing"),
    "dgi": Method("DGI", fit_dgi),
    "gbt": Method("G-BT", fit_gbt, GBTSettings),
    "graphmae": Method("GraphMAE", fit_graphmae, GraphMAESettings),
    "bgrl": Method("BGRL", fit_bgrl, BGRLSettings),
    "cca-ssg": Method("CCA-SSG", fit_cca_ssg, CCASettings),
    "rgi": Method("RGI", fit_rgi),
    "lrgi": Method("LRGI", fit_encoder, fits="layers"),
    "supervised": Method("Supervised", fit_supervised),
}


def method_called(name: str) -> Method:
    """The method of that name; InputError where there is none."""
    if name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {name!r}; choose one")
    return METHODS[name]


def fit_method(
    name: str,
    graph: Graph,
    plan: FitPlan,
    journal: Journal | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Encoder:
    """Fit the method called `name` on all nodes of `graph`. InputError for a name or setting it lacks."""
    method = method_called(name)
    own = [entry.name for entry in fields(method.settings)] if method.settings else []
    for setting in settings or {}:
        if setting not in own:
            allowed = f"one of {', '.join(own)}" if own else "left out, for it has none"
            raise InputError(f"a setting of {name} must be {allowed}, got {setting!r}; correct the name")
    if method.settings is None:
        return method.fit(graph, plan, journal)
    return method.fit(graph, plan, journal, method.settings(**(settings or {})))
