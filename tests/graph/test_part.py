"""Parts of a graph: who owns what, what is held, that samples are those of the whole, and the files."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import disjoint_union
from lrgi.graph.part import Part, cost_of, cut_edges, cut_part, owners_by_range
from lrgi.graph.partition import MANIFEST, is_partition, open_part, read_partition, save_partition
from lrgi.graph.synthetic import planted_communities
from lrgi.interop.metis import owners_by_metis
from lrgi.sampling.sample import Batches, Sampling
from lrgi.sampling.share import Owned


@pytest.fixture(scope="module")
def graph() -> Graph:
    return planted_communities(400, 1_200, classes=4, features=6, seed=5)


def rows_by_name(part: Part) -> dict[int, list[int]]:
    return {
        int(part.names[row]): part.names[part.indices[a:b]].tolist()
        for row, (a, b) in enumerate(pairwise(part.indptr))
    }


@pytest.mark.parametrize("cut", [owners_by_range, owners_by_metis])
@pytest.mark.parametrize("count", [1, 3])
def test_parts_own_every_node_once_and_hold_two_hops(graph, cut, count):
    owners = cut(graph, count)
    parts = [cut_part(graph, owners, number) for number in range(count)]
    assert sorted(np.concatenate([part.names[: part.owned] for part in parts]).tolist()) == list(range(400))
    neighbours = [set(graph.indices[a:b].tolist()) for a, b in pairwise(graph.indptr)]
    for part in parts:
        own = set(part.names[: part.owned].tolist())
        within_one = own.union(*(neighbours[node] for node in own))
        within_two = within_one.union(*(neighbours[node] for node in within_one))
        assert set(part.names[: part.complete].tolist()) == within_one
        assert set(part.names.tolist()) == within_two
        assert len(set(part.names.tolist())) == part.num_nodes
        rows = rows_by_name(part)
        for row, name in enumerate(part.names.tolist()):
            whole = graph.indices[graph.indptr[name] : graph.indptr[name + 1]].tolist()
            assert rows[name] == (whole if row < part.complete else [])
        assert np.array_equal(np.diff(part.degree_indptr), graph.degrees()[part.names])
        assert np.array_equal(part.features.array, graph.features.array[part.names])
        assert np.array_equal(part.owners, owners[part.names[part.owned :]])
        assert cost_of(part).edges == sum(map(len, rows.values()))


def test_metis_cuts_fewer_edges_than_ranges_and_keeps_parts_even(graph):
    metis, ranges = owners_by_metis(graph, 4), owners_by_range(graph, 4)
    assert cut_edges(graph, metis) < 0.7 * cut_edges(graph, ranges)
    assert np.bincount(metis).max() < 1.2 * 100
    assert (np.diff(ranges) >= 0).all()
    loads = np.bincount(ranges, weights=graph.degrees() + 1)
    assert loads.max() < 1.1 * loads.mean()


def test_metis_takes_edges_that_go_one_way():
    chain = np.stack([np.arange(39), np.arange(1, 40)])
    graph = Graph.from_edges(chain, np.ones((40, 2)), directed=True)
    owners = owners_by_metis(graph, 2)
    assert set(owners.tolist()) == {0, 1}
    assert cut_edges(graph, owners) <= 3


@pytest.mark.parametrize(("batch_size", "fan_outs"), [(64, (4, 2)), (64, (2, 4)), (0, (1, 1))])
def test_a_part_samples_what_the_whole_graph_would(graph, batch_size, fan_outs):
    both = disjoint_union([graph, planted_communities(100, 300, classes=4, features=6, seed=6)])
    sampling, owners = Sampling(batch_size, fan_outs), owners_by_metis(both, 3)
    whole = list(Batches(both, sampling, 7, 1).epoch(2))
    parts = [cut_part(both, owners, number) for number in range(3)]
    shares = [list(Batches(part, sampling, 7, 1, share=Owned(part)).epoch(2)) for part in parts]
    for number, block in enumerate(whole):
        expected = reads(block, np.arange(both.num_nodes))
        targets = []
        for part, blocks in zip(parts, shares, strict=True):
            mine = blocks[number]
            assert mine.batch_targets == block.num_targets
            targets += part.names[mine.nodes[: mine.num_targets]].tolist()
            found = reads(mine, part.names)
            assert found.items() <= expected.items()
            assert np.array_equal(mine.hop(1).source_degrees, both.degrees()[part.names[mine.nodes]])
        assert sorted(targets) == sorted(block.nodes[: block.num_targets].tolist())


def reads(block, names) -> dict[int, tuple[int, ...]]:
    return {
        int(names[block.nodes[row]]): tuple(names[block.nodes[block.indices[a:b]]].tolist())
        for row, (a, b) in enumerate(pairwise(block.indptr))
    }


@pytest.mark.parametrize("sparse", [False, True])
def test_a_partition_is_written_and_read_back(graph, tmp_path, sparse):
    if sparse:
        n = graph.num_nodes
        table = SparseTable(np.arange(n + 1), np.arange(n, dtype=np.int32) % 9, np.ones(n, np.float32), 9)
        graph = Graph(graph.indptr, graph.indices, table)
    manifest = save_partition(graph, owners_by_range(graph, 3), tmp_path / "parts", about={"by": "ranges"})
    assert is_partition(tmp_path / "parts")
    assert read_partition(tmp_path / "parts") == json.loads(json.dumps(manifest))
    assert sum(part["owned"] for part in manifest["parts"]) == graph.num_nodes
    for number in range(3):
        cut, opened = (
            cut_part(graph, owners_by_range(graph, 3), number),
            open_part(tmp_path / "parts", number, 3, verify=True),
        )
        assert rows_by_name(cut) == rows_by_name(opened)
        assert np.array_equal(cut.features.rows(range(9)), opened.features.rows(range(9)))
        assert (opened.owned, opened.complete, opened.whole_nodes) == (cut.owned, cut.complete, 400)
        assert manifest["parts"][number]["share_of_nodes"] == round(cut.num_nodes / 400, 4)


def test_what_cannot_be_is_one_sentence(graph, tmp_path):
    place = tmp_path / "parts"
    save_partition(graph, owners_by_range(graph, 2), place)
    with pytest.raises(
        InputError, match="a graph in 2 parts must be taken by 2 processes, got 3; start as many"
    ):
        open_part(place, 0, 3)
    with pytest.raises(
        InputError, match=r"place for a partition must be free, got .*parts, which holds some"
    ):
        save_partition(graph, owners_by_range(graph, 2), place)
    save_partition(graph, owners_by_range(graph, 2), place, overwrite=True)
    with pytest.raises(InputError, match="every part must own a node, got none for part 0 of 2"):
        cut_part(graph, np.ones(400, np.int32), 0)
    with pytest.raises(FormatError, match="a partition must be a directory with a manifest"):
        read_partition(tmp_path)
    (place / "part-001" / "names.npy").write_bytes(b"")
    with pytest.raises(FormatError, match=r"array file .*names.npy must have \d+ bytes, got 0"):
        open_part(place, 1, 2)
    (place / "part-001" / "part.json").unlink()
    with pytest.raises(FormatError, match=r"a part must have a part\.json, got none that can be read"):
        open_part(place, 1, 2)
    manifest = json.loads((place / MANIFEST).read_text()) | {"version": 9}
    (place / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(FormatError, match="a partition's version must be from 1 to 1, got 9"):
        open_part(place, 0, 2)
