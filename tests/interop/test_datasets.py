"""Data sets by name: small files laid out exactly as the libraries lay them out, and what may go wrong."""

import gzip
import json
import os
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import SparseTable
from lrgi.graph.graph import Graph
from lrgi.graph.split import NO_SPLIT, TEST, TRAIN, VALIDATION
from lrgi.interop.datasets import from_ogb, from_pyg
from lrgi.interop.datasets.facts import NAMED, Facts, check_facts
from lrgi.interop.datasets.read import read_dataset

RANDOM = np.random.default_rng(0)


def both_ways(pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {edge for a, b in pairs for edge in ((a, b), (b, a))}


def ring(nodes: int, first: int = 0) -> set[tuple[int, int]]:
    return {(first + i, first + (i + 1) % nodes) for i in range(nodes)}


def edges_of(graph: Graph) -> set[tuple[int, int]]:
    receiver = np.repeat(np.arange(graph.num_nodes), graph.degrees())
    return set(zip(graph.indices.tolist(), receiver.tolist(), strict=True))


def write_ppi(root: Path) -> np.ndarray:
    """Two graphs of 4 and 5 nodes to train on, one of 6 for validation, one of 4 for the test."""
    place, rows = root / "ppi" / "raw", []
    place.mkdir(parents=True)
    number = 1
    for part, sizes in (("train", (4, 5)), ("valid", (6,)), ("test", (4,))):
        starts = np.cumsum([0, *sizes])
        links = [e for n, start in zip(sizes, starts, strict=False) for e in ring(n, int(start))]
        links.append((0, 0))  # a loop: PyG drops them
        nodes = [{"id": i, "test": False, "val": False} for i in range(int(starts[-1]))]
        given = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes}
        given["links"] = [{"source": a, "target": b} for a, b in links]
        (place / f"{part}_graph.json").write_text(json.dumps(given))
        x = RANDOM.standard_normal((len(nodes), 3))
        np.save(place / f"{part}_feats.npy", x)
        np.save(place / f"{part}_labels.npy", RANDOM.integers(0, 2, (len(nodes), 7)))
        np.save(place / f"{part}_graph_id.npy", np.repeat(np.arange(number, number + len(sizes)), sizes))
        number += len(sizes)
        rows.append(x)
    return np.concatenate(rows)


def test_ppi_is_many_graphs_with_many_labels_split_by_graph(tmp_path):
    x = write_ppi(tmp_path)
    graph = read_dataset("ppi", tmp_path, facts=Facts(19, 38, 3, 7, 4, (9, 6, 4)))
    assert graph.name == "ppi"
    assert graph.offsets.tolist() == [0, 4, 9, 15, 19]
    assert edges_of(graph) == both_ways(ring(4) | ring(5, 4) | ring(6, 9) | ring(4, 15))
    assert graph.labels.shape == (19, 7)
    np.testing.assert_allclose(graph.features.array, x, rtol=1e-6)
    assert graph.split.tolist() == [TRAIN] * 9 + [VALIDATION] * 6 + [TEST] * 4
    assert not (tmp_path / "ppi" / "processed").exists(), "nothing is left that would be unpickled later"


def test_reddit_comes_with_its_split(tmp_path):
    place = tmp_path / "reddit" / "raw"
    place.mkdir(parents=True)
    kinds = np.array([1, 1, 2, 3, 3, 3])
    x, y = RANDOM.standard_normal((6, 4)), np.arange(6) % 3
    np.savez(place / "reddit_data.npz", feature=x, label=y, node_types=kinds, node_ids=np.arange(6))
    row, column = np.array(sorted(both_ways(ring(6)))).T
    sp.save_npz(place / "reddit_graph.npz", sp.coo_matrix((np.ones(12), (row, column)), shape=(6, 6)))
    graph = read_dataset("reddit", tmp_path, facts=Facts(6, 12, 4, 3, split=(2, 1, 3)))
    assert edges_of(graph) == both_ways(ring(6))
    assert graph.split.tolist() == [TRAIN, TRAIN, VALIDATION, TEST, TEST, TEST]
    assert graph.labels.tolist() == y.tolist()


def test_flickr_has_classes_and_roles_in_json(tmp_path):
    place = tmp_path / "flickr" / "raw"
    place.mkdir(parents=True)
    adjacency = sp.csr_matrix((np.ones(10), tuple(np.array(sorted(both_ways(ring(5)))).T)), shape=(5, 5))
    np.savez(
        place / "adj_full.npz", data=adjacency.data, indices=adjacency.indices, indptr=adjacency.indptr,
        shape=adjacency.shape,
    )  # fmt: skip
    np.save(place / "feats.npy", RANDOM.standard_normal((5, 2)))
    (place / "class_map.json").write_text(json.dumps({str(i): i % 2 for i in range(5)}))
    (place / "role.json").write_text(json.dumps({"tr": [0, 3], "va": [1], "te": [2, 4]}))
    graph = read_dataset("flickr", tmp_path, facts=Facts(5, 10, 2, 2, split=(2, 1, 2)))
    assert graph.split.tolist() == [TRAIN, VALIDATION, TEST, TRAIN, TEST]
    assert graph.labels.tolist() == [0, 1, 0, 1, 0]


def test_wikics_has_twenty_splits_of_which_one_is_taken(tmp_path):
    place = tmp_path / "wikics" / "raw"
    place.mkdir(parents=True)
    trains = [[i == j for j in range(4)] for i in range(4)]
    given = {
        "features": RANDOM.standard_normal((4, 3)).tolist(), "labels": [0, 1, 1, 0],
        "links": [[1], [2], [3], [0]],
        "train_masks": trains, "val_masks": [[i == (j + 1) % 4 for j in range(4)] for i in range(4)],
        "stopping_masks": trains, "test_mask": [False] * 4,
    }  # fmt: skip
    (place / "data.json").write_text(json.dumps(given))
    facts = Facts(4, 8, 3, 2)
    assert read_dataset("wikics", tmp_path, facts=facts).split.tolist() == [TRAIN, 0, 0, VALIDATION]
    assert read_dataset("wikics", tmp_path, facts=facts, split=2).split.tolist() == [0, VALIDATION, TRAIN, 0]


def pickled(value) -> bytes:
    return pickle.dumps(value, protocol=2)


def write_planetoid(root: Path, name: str, tests: list[int]) -> np.ndarray:
    """Eight nodes of which two are labelled for training; test nodes in disorder, as theirs are."""
    place = root / name / "raw"
    place.mkdir(parents=True)
    known = min(tests)
    x = (RANDOM.random((known + len(tests), 5)) < 0.4).astype(np.float32)
    y = np.eye(3)[np.arange(len(x)) % 3]
    graph = defaultdict(list)
    for a, b in both_ways(ring(max(tests) + 1)):
        graph[a].append(b)
    parts = {"x": x[:2], "allx": x[:known], "tx": x[known:]}
    for kind, rows in parts.items():
        (place / f"ind.{name}.{kind}").write_bytes(pickled(sp.csr_matrix(rows)))
    for kind, rows in {"y": y[:2], "ally": y[:known], "ty": y[known:]}.items():
        (place / f"ind.{name}.{kind}").write_bytes(pickled(rows))
    (place / f"ind.{name}.graph").write_bytes(pickled(graph))
    (place / f"ind.{name}.test.index").write_text("\n".join(map(str, tests)) + "\n")
    return x


@pytest.fixture
def few_for_validation(monkeypatch):
    """PyG takes 500 nodes for validation, more than a small file has; the rest of its reader is itself."""
    from torch_geometric.io import planetoid

    def index_to_mask(index, size):
        return planetoid_mask(index[index < min(size, 4)] if len(index) == 500 else index, size)

    planetoid_mask = planetoid.index_to_mask
    monkeypatch.setattr(planetoid, "index_to_mask", index_to_mask)


@pytest.mark.parametrize("name", ["cora", "pubmed"])
def test_planetoid_puts_test_rows_where_its_index_says(tmp_path, few_for_validation, name):
    x = write_planetoid(tmp_path, name, [7, 5, 6])
    graph = read_dataset(name, tmp_path, facts=Facts(8, 16, 5, 3, split=(2, 2, 3)))
    expected = x.copy()
    expected[[7, 5, 6]] = x[[5, 6, 7]]
    assert np.array_equal(graph.features.rows(np.arange(8)), expected)
    assert edges_of(graph) == both_ways(ring(8))
    assert graph.split.tolist() == [TRAIN, TRAIN, VALIDATION, VALIDATION, NO_SPLIT, TEST, TEST, TEST]


def test_citeseers_missing_nodes_are_rows_of_zeros(tmp_path, few_for_validation):
    x = write_planetoid(tmp_path, "citeseer", [8, 5, 6])
    graph = read_dataset("citeseer", tmp_path, facts=Facts(9, 18, 5, 3, split=(2, 2, 3)))
    assert np.array_equal(graph.features.rows([7])[0], np.zeros(5))
    assert np.array_equal(graph.features.rows([8])[0], x[5])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("amazon-computers", "Computers/raw/amazon_electronics_computers.npz"),
        ("amazon-photo", "Photo/raw/amazon_electronics_photo.npz"),
        ("coauthor-cs", "CS/raw/ms_academic_cs.npz"),
        ("coauthor-physics", "Physics/raw/ms_academic_phy.npz"),
    ],
)
def test_gnn_benchmark_files_are_made_undirected_and_have_no_split(tmp_path, name, file):
    place = tmp_path / file
    place.parent.mkdir(parents=True)
    x = sp.random(6, 40, 0.06, format="csr", random_state=0)
    adjacency = sp.csr_matrix((np.ones(6), tuple(np.array(sorted(ring(6))).T)), shape=(6, 6))
    parts = {"attr": x, "adj": adjacency}
    arrays = {
        f"{k}_{p}": getattr(m, p) for k, m in parts.items() for p in ("data", "indices", "indptr", "shape")
    }
    np.savez(place, **arrays, labels=np.arange(6) % 3)
    graph = read_dataset(name, tmp_path, facts=Facts(6, 12, 40, 3))
    assert edges_of(graph) == both_ways(ring(6))
    assert isinstance(graph.features, SparseTable)
    assert np.array_equal(graph.features.rows(np.arange(6)), (x.toarray() > 0).astype(np.float32))
    assert graph.split is None


def write_csv(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.write("".join(",".join(map(str, np.atleast_1d(row))) + "\n" for row in rows))


@pytest.mark.parametrize(("name", "split"), [("ogbn-products", "sales_ranking"), ("ogbn-arxiv", "time")])
def test_ogb_files_are_read_with_ogbs_split(tmp_path, capsys, name, split):
    place = tmp_path / name.replace("-", "_")
    x = RANDOM.standard_normal((6, 4)).astype(np.float32)
    write_csv(place / "raw" / "edge.csv.gz", sorted(ring(6)))
    write_csv(place / "raw" / "node-feat.csv.gz", x)
    write_csv(place / "raw" / "node-label.csv.gz", [0, 1, "nan", 2, 0, 1])
    write_csv(place / "raw" / "num-node-list.csv.gz", [6])
    write_csv(place / "raw" / "num-edge-list.csv.gz", [6])
    for part, nodes in (("train", [0, 5]), ("valid", [1]), ("test", [2, 3, 4])):
        write_csv(place / "split" / split / f"{part}.csv.gz", nodes)
    graph = read_dataset(name, tmp_path, facts=Facts(6, 12, 4, 3, split=(2, 1, 3)))
    assert edges_of(graph) == both_ways(ring(6))
    np.testing.assert_allclose(graph.features.array, x, rtol=1e-5)
    assert graph.labels.tolist() == [0, 1, -1, 2, 0, 1]
    assert graph.split.tolist() == [TRAIN, VALIDATION, TEST, TEST, TEST, TRAIN]
    assert capsys.readouterr() == ("", "")


def test_what_is_published_is_expected_unless_said_otherwise(tmp_path):
    write_ppi(tmp_path)
    with pytest.raises(FormatError, match=r"ppi must have nodes 56944, got 19; its raw files are of another"):
        read_dataset("ppi", tmp_path)


def test_facts_are_the_papers():
    assert NAMED["ppi"].facts.graphs == 24
    assert round(NAMED["ppi"].facts.split[0] / 20) == 2245
    assert NAMED["reddit"].facts.nodes == 232_965 == sum(NAMED["reddit"].facts.split)
    products = NAMED["ogbn-products"].facts
    assert products.nodes == 2_449_029 == sum(products.split)
    assert (products.edges, products.columns, products.classes) == (2 * 61_859_140, 100, 47)


def test_edges_may_differ_by_a_hundredth_and_nothing_else():
    graph = Graph.from_edges(np.array(sorted(ring(200))).T, np.zeros((200, 3)), labels=np.arange(200) % 2)
    check_facts("it", graph, Facts(200, 402, 3, 2))
    for facts, key in ((Facts(200, 420, 3, 2), "edges"), (Facts(200, 400, 3, 3), "classes")):
        with pytest.raises(FormatError, match=f"it must have {key}"):
            check_facts("it", graph, facts)


@pytest.mark.parametrize("name", NAMED)
def test_a_refused_download_says_which_files_to_put_where(tmp_path, monkeypatch, name):
    def refused(name: str, root: Path) -> None:
        raise OSError("no network")

    monkeypatch.setattr(from_pyg, "download", refused)
    monkeypatch.setattr(from_ogb, "download", refused)
    about = NAMED[name]
    with pytest.raises(InputError) as caught:
        read_dataset(name, tmp_path)
    sentence = str(caught.value)
    assert str(tmp_path / about.folder) in sentence
    assert all(file in sentence for file in about.files)
    assert sentence.endswith("and a download was refused (OSError); put them there")


def test_the_library_is_asked_to_download_into_that_place(tmp_path, monkeypatch):
    from torch_geometric import datasets

    asked = []
    monkeypatch.setattr(datasets.Reddit, "download", lambda self: asked.append(self.raw_dir))
    from_pyg.download("reddit", tmp_path)
    assert [Path(place) for place in asked] == [tmp_path / "reddit" / "raw"]


def test_a_damaged_file_is_one_sentence(tmp_path):
    write_ppi(tmp_path)
    (tmp_path / "ppi" / "raw" / "valid_feats.npy").write_bytes(b"no array")
    with pytest.raises(FormatError, match=r"the raw files of ppi must be as PyG publishes them, got .*raw"):
        read_dataset("ppi", tmp_path, facts=Facts(19, 38, 3, 7, 4))


class Bad:
    def __reduce__(self):
        return os.mkdir, ("owned",)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (pickle.dumps(Bad(), protocol=2), "would call posix.mkdir"),
        (pickle.dumps(Bad(), protocol=4), r"names code in a way that these files do not \(STACK_GLOBAL\)"),
        (b"not a pickle", "is no pickle"),
    ],
)
def test_a_pickle_that_names_code_is_refused_unread(tmp_path, monkeypatch, content, found):
    monkeypatch.chdir(tmp_path)
    write_planetoid(tmp_path, "cora", [7, 5, 6])
    (tmp_path / "cora" / "raw" / "ind.cora.graph").write_bytes(content)
    with pytest.raises(FormatError, match=rf"got .*ind\.cora\.graph, which {found}"):
        read_dataset("cora", tmp_path)
    assert not (tmp_path / "owned").exists()


def test_names_that_are_none_are_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"a data set must be one of ppi, reddit, .*, got 'papers'; choose one"
    ):
        read_dataset("papers", tmp_path)
