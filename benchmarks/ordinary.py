"""The same step the ordinary way: PyG's GATConv over the sampled subgraph, autograd, torch's own threads."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lrgi.graph.features import DenseTable
from lrgi.layers.gat import GATLayer
from lrgi.layers.rows import as_tensor
from lrgi.objective.predictors import NetworkPredictors
from lrgi.sampling.block import Block

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyG imports what torch calls old
    from torch_geometric.nn import GATConv
    from torch_geometric.utils import scatter


class Ordinary:
    """Gathers the features of all sampled nodes and convolves over all sampled edges."""

    def __init__(self, table: DenseTable, s: Any) -> None:
        self.table, self.weights = as_tensor(table.array), s.weights
        self.conv = GATConv(s.width, s.width // s.heads, heads=s.heads)
        self.skip = nn.Linear(s.width, s.width, bias=False)
        self.u_from_v, self.v_from_u = (
            nn.Sequential(
                nn.Linear(s.width, s.expansion * s.width),
                nn.ReLU(),
                nn.Linear(s.expansion * s.width, s.width),
            )
            for _ in range(2)
        )
        modules = nn.ModuleList([self.conv, self.skip, self.u_from_v, self.v_from_u])
        self.optimizer = torch.optim.AdamW(modules.parameters(), s.lr, weight_decay=s.weight_decay)

    def threads(self) -> AbstractContextManager[object]:
        return nullcontext()

    def pairs(self, layer: GATLayer, predictors: NetworkPredictors) -> list[tuple[Tensor, Tensor]]:
        """(parameter here, the same one there), of equal size."""
        networks = ((self.u_from_v, predictors.u_from_v), (self.v_from_u, predictors.v_from_u))
        return [
            (self.conv.lin.weight, layer.weight),
            (self.conv.att_src, layer.source),
            (self.conv.att_dst, layer.target),
            (self.conv.bias, layer.bias),
            (self.skip.weight, layer.skip),
            *(pair for a, b in networks for pair in zip(a.parameters(), b.parameters(), strict=True)),
        ]

    def copy_weights(self, layer: GATLayer, predictors: NetworkPredictors) -> None:
        """Begin where LRGI's step begins."""
        with torch.no_grad():
            for mine, theirs in self.pairs(layer, predictors):
                mine.copy_(theirs.view_as(mine))

    def loss(self, block: Block) -> Tensor:
        nodes, edge_index = torch.from_numpy(block.nodes).long(), edges_of(block)
        x = self.table[nodes]
        local = functional.elu(self.conv(x, edge_index) + self.skip(x))
        targets = block.num_targets
        first_hop = edge_index[:, : int(block.indptr[targets])]
        u = local[:targets]
        v = scatter(local[first_hop[0]], first_hop[1], dim=0, dim_size=targets, reduce="mean")
        (variance_u, covariance_u), (variance_v, covariance_v) = spread(u), spread(v)
        reconstruction = functional.mse_loss(self.u_from_v(v), u) + functional.mse_loss(self.v_from_u(u), v)
        terms = (reconstruction, variance_u + variance_v, covariance_u + covariance_v)
        return sum(weight * term for weight, term in zip(self.weights, terms, strict=True))


def edges_of(block: Block) -> Tensor:
    """PyG's [2, E]: (source, row), rows in order."""
    rows = np.repeat(np.arange(len(block.indptr) - 1), np.diff(block.indptr))
    return torch.from_numpy(np.stack([block.indices.astype(np.int64), rows]))


def spread(x: Tensor) -> tuple[Tensor, Tensor]:
    """The variance and covariance terms, as one writes them."""
    centred = x - x.mean(0)
    c = centred.T @ centred / (len(x) - 1)
    diagonal = c.diagonal()
    return (1 - diagonal).square().mean(), (c.square().sum() - diagonal.square().sum()) / len(c)
