"""The sampler in plain Python integers, and the laws of a block."""

import numpy as np

from lrgi.graph.graph import Graph
from lrgi.sampling.block import Block

_WORD = (1 << 64) - 1


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _WORD
    return x ^ (x >> 31)


class _Stream:
    def __init__(self, key: int, node: int) -> None:
        self.state = _mix((node * 0xD1342543DE82EF95 + key) & _WORD)

    def below(self, bound: int) -> int:
        while True:
            self.state = (self.state + 0x9E3779B97F4A7C15) & _WORD
            product = (_mix(self.state) >> 32) * bound
            if product % 2**32 >= 2**32 % bound:
                return product >> 32


def draw(graph: Graph, node: int, fan_out: int | None, key: np.uint64, floyd_limit: int = 48) -> list[int]:
    """The neighbours that `node` reads."""
    row = [int(j) for j in graph.indices[graph.indptr[node] : graph.indptr[node + 1]]]
    if fan_out is None or len(row) <= fan_out:
        return row
    stream = _Stream(int(key), node)
    if fan_out > floyd_limit:
        taken: list[int] = []
        for i, j in enumerate(row):
            if len(taken) < fan_out and stream.below(len(row) - i) < fan_out - len(taken):
                taken.append(j)
        return taken
    places: list[int] = []
    for top in range(len(row) - fan_out, len(row)):
        place = stream.below(top + 1)
        places.append(top if place in places else place)
    return [row[p] for p in places]


def block_twin(
    graph: Graph, targets, fan_outs, key: np.uint64
) -> tuple[list[int], list[int], list[list[int]]]:
    """(nodes, ring ends, local neighbours per row), numbering each node when it is first met."""
    nodes = [int(t) for t in targets]
    place = {node: i for i, node in enumerate(nodes)}
    ends, rows, begin = [len(nodes)], [], 0
    for fan_out in fan_outs:
        for node in nodes[begin : ends[-1]]:
            drawn = draw(graph, node, fan_out, key)
            for j in drawn:
                if j not in place:
                    place[j] = len(nodes)
                    nodes.append(j)
            rows.append([place[j] for j in drawn])
        begin = ends[-1]
        ends.append(len(nodes))
    return nodes, ends, rows


def check_laws(block: Block, graph: Graph, targets, fan_outs) -> None:
    """Everything that every block must satisfy, whatever was drawn."""
    nodes = block.nodes.tolist()
    assert nodes[: block.num_targets] == [int(t) for t in targets]
    assert len(set(nodes)) == len(nodes) == block.ring_ends[-1]
    assert block.depth == len(fan_outs)
    assert list(block.ring_ends) == sorted(block.ring_ends)
    assert len(block.indptr) == block.ring_ends[-2] + 1  # every node within reach reads exactly once
    assert block.indptr[0] == 0 and block.indptr[-1] == len(block.indices)
    begin = 0
    for t, fan_out in enumerate(fan_outs):
        reached = set(nodes[: block.ring_ends[t]])
        for r in range(begin, block.ring_ends[t]):
            local = block.indices[block.indptr[r] : block.indptr[r + 1]].tolist()
            drawn = [nodes[j] for j in local]
            full = graph.indices[graph.indptr[nodes[r]] : graph.indptr[nodes[r] + 1]].tolist()
            assert set(drawn) <= set(full) and len(set(drawn)) == len(drawn)
            assert len(drawn) == (len(full) if fan_out is None else min(len(full), fan_out))
            reached |= set(drawn)
        assert reached == set(nodes[: block.ring_ends[t + 1]])  # a ring holds nothing that nobody read
        begin = block.ring_ends[t]
        hop = block.hop(t)
        assert (hop.num_rows, hop.num_sources, hop.first) == (block.ring_ends[t], block.ring_ends[t + 1], 0)
        assert np.array_equal(hop.indptr, block.indptr[: block.ring_ends[t] + 1])
        assert np.array_equal(hop.indices, block.indices[: hop.indptr[-1]])
        assert hop.num_edges == len(hop.indices)
        assert np.array_equal(hop.nodes, block.nodes[: block.ring_ends[t + 1]])
        assert np.array_equal(hop.source_degrees, graph.degrees()[hop.nodes])


def transpose_twin(indptr, indices, num_sources: int) -> tuple[list[int], list[int], list[int]]:
    """(starts, row of each edge, place of each edge counted from indptr[0]) by source, rows in order."""
    edges: list[list[tuple[int, int]]] = [[] for _ in range(num_sources)]
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            edges[indices[e]].append((r, int(e - indptr[0])))
    starts = np.cumsum([0, *map(len, edges)]).tolist()
    flat = [edge for of_source in edges for edge in of_source]
    return starts, [r for r, _ in flat], [place for _, place in flat]
