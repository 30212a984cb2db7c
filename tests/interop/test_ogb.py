"""OGB folders of all layouts that have one node type."""

import gzip

import numpy as np
import pytest

from lrgi.errors import FormatError, InputError
from lrgi.interop.ogb import read_ogb

X = np.arange(8, dtype=np.float32).reshape(4, 2)


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write("".join(",".join(map(str, np.atleast_1d(row))) + "\n" for row in rows))


def folder_of(place, *, features=True, nodes=(4,), edges=(3,)):
    table(place / "raw" / "edge.csv.gz", [(0, 1), (1, 2), (2, 3)] if len(nodes) == 1 else [(0, 1), (0, 1)])
    table(place / "raw" / "num-node-list.csv.gz", nodes)
    table(place / "raw" / "num-edge-list.csv.gz", edges)
    if features:
        table(place / "raw" / "node-feat.csv.gz", X)
    return place


def split(place, name, train, valid, test):
    for word, rows in (("train", train), ("valid", valid), ("test", test)):
        table(place / "split" / name / f"{word}.csv.gz", rows)


def test_many_labels_the_only_split_and_names(tmp_path):
    place = folder_of(tmp_path / "ogbn_mine")
    table(place / "raw" / "node-label.csv.gz", [(0, 1), (1, 1), (0, 0), (1, 0)])
    split(place, "species", [0], [2, 1], [3])
    table(
        place / "mapping" / "nodeidx2asin.csv.gz",
        [("node idx", "asin"), (1, "B1"), (0, "007"), (3, "NA"), (2, "x")],
    )
    graph = read_ogb(place)
    assert graph.labels.tolist() == [[0, 1], [1, 1], [0, 0], [1, 0]]
    assert graph.split.tolist() == [1, 2, 2, 3]
    assert graph.ids.tolist() == ["007", "B1", "x", "NA"]
    assert graph.num_edges == 6
    np.testing.assert_array_equal(graph.features.array, X)
    np.testing.assert_array_equal(read_ogb(place, directed=True).degrees(), [0, 1, 1, 1])


def test_names_that_are_whole_numbers_and_mappings_of_something_else(tmp_path):
    place = folder_of(tmp_path / "a")
    table(
        place / "mapping" / "nodeidx2paperid.csv.gz",
        [("node idx", "paper id"), *((n, 10**12 + n) for n in range(4))],
    )
    assert read_ogb(place).ids.tolist() == [10**12 + n for n in range(4)]
    table(place / "mapping" / "nodeidx2paperid.csv.gz", [("node idx", "paper id"), (0, 3)])
    assert read_ogb(place).ids is None


def test_several_graphs_follow_each_other(tmp_path):
    place = folder_of(tmp_path / "ogbg_two", nodes=(2, 2), edges=(1, 1))
    split(place, "scaffold", [1], [], [0])
    graph = read_ogb(place)
    assert graph.offsets.tolist() == [0, 2, 4]
    assert graph.split.tolist() == [3, 3, 1, 1]
    assert graph.indices.tolist() == [1, 0, 3, 2]


def test_binary_files(tmp_path):
    place = tmp_path / "ogbn_binary"
    (place / "raw").mkdir(parents=True)
    np.savez(
        place / "raw" / "data.npz",
        edge_index=np.array([[0, 1], [1, 2]]), num_nodes_list=[4], num_edges_list=[2], node_feat=X,
    )  # fmt: skip
    np.savez(place / "raw" / "node-label.npz", node_label=np.array([[0.0], [np.nan], [1], [2]]))
    graph = read_ogb(place)
    assert graph.labels.tolist() == [0, -1, 1, 2]
    np.testing.assert_array_equal(graph.features.array, X)


def test_without_features_some_can_be_made(tmp_path):
    place = folder_of(tmp_path / "ogbn_bare", features=False)
    assert read_ogb(place, features_from="degree").encoding.made["from"] == "degree"
    with pytest.raises(InputError, match="a graph must have features, got none"):
        read_ogb(place)


def test_mistakes(tmp_path):
    with pytest.raises(FormatError, match=r"an OGB folder must hold raw/edge.csv.gz or raw/data.npz, got"):
        read_ogb(tmp_path)
    typed = tmp_path / "ogbn_mag"
    table(typed / "raw" / "num-node-dict.csv.gz", [("author", "paper"), (2, 3)])
    with pytest.raises(
        InputError, match=r"an OGB graph must have one node type, got .*ogbn_mag, which has sev"
    ):
        read_ogb(typed)
    place = folder_of(tmp_path / "a")
    split(place, "time", [0], [1], [2])
    split(place, "random", [0], [1], [2])
    with pytest.raises(InputError, match=r"split must be one of random, time in .*, got none; name one"):
        read_ogb(place)
    with pytest.raises(
        InputError, match=r"split must be a folder below .*split, got 'space'; check the name"
    ):
        read_ogb(place, split="space")
    assert read_ogb(place, split="time").split.tolist() == [1, 2, 3, 0]
    (place / "raw" / "edge.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(
        FormatError, match=r"the files in .* must be as OGB lays them out, got what cannot be"
    ):
        read_ogb(place, split="time")
