"""A fitted encoder as a plain torch module of PyG layers, for fine-tuning with labels of one's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lrgi.encoder import Encoder
from lrgi.errors import InputError
from lrgi.layers.gat import GATLayer
from lrgi.layers.gcn import GCNLayer
from lrgi.layers.layer import GraphLayer
from lrgi.layers.sage import SAGELayer


class PyGEncoder(nn.Module):
    """module(x [N, d], edge_index [2, E]) gives what the encoder's `embed` gives, with gradients."""

    def __init__(self, convs: list[nn.Module], skips: list[nn.Linear]) -> None:
        super().__init__()
        self.convs, self.skips = nn.ModuleList(convs), nn.ModuleList(skips)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The last layer's output."""
        for conv, skip in zip(self.convs, self.skips, strict=True):
            x = functional.elu(conv(x, edge_index) + skip(x))
        return x


def to_pyg_module(encoder: Encoder) -> PyGEncoder:
    """A copy of the encoder's weights in GATConv, SAGEConv or GCNConv, each with a linear skip and ELU."""
    convs, skips = [], []
    for layer in encoder.layers:
        conv, skip = _convolution(layer)
        convs.append(conv)
        skips.append(skip)
    return PyGEncoder(convs, skips)


def _convolution(layer: GraphLayer) -> tuple[nn.Module, nn.Linear]:
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    skip = nn.Linear(layer.in_dim, layer.out_dim, bias=False)
    conv: Any
    with torch.no_grad():
        if isinstance(layer, GATLayer):
            conv = GATConv(
                layer.in_dim, layer.out_dim // layer.heads, layer.heads, negative_slope=layer.slope
            )
            conv.att_src.copy_(layer.source[None])
            conv.att_dst.copy_(layer.target[None])
            conv.lin.weight.copy_(layer.weight)
            conv.bias.copy_(layer.bias)
        elif isinstance(layer, SAGELayer):
            conv = SAGEConv(layer.in_dim, layer.out_dim, root_weight=False)
            conv.lin_l.weight.copy_(layer.weight)
            conv.lin_l.bias.copy_(layer.bias)
        elif isinstance(layer, GCNLayer):
            conv = GCNConv(layer.in_dim, layer.out_dim)
            conv.lin.weight.copy_(layer.weight)
            conv.bias.copy_(layer.bias)
        else:
            raise InputError(
                f"layers to turn into PyG's must be gat, sage or gcn, got {layer.kind}; use its own module"
            )
        skip.weight.copy_(layer.skip)
    return conv, skip
