"""RGI, end to end: Pina and Vilaplana, "Regularized graph infomax" (2023).

The loss is Eq. 1 on the outputs of the last layer and their mean over K = 1 further hop: LRGI's fit of
one layer, applied to all layers as one. A block has L + K hops.

Published (their repository): K 1, predictors D -> 8D -> D, AdamW, weight decay 1e-5, a linear warm-up and
a cosine; D 512; on Amazon and Coauthor graphs two GCN layers, weights (10, 5, 1) or (20, 15, 1), 1000 to
5000 whole-graph updates at 1e-4 or 1e-5 and half of the features and edges dropped; on PPI three GAT
layers, weights (15, 10, 10), 2000 epochs at 1e-4.
Departures: the layers are the plan's, without batch norm; nothing is dropped; v is the plain mean over
neighbours as in LRGI, where theirs is normalised symmetrically.
"""

from __future__ import annotations

from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.encoder import Encoder
from lrgi.graph.graph import Graph
from lrgi.training.journal import Journal
from lrgi.training.objective import Infomax
from lrgi.training.plan import FitPlan


def fit_rgi(graph: Graph, plan: FitPlan, journal: Journal | None = None) -> Encoder:
    """Fit all layers of the plan at once on Eq. 1."""
    return fit_end_to_end(graph, plan, lambda stack: Infomax(plan.for_layer(1), 1, stack.out_dim), journal)
