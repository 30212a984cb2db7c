"""Attention, means and normalised sums, one node at a time in float64."""

import numpy as np

from lrgi.sampling.block import Hop
from reference.graphs import neighbours


def gat_attention(x, hop: Hop, weight, source, target, slope: float) -> np.ndarray:
    """[R, H * C]: what attention gathers for each row, before bias, skip and ELU."""
    heads, width = source.shape
    out = np.zeros((hop.num_rows, heads * width))
    for r in range(hop.num_rows):
        readers = [hop.first + r, *neighbours(hop, r)]
        for h in range(heads):
            rows = slice(h * width, (h + 1) * width)
            projected = [weight[rows].astype(np.float64) @ x[j] for j in readers]
            logits = [float(source[h] @ p + target[h] @ projected[0]) for p in projected]
            logits = [e if e > 0 else slope * e for e in logits]
            exponentials = [np.exp(e) for e in logits]
            for p, e in zip(projected, exponentials, strict=True):
                out[r, rows] += e / sum(exponentials) * p
    return out


def neighbour_mean(x, hop: Hop) -> np.ndarray:
    """[R, D]: the plain mean over neighbours, 0 without any."""
    out = np.zeros((hop.num_rows, x.shape[1]))
    for r in range(hop.num_rows):
        for j in neighbours(hop, r):
            out[r] += x[j] / len(neighbours(hop, r))
    return out


def gcn_sum(x, hop: Hop, graph_degrees) -> np.ndarray:
    """[R, D]: sum over neighbours and the node itself, scaled by (d_i + 1)^-1/2 (d_j + 1)^-1/2."""
    out = np.zeros((hop.num_rows, x.shape[1]))
    for r in range(hop.num_rows):
        me = hop.first + r
        for j in [me, *neighbours(hop, r)]:
            out[r] += x[j] / np.sqrt((graph_degrees[me] + 1) * (graph_degrees[j] + 1))
    return out


def elu(x) -> np.ndarray:
    """x above 0, exp(x) - 1 below."""
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
