"""The laws of a block, on random graphs, and equality with the sampler written in plain Python."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lrgi import seed as randomness
from lrgi.errors import InputError
from lrgi.graph.graph import Graph
from lrgi.sampling.block import graph_hop
from lrgi.sampling.sample import ALL, sample_block, whole_graph
from reference.graphs import random_graph
from reference.sampling import block_twin, check_laws, draw, transpose_twin

fan_outs_lists = st.lists(st.sampled_from([0, 1, 2, 3, 7, 48, 49, ALL]), min_size=1, max_size=3).map(tuple)


@st.composite
def cases(draw_from):
    nodes = draw_from(st.integers(2, 90))
    graph = random_graph(draw_from(st.integers(0, 99)), nodes=nodes, edges=draw_from(st.integers(4, 900)))
    targets = np.random.default_rng(draw_from(st.integers(0, 99))).permutation(nodes)
    targets = targets[: draw_from(st.integers(1, nodes))]
    return graph, targets, draw_from(fan_outs_lists), randomness.key(draw_from(st.integers(0, 99)), "k")


def rows_of(block):
    return [block.indices[a:b].tolist() for a, b in zip(block.indptr, block.indptr[1:], strict=False)]


@given(cases())
def test_laws_of_a_block(case):
    graph, targets, fan_outs, key = case
    check_laws(sample_block(graph, targets, fan_outs, key), graph, targets, fan_outs)


@given(cases())
def test_a_block_is_what_plain_python_samples(case):
    graph, targets, fan_outs, key = case
    block = sample_block(graph, targets, fan_outs, key)
    nodes, ends, rows = block_twin(graph, targets, fan_outs, key)
    assert block.nodes.tolist() == nodes
    assert list(block.ring_ends) == ends
    assert rows_of(block) == rows


def test_all_takes_full_neighbourhoods():
    graph = random_graph(3, nodes=60, edges=500)
    block = sample_block(graph, np.arange(60), (ALL,), randomness.key(0))
    for node, local in enumerate(rows_of(block)):
        full = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        assert local == full.tolist()


def big_graph():
    """Enough rows and edges for several tasks, a hub whose sample passes by selection, and a heavy tail."""
    random = np.random.default_rng(2)
    edges = random.integers(0, 4000, (2, 60_000))
    edges[1, :3000] = 7
    return Graph.from_edges(edges, np.zeros((4000, 1), np.float32), directed=True)


@pytest.mark.parametrize("fan_outs", [(10, 5), (60, 3), (ALL, 2)])
def test_same_block_for_1_and_2_threads(fan_outs, restore_threads):
    graph, targets = big_graph(), np.random.default_rng(0).permutation(4000)[:2500]
    blocks = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        blocks.append(sample_block(graph, targets, fan_outs, randomness.key(1)))
    one, two = blocks
    check_laws(one, graph, targets, fan_outs)
    assert one.ring_ends == two.ring_ends
    for name in ("nodes", "indptr", "indices"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("fan_out", [4, 60])
def test_what_a_node_reads_does_not_depend_on_its_batch(fan_out):
    graph, key = random_graph(1, nodes=150, edges=9000), randomness.key(0, "epoch", 3)

    def read_by(targets, node):
        block = sample_block(graph, np.array(targets), (fan_out, fan_out), key)
        row = block.nodes.tolist().index(node)
        return block.nodes[block.indices[block.indptr[row] : block.indptr[row + 1]]].tolist()

    hub = int(np.argmax(graph.degrees()))
    alone = read_by([hub], hub)
    assert len(alone) == fan_out < graph.degrees()[hub]
    others = [node for node in range(150) if node != hub]
    assert read_by([*others[:70], hub], hub) == alone  # last of a large batch
    reader = next(n for n in others if hub in draw(graph, n, fan_out, key))
    assert read_by([reader], hub) == alone  # as a node of the second hop


def test_what_a_node_reads_depends_on_the_key():
    graph = random_graph(1, nodes=150, edges=9000)
    hub = int(np.argmax(graph.degrees()))
    drawn = {tuple(draw(graph, hub, 4, randomness.key(0, "neighbours", 1, e))) for e in range(20)}
    assert len(drawn) == 20


def test_targets_of_any_integer_kind_and_read_only():
    graph, key = random_graph(0), randomness.key(4)
    expected = sample_block(graph, np.array([3, 1, 9]), (2, 2), key)
    for dtype in (np.int32, np.int64, np.uint16):
        targets = np.array([3, 1, 9], dtype)
        targets.flags.writeable = False
        assert np.array_equal(sample_block(graph, targets, (2, 2), key).nodes, expected.nodes)


def test_repeated_targets_are_refused_and_left_alone():
    graph, targets = random_graph(0), np.array([1, 1, 2], np.int32)
    sentence = "targets must be distinct nodes, got a node twice; remove the repetition"
    with pytest.raises(InputError, match=sentence):
        sample_block(graph, targets, (2,), randomness.key(0))
    assert targets.tolist() == [1, 1, 2]


def test_a_graph_with_int64_ids():
    """Graphs beyond 2^31 nodes have them; here a small one is given the type."""
    graph, key = random_graph(5, nodes=80, edges=1200), randomness.key(2)
    targets = np.arange(0, 80, 3)
    expected = sample_block(graph, targets, (5, 4), key)
    wide = Graph.trusted(graph.indptr, graph.indices, graph.features)
    object.__setattr__(wide, "indices", graph.indices.astype(np.int64))
    block = sample_block(wide, targets, (5, 4), key)
    assert block.nodes.dtype == np.int64
    check_laws(block, wide, targets, (5, 4))
    assert np.array_equal(block.nodes, expected.nodes)
    assert np.array_equal(block.indices, expected.indices)


def test_a_mapped_graph_is_sampled_as_one_in_memory(tmp_path):
    graph, key = random_graph(5, nodes=80, edges=1200), randomness.key(2)
    for name in ("indptr", "indices"):
        np.save(tmp_path / f"{name}.npy", getattr(graph, name))
    arrays = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices")]
    mapped = Graph.trusted(*arrays, graph.features)
    targets = np.arange(40)
    one, two = (sample_block(g, targets, (5, 49), key) for g in (graph, mapped))
    assert np.array_equal(one.nodes, two.nodes) and np.array_equal(one.indices, two.indices)


def three_graphs():
    edges = np.array([[0, 1, 3, 4, 5, 7], [1, 2, 4, 5, 6, 8]])
    return Graph.from_edges(edges, np.zeros((10, 2), np.float32), offsets=[0, 3, 7, 10])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_whole_graph_is_all_nodes_and_all_edges(which):
    graph = three_graphs()
    start, stop = graph.offsets[which : which + 2].tolist()
    block = whole_graph(graph, which, 2)
    targets = list(range(start, stop))
    assert block.nodes.tolist() == targets and block.span == (start, stop)
    assert block.ring_ends == (stop - start,) * 3
    for local, node in zip(rows_of(block), targets, strict=True):
        full = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        assert block.nodes[local].tolist() == full.tolist()
    assert block.hop(0) is block.hop(1), "one transposition serves every hop"


@given(st.integers(0, 99), st.integers(2, 40), st.integers(0, 40), st.integers(0, 40))
def test_transposed_of_any_range_of_rows(seed, nodes, a, b):
    graph = random_graph(seed, nodes=nodes)
    start, stop = sorted((min(a, nodes), min(b, nodes)))
    hop = graph_hop(graph.indptr, graph.indices, start, stop)
    ours = [part.tolist() for part in hop.transposed]
    assert ours == [list(part) for part in transpose_twin(hop.indptr, hop.indices, hop.num_sources)]


def test_transposed_of_a_sampled_hop():
    graph = random_graph(8, nodes=50, edges=600)
    hop = sample_block(graph, np.arange(0, 50, 4), (4, 3), randomness.key(0)).hop(1)
    ours = [part.tolist() for part in hop.transposed]
    assert ours == [list(part) for part in transpose_twin(hop.indptr, hop.indices, hop.num_sources)]


def test_a_range_of_a_graph_as_a_hop():
    graph = random_graph(8, nodes=50, edges=600)
    hop = graph_hop(graph.indptr, graph.indices, 10, 25)
    assert (hop.num_rows, hop.num_sources, hop.first) == (15, 50, 10)
    assert hop.num_edges == graph.degrees()[10:25].sum()
    assert np.array_equal(hop.degrees, graph.degrees()[10:25])
    assert np.array_equal(hop.source_degrees, graph.degrees())
