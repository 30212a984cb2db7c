"""The supervised ceiling: the same layers, fitted end to end by the labels of the training nodes.

Cross entropy for one class per node, binary cross entropy for many; a linear classifier on the last layer,
which is thrown away: the embeddings are probed as any other's. As GraphSAGE trains it (Hamilton, Ying and
Leskovec, "Inductive representation learning on large graphs", NeurIPS 2017), by batches of training nodes
with sampled neighbours. The one file beside the probe that reads labels, and of these only the training
nodes': every other label is left out before the fit begins.
Departures: layers, batches, optimizer and number of steps are the plan's, without dropout or early stopping.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lrgi import seed as randomness
from lrgi.baselines.end_to_end import fit_end_to_end
from lrgi.compute.products import linear
from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.graph.split import TRAIN
from lrgi.layers.layer import glorot_
from lrgi.layers.rows import Rows
from lrgi.objective.infomax import Weights
from lrgi.sampling.block import Block
from lrgi.training.journal import Journal, Place
from lrgi.training.objective import FittedModule, Objective, outermost_first
from lrgi.training.plan import FitPlan


class SupervisedTerms(NamedTuple):
    """The classifier's loss on training nodes."""

    cross_entropy: Tensor

    def total(self, weights: Weights) -> Tensor:
        """It; the plan's weights are not used."""
        return self.cross_entropy


class Classification(Objective):
    """Adds a linear classifier. `targets` are the training nodes with a label."""

    def __init__(self, graph: Graph, plan: FitPlan, width: int) -> None:
        super().__init__()
        self.targets, known = training_labels(graph)
        self._place = np.full(graph.num_nodes, -1)  # of a node among the targets
        self._place[self.targets] = np.arange(len(self.targets))
        self._known = torch.from_numpy(known)
        classes = known.shape[1] if known.ndim == 2 else int(known.max()) + 1
        self.weight = nn.Parameter(torch.empty(classes, width))
        self.bias = nn.Parameter(torch.zeros(classes))
        glorot_(self.weight, randomness.torch_stream(plan.seed, "supervised", "classifier"))

    def terms(self, encoder: FittedModule, table: Table, block: Block, place: Place) -> SupervisedTerms:
        """The loss on the block's targets that are training nodes; a whole graph has others too."""
        u = encoder(Rows.of(table, block, str(encoder.device)), *outermost_first(block))
        logits = linear(u, self.weight, self.bias)
        at = torch.from_numpy(self._place[block.nodes[: block.num_targets]])
        used = at >= 0
        return SupervisedTerms(cross_entropy(logits[used], self._known[at[used]].to(u.device)))


def cross_entropy(logits: Tensor, known: Tensor) -> Tensor:
    """Mean over rows (and classes, where each is a question of its own); 0 where there are no rows."""
    if len(known) == 0:
        return logits.sum()
    if known.ndim == 2:
        return functional.binary_cross_entropy_with_logits(logits, known.to(logits.dtype))
    return functional.cross_entropy(logits, known)


def training_labels(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """(ids of the training nodes with a label, their labels); all else is left behind."""
    if graph.labels is None or graph.split is None:
        raise InputError(
            "a graph for a supervised fit must have labels and a split, "
            f"got {'no labels' if graph.labels is None else 'no split'}; give them or choose another method"
        )
    nodes = np.flatnonzero(graph.split == TRAIN)
    if graph.labels.ndim == 1:
        nodes = nodes[graph.labels[nodes] >= 0]
    if len(nodes) == 0:
        raise InputError(
            "a graph for a supervised fit must have labelled training nodes, got none; label some"
        )
    return nodes, np.array(graph.labels[nodes])


def fit_supervised(graph: Graph, plan: FitPlan, journal: Journal | None = None) -> Encoder:
    """Fit all layers of the plan at once by the training nodes' labels."""
    own = plan.for_layer(1)
    return fit_end_to_end(graph, plan, lambda stack: Classification(graph, own, stack.out_dim), journal)
