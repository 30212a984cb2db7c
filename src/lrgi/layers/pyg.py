"""Any convolution of PyG as a layer: it gets (sources, rows) and the hop's edges, as PyG's bipartite call."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lrgi.layers.layer import GraphLayer, dense
from lrgi.layers.rows import Rows
from lrgi.layers.twin import edges_of
from lrgi.sampling.block import Hop


class PyGLayer(GraphLayer):
    """Wraps a `MessagePassing` module that accepts a pair of inputs; ELU follows it.

    Rows and sources are told apart, so a convolution that adds self loops must be told not to
    (`add_self_loops=False`) unless it can do so on a bipartite graph.
    """

    kind = "pyg"

    def __init__(self, conv: nn.Module, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        self.conv = conv

    def reset(self, random: torch.Generator) -> None:
        """The module's own `reset_parameters`, with torch's generator seeded from the stream meanwhile."""
        seed = int(torch.randint(2**62, (1,), generator=random))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.conv.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Rows | Tensor, *hops: Hop) -> Tensor:
        """u of the hop's rows."""
        (hop,) = hops
        tensor = dense(x)
        sources, rows = edges_of(hop, tensor.device, own=False)
        return self._convolve(tensor, tensor[hop.first : hop.first + hop.num_rows], sources, rows)

    def from_sources(self, sources: tuple[Tensor, ...], own: Rows, hop: Hop) -> Tensor:
        """u of the hop's rows; only the sources that they read are handed to the convolution."""
        used, local = np.unique(hop.indices[hop.indptr[0] : hop.indptr[-1]], return_inverse=True)
        own_dense = own.dense()
        _, rows = edges_of(hop, own_dense.device, own=False)
        local_sources = torch.from_numpy(local).to(own_dense.device)
        return self._convolve(
            sources[0][torch.from_numpy(used).long().to(own_dense.device)], own_dense, local_sources, rows
        )

    def _convolve(self, x: Tensor, own: Tensor, sources: Tensor, rows: Tensor) -> Tensor:
        edge_index = torch.stack([sources, rows])
        return functional.elu(self.conv((x, own), edge_index, size=(len(x), len(own))))
