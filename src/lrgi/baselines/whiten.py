"""Whitening, without learning: after each mean over neighbours the columns are decorrelated.

u_l = W_l mean_j u_(l-1),j + b_l, where W_l and b_l bring the nodes of the fit to mean 0 and covariance I
along their main directions (PCA whitening), so that no direction drowns in the others as propagation goes
on: a linear layer for which the variance and covariance terms of Eq. 1 are zero. Training-free tools do
this: pycleora (github.com/BaseModelAI/cleora, after Rychalska et al., "Cleora: a simple, strong and scalable
graph embedding scheme", 2021) whitens between its propagation steps; from 3.2.0 on, not in that paper.

There are no published hyperparameters to follow; width and number of steps are the plan's width and layers.
Departures: the start is the features, not random vectors, and rows are not scaled to length 1. No step has
more columns than the one before. Directions with less than 1e-6 of the largest variance are damped. Each
step's W and b are kept as a layer, so that graphs that were not fitted on are embedded too.
A covariance of d columns is d x d, and sparse features are propagated densely: d of some thousands at most.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lrgi.baselines.propagate import propagate
from lrgi.compute.machine import device_called
from lrgi.compute.products import gram
from lrgi.compute.threads import lanes
from lrgi.encoder import Encoder, embed_layer
from lrgi.graph.features import Table
from lrgi.graph.graph import Graph
from lrgi.layers.layer import GraphLayer
from lrgi.layers.mean import MeanLayer
from lrgi.training.journal import Journal
from lrgi.training.plan import FitPlan

_NOISE = 1e-6
_CPU = torch.device("cpu")


def fit_whiten(graph: Graph, plan: FitPlan, journal: Journal | None = None) -> Encoder:
    """As many steps as the plan has layers."""
    journal, table = journal or Journal(), graph.features
    layers: list[GraphLayer] = []
    for number in range(1, plan.layers + 1):
        own = plan.for_layer(number)
        layer = whitening_layer(graph, table, own.width, device_called(own.device))
        journal.layer_fitted(number, layer)
        layers.append(layer)
        if number < plan.layers:
            table = embed_layer(layer, graph, table)
            journal.layer_embedded(number, table)
    return Encoder(layers)


def whitening_layer(graph: Graph, table: Table, width: int, device: torch.device = _CPU) -> MeanLayer:
    """One step: at most `width` columns, mean 0 and covariance I over the graph's nodes.

    The covariance's directions are found on the device; the layer is the CPU's.
    """
    layer = MeanLayer(table.shape[1], min(width, table.shape[1]))
    with torch.no_grad(), lanes():
        weight, bias = whitening(propagate(graph, table, 1).array, layer.out_dim, device)
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def whitening(x: np.ndarray, width: int, device: torch.device = _CPU) -> tuple[Tensor, Tensor]:
    """W [width, d] and b: x W' + b has mean 0 and covariance I (divided by N) along x's main directions.

    A direction's sign is such that its largest entry is positive.
    """
    mean = x.mean(0, dtype=np.float64)
    centred = torch.from_numpy(np.subtract(x, mean, dtype=np.float32, casting="same_kind"))
    covariance = gram(centred) if device == _CPU else (on := centred.to(device)).t() @ on
    found = torch.linalg.eigh(covariance.double() / len(x))
    variances, directions = (part.cpu() for part in found)
    variances, directions = variances.flip(0)[:width], directions.flip(1)[:, :width].t()
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    scale = torch.rsqrt(variances.clamp(min=0) + _NOISE * variances[0].clamp(min=1e-30))
    weight = directions * largest.sign() * scale[:, None]
    return weight.float(), -(weight @ torch.from_numpy(mean)).float()
