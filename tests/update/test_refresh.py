"""Changed graphs and the rows that a change touches: bit for bit as made from scratch, for every layer."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrgi import encoder as encoder_module
from lrgi.encoder import Encoder, embed_layer
from lrgi.errors import InputError
from lrgi.graph.arrays import describe_array, open_array
from lrgi.graph.change import edge_change, is_symmetric, write_changed_edges
from lrgi.graph.features import DenseTable, as_table
from lrgi.graph.graph import Graph
from lrgi.layers.make import make_layer
from lrgi.update.refresh import Reach, refresh_tables
from lrgi.update.tables import TablesWork, kept_tables, problems_of_tables
from lrgi.update.touched import touched_rows

KINDS = ["gat", "sage", "gcn", "plain-gcn", "mean", "propagate"]
COLUMNS, WIDTH = 5, 12
BITS = np.int32


def layers_of(kind, columns=COLUMNS):
    made = []
    for number in range(2):
        wide = columns if kind == "propagate" else WIDTH
        made.append(make_layer(kind, columns, wide))
        made[-1].reset(torch.Generator().manual_seed(number))
        columns = wide
    return made


def both_ways(pairs, directed):
    return set(pairs) if directed else {edge for a, b in pairs for edge in ((a, b), (b, a))}


class Case:
    """A random graph, and a random change of it: the slow way, as sets of pairs (sender, receiver)."""

    def __init__(self, seed, directed):
        random = np.random.default_rng(seed)
        self.directed = directed
        self.old_nodes = int(random.integers(3, 90))
        self.nodes = self.old_nodes + int(random.integers(0, 4))

        def draw(many, below):
            return [(int(a), int(b)) for a, b in random.integers(0, below, (many, 2)) if a != b]

        before = [*draw(int(random.integers(2, 200)), self.old_nodes), (0, 1)]
        self.before = both_ways(before, directed)
        self.added = dict.fromkeys(draw(int(random.integers(0, 8)), self.nodes))
        some = sorted(self.before)
        gone = [some[at] for at in random.integers(0, len(some), int(random.integers(0, 4)))]
        known = both_ways(self.added, directed) | {(0, 1), (1, 0)}
        self.removed = dict.fromkeys(edge for edge in gone if edge not in known)
        self.after = (self.before - both_ways(self.removed, directed)) | both_ways(self.added, directed)
        features = random.standard_normal((self.nodes, COLUMNS)).astype(np.float32)
        other = np.flatnonzero(random.random(self.old_nodes) < 0.03)
        self.inputs = np.concatenate([other, np.arange(self.old_nodes, self.nodes)])
        was = features[: self.old_nodes].copy()
        was[other] += 1
        self.old = self.graph(self.before, was)
        self.new = self.graph(self.after, features)

    def graph(self, pairs, features):
        return Graph.from_edges(np.array(sorted(pairs)).T, features, directed=True)

    def change(self):
        def as_array(pairs):
            once = sorted({pair if self.directed else tuple(sorted(pair)) for pair in pairs})
            return np.array(once, np.int64).reshape(-1, 2).T

        return edge_change(
            self.old, self.nodes, as_array(self.added), as_array(self.removed), directed=self.directed
        )


@given(st.integers(0, 2**32), st.booleans())
def test_changed_in_neighbours_are_those_of_the_changed_edges(seed, directed):
    case = Case(seed, directed)
    change = case.change()
    with tempfile.TemporaryDirectory() as place:
        entries = write_changed_edges(case.old, change, Path(place))
        np.testing.assert_array_equal(open_array(Path(place), entries["indptr"]), case.new.indptr)
        np.testing.assert_array_equal(open_array(Path(place), entries["indices"]), case.new.indices)
    both = 1 if directed else 2
    assert len(change.receivers) == len(case.after - case.before)
    assert len(change.gone) == len(case.before - case.after)
    assert change.known * both == len(both_ways(case.added, directed) & case.before)
    rows = {r for _, r in case.after ^ case.before} | set(range(case.old_nodes, case.nodes))
    assert change.changed_rows(case.old).tolist() == sorted(rows)
    assert is_symmetric(case.new) == all((b, a) in case.after for a, b in case.after)


def tables_in(folder, graph, layers, name):
    """All tables from scratch, kept."""
    work = TablesWork(folder, {"graph": name}, lambda text: None)
    nothing = Reach(np.empty(0, np.int64), np.empty(0, np.int64), True)
    refresh_tables(Encoder(layers), graph, None, nothing, work)
    work.finish({"nodes": graph.num_nodes})
    return kept_tables(folder, {"graph": name})


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32), directed=st.booleans(), chunk=st.sampled_from([7, 1 << 20]))
@settings(max_examples=12)
def test_refreshed_tables_have_the_bits_of_tables_from_scratch(kind, seed, directed, chunk):
    case, layers = Case(seed, directed), layers_of(kind)
    rows = case.change().changed_rows(case.old)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        old = tables_in(folder, case.old, layers, "old")
        work = TablesWork(folder, {"graph": "new"}, lambda text: None)
        reach = Reach(rows, case.inputs, directed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoder_module, "CHUNK_EDGES", chunk)
            patch.setattr(encoder_module, "CHUNK_ROWS", min(chunk, 1 << 16))
            done = refresh_tables(Encoder(layers), case.new, old, reach, work, most_edges=2.0)
        work.finish({"nodes": case.nodes})
        made = kept_tables(folder, {"graph": "new"})
        table = case.new.features
        for number, layer in enumerate(layers, 1):
            table = embed_layer(layer, case.new, table)
            found = made.table(number).array
            np.testing.assert_array_equal(found.view(BITS), table.array.view(BITS))
        assert [one.made for one in done if one.rows] == ["rows"] * sum(one.rows > 0 for one in done)
        assert list(problems_of_tables(folder)) == []


@pytest.mark.parametrize("width", [5, 32])
def test_of_sparse_features_too(tmp_path, width):
    case = Case(11, False)
    sparse = pytest.importorskip("scipy.sparse")
    keep = np.random.default_rng(0).random((case.nodes, 9)) < 0.4
    new = case.graph(case.after, as_table(sparse.csr_matrix(np.where(keep, 1.5, 0))))
    old = case.graph(case.before, new.features.slice(0, case.old_nodes))
    layer = make_layer("sage", 9, width)
    layer.reset(torch.Generator().manual_seed(0))
    kept = tables_in(tmp_path, old, [layer], "old")
    work = TablesWork(tmp_path, {"graph": "new"}, lambda text: None)
    reach = Reach(case.change().changed_rows(old), np.arange(case.old_nodes, case.nodes), False)
    refresh_tables(Encoder([layer]), new, kept, reach, work, most_edges=2.0)
    found = np.load(work.file(1))
    np.testing.assert_array_equal(found.view(BITS), embed_layer(layer, new, new.features).array.view(BITS))


# A path 0 - 1 - ... - 9, to which the edge 0 - 2 is added: 0 and 2 have other neighbours, and another degree.
REACHED = {
    "gat": ([0, 2], [0, 1, 2, 3]),
    "sage": ([0, 2], [0, 1, 2, 3]),
    "gcn": ([0, 1, 2, 3], [0, 1, 2, 3, 4]),
    "plain-gcn": ([0, 1, 2, 3], [0, 1, 2, 3, 4]),
    "mean": ([0, 2], [0, 1, 2, 3]),
    "propagate": ([0, 2], [0, 1, 2, 3]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [False, True])
def test_what_a_new_edge_reaches(kind, directed):
    path = [(a, a + 1) for a in range(9)]
    edges = np.array(sorted(both_ways([*path, (0, 2)], False))).T
    graph = Graph.from_edges(edges, np.zeros((10, 3), np.float32), directed=True)
    rows, inputs, found = np.array([0, 2]), np.empty(0, np.int64), []
    for layer in layers_of(kind, 3):
        inputs = touched_rows(layer, graph, rows, inputs, directed=directed)
        found.append(inputs.tolist())
    assert tuple(found) == REACHED[kind]


def test_a_node_that_only_sends_is_not_touched_and_a_mean_does_not_read_its_own_row():
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], np.zeros((4, 3), np.float32), directed=True)
    nothing, first = np.empty(0, np.int64), np.array([1])
    for kind, expected in (("sage", [1, 2]), ("mean", [2])):
        layer = layers_of(kind, 3)[0]
        assert touched_rows(layer, graph, nothing, first, directed=True).tolist() == expected


def test_rows_do_not_depend_on_where_they_stand():
    """ELU's last elements are computed in another way by torch: here they must not be."""
    random = np.random.default_rng(0)
    graph = Graph.from_edges(random.integers(0, 999, (2, 4000)), random.standard_normal((999, 7)))
    (layer, _) = layers_of("sage", 7)
    whole = embed_layer(layer, graph, graph.features).array
    for start in (0, 1, 500):
        for stop in (start + 1, start + 3, 990):
            found = np.empty((999, WIDTH), np.float32)
            encoder_module.embed_rows(layer, graph, graph.features, np.arange(start, stop), found.__setitem__)
            assert np.array_equal(found[start:stop].view(BITS), whole[start:stop].view(BITS))


def test_mistakes_of_edges():
    graph = Graph.from_edges([[0, 1], [1, 2]], np.zeros((4, 1), np.float32))
    one = np.array([[2], [1]])
    with pytest.raises(InputError, match="an edge must be either new or one to remove, got 1 that are both"):
        edge_change(graph, 4, one, one, directed=False)
    nothing = np.empty((2, 0), np.int64)
    everything = edge_change(graph, 4, nothing, np.array([[0, 1], [1, 2]]), directed=False)
    with (
        tempfile.TemporaryDirectory() as place,
        pytest.raises(InputError, match="at least one edge between two different nodes, got none that stays"),
    ):
        write_changed_edges(graph, everything, Path(place))
    many = Graph.from_edges([[0, 2], [1, 3]], np.zeros((4, 1), np.float32), offsets=[0, 2, 4])
    with pytest.raises(InputError, match="a graph of many graphs must keep its nodes, got 1 new ones for 2"):
        edge_change(many, 5, nothing, directed=False)


def test_tables_under_way_go_on_and_damaged_ones_are_told(tmp_path):
    case, layers, told = Case(5, False), layers_of("gat"), []
    old = tables_in(tmp_path, case.old, layers, "old")
    work = TablesWork(tmp_path, {"graph": "new"}, told.append)
    reach = Reach(case.change().changed_rows(case.old), case.inputs, False)
    refresh_tables(Encoder(layers[:1]), case.new, old, reach, work)  # and the process dies
    assert kept_tables(tmp_path, {"graph": "new"}) is None
    again = TablesWork(tmp_path, {"graph": "new"}, told.append)
    assert told == [f"going on with tables in {again.directory}: 1 layers are there"]
    refresh_tables(Encoder(layers), case.new, old, reach, again)
    again.finish({"nodes": case.nodes})
    made = kept_tables(tmp_path, {"graph": "new"})
    expected = embed_layer(layers[1], case.new, made.table(1)).array
    np.testing.assert_array_equal(made.table(2).array, expected)
    with again.file(2).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    (problem,) = problems_of_tables(tmp_path)
    assert "U_2.npy must have checksum" in problem
    assert describe_array(again.file(1)) == made.entry(1)
    assert isinstance(made.table(1), DenseTable)
