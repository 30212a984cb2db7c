"""PyG's convolutions, whose import warns of what PyG itself uses."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

__all__ = ["GATConv", "GCNConv", "SAGEConv"]
