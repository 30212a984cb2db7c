"""Every row of the paper's table by name. All are called alike, and all give something that embeds graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, Protocol

from lrgi.baselines.bgrl import BGRLSettings, fit_bgrl
from lrgi.baselines.cca_ssg import CCASettings, fit_cca_ssg
from lrgi.baselines.dgi import fit_dgi
from lrgi.baselines.features import PropagatedFeatures
from lrgi.baselines.gbt import GBTSettings, fit_gbt
from lrgi.baselines.graphmae import GraphMAESettings, fit_graphmae
from lrgi.baselines.rgi import fit_rgi
from lrgi.baselines.supervised import fit_supervised
from lrgi.baselines.untrained import untrained_encoder
from lrgi.baselines.whiten import fit_whiten
from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Journal
from lrgi.training.plan import FitPlan


class Embeds(Protocol):
    """What a method leaves behind: an `Encoder`, or features in its place."""

    def tables(self, graph: Graph) -> Iterator[Table]:
        """One table per layer."""

    def embed(self, graph: Graph) -> Table:
        """The last one."""


class Method(NamedTuple):
    """How a row of the table is made, and the settings it has beside the plan's."""

    fit: Callable[..., Embeds]  # (graph, plan, journal), then the settings if there are any
    settings: type[Any] | None = None


METHODS: dict[str, Method] = {
    "raw": Method(lambda graph, plan, journal: PropagatedFeatures(0)),
    "random": Method(lambda graph, plan, journal: untrained_encoder(plan, graph.num_features)),
    "propagate": Method(lambda graph, plan, journal: PropagatedFeatures(plan.layers)),
    "whiten": Method(fit_whiten),
    "dgi": Method(fit_dgi),
    "gbt": Method(fit_gbt, GBTSettings),
    "graphmae": Method(fit_graphmae, GraphMAESettings),
    "bgrl": Method(fit_bgrl, BGRLSettings),
    "cca-ssg": Method(fit_cca_ssg, CCASettings),
    "rgi": Method(fit_rgi),
    "lrgi": Method(fit_encoder),
    "supervised": Method(fit_supervised),
}


def fit_method(
    name: str,
    graph: Graph,
    plan: FitPlan,
    journal: Journal | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Embeds:
    """Fit the method called `name` on all nodes of `graph`. InputError for a name or setting it lacks."""
    if name not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {name!r}; choose one")
    method = METHODS[name]
    own = [entry.name for entry in fields(method.settings)] if method.settings else []
    for setting in settings or {}:
        if setting not in own:
            allowed = f"one of {', '.join(own)}" if own else "left out, for it has none"
            raise InputError(f"a setting of {name} must be {allowed}, got {setting!r}; correct the name")
    if method.settings is None:
        return method.fit(graph, plan, journal)
    return method.fit(graph, plan, journal, method.settings(**(settings or {})))
