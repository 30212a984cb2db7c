"""Importing .npz files: made ones, the real ones where present, and damaged ones."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from lrgi.errors import FormatError
from lrgi.graph.features import SparseTable
from lrgi.interop.npz import read_npz

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
EDGES = np.array([[0, 1, 2, 3], [1, 0, 3, 2]], dtype=np.int32)
X = np.arange(8, dtype=np.float32).reshape(4, 2)


def write(path, **arrays):
    np.savez(path, **{"edge_index": EDGES, "x": X, **arrays})
    return path


def sparse_arrays(matrix):
    return {
        "x_indptr": matrix.indptr,
        "x_indices": matrix.indices,
        "x_data": matrix.data,
        "x_shape": np.array(matrix.shape),
    }


def test_dense_features_classes_and_masks(tmp_path):
    masks = {"train_mask": [1, 0, 0, 0], "val_mask": [0, 1, 0, 0], "test_mask": [0, 0, 1, 0]}
    given = {key: np.array(mask, dtype=bool) for key, mask in masks.items()}
    graph = read_npz(write(tmp_path / "small.npz", y=np.array([0, 1, -1, 1]), **given))
    assert (graph.name, graph.num_edges, graph.ids) == ("small", 4, None)
    np.testing.assert_array_equal(graph.features.array, X)
    np.testing.assert_array_equal(graph.split, [1, 2, 3, 0])
    np.testing.assert_array_equal(graph.labels, [0, 1, -1, 1])


def test_sparse_features_and_many_labels(tmp_path):
    np.savez(tmp_path / "s.npz", edge_index=EDGES, y=np.eye(4, 3, dtype=np.uint8), **sparse_arrays(
        scipy.sparse.csr_matrix(X)
    ))  # fmt: skip
    graph = read_npz(tmp_path / "s.npz")
    assert isinstance(graph.features, SparseTable)
    np.testing.assert_array_equal(graph.features.rows([3, 0]), X[[3, 0]])
    assert graph.labels.dtype == np.uint8


def test_direction_is_kept_when_asked(tmp_path):
    path = write(tmp_path / "d.npz", edge_index=np.array([[0], [3]]))
    assert read_npz(path).num_edges == 2
    np.testing.assert_array_equal(read_npz(path, directed=True).degrees(), [0, 0, 0, 1])


def test_graphs_that_lie_together_keep_their_order(tmp_path):
    graph = read_npz(write(tmp_path / "g.npz", graph_id=np.array([5, 5, 2, 2])))
    assert graph.ids is None
    np.testing.assert_array_equal(graph.offsets, [0, 2, 4])


def test_scattered_graphs_are_brought_together_with_everything_they_own(tmp_path):
    edges = np.array([[0, 2, 1, 3], [2, 0, 3, 1]])
    given = {"y": np.array([10, 11, 12, 13]), "train_mask": np.array([1, 0, 0, 0], dtype=bool)}
    graph = read_npz(write(tmp_path / "g.npz", edge_index=edges, graph_id=np.array([1, 0, 1, 0]), **given))
    np.testing.assert_array_equal(graph.ids, [1, 3, 0, 2])
    np.testing.assert_array_equal(graph.offsets, [0, 2, 4])
    np.testing.assert_array_equal(graph.labels, [11, 13, 10, 12])
    np.testing.assert_array_equal(graph.split, [0, 0, 1, 0])
    np.testing.assert_array_equal(graph.features.array, X[[1, 3, 0, 2]])
    np.testing.assert_array_equal(graph.indices, [1, 0, 3, 2])


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"edge_index": None}, r"the file must hold 'edge_index', got only \['x'\]; add that array"),
        ({"x": None}, "the file must hold 'x', got only"),
        ({"x": None, "x_indptr": np.zeros(5, int)}, "the file must hold 'x_indices', got only"),
        ({"y": np.array([{}] * 4)}, "must be plain numbers or text, got 'y', which is damaged or holds Pyth"),
        (
            {"train_mask": np.ones(4, bool), "test_mask": np.eye(4, dtype=bool)[1]},
            "masks must not overlap, got node 1 in both train and test; put each node into one part",
        ),
        ({"train_mask": np.ones(3, bool)}, r"train mask must have shape \(4,\), got \(3,\); give one truth"),
        ({"graph_id": np.zeros(3, int)}, r"graph_id must have shape \(4,\), got \(3,\); give one id per"),
        (
            {"graph_id": np.array([0, 1, 0, 1])},
            "edges must stay within one graph, got node 0 with a neighbour",
        ),
        ({"graph_id": np.array([0, 1, 0, 1]), "edge_index": EDGES + 3}, "below the number of nodes 4, got 4"),
        (
            {"graph_id": np.array([0, 1, 0, 1]), "y": np.zeros(3, int)},
            r"labels must have one entry or row per",
        ),
        ({"edge_index": EDGES - 1}, "node ids in edges must be 0 or more, got -1 in edge 0"),
        ({"y": np.zeros(3, int)}, r"labels must have one entry or row per node \(4\)"),
        (
            {"x": None, **sparse_arrays(scipy.sparse.csr_matrix(X)), "x_shape": np.array([3, 2])},
            r"x_indptr must have one entry more than x_shape has rows, got 5 for \[3, 2\]; write",
        ),
    ],
)
def test_sentences(arrays, sentence, tmp_path):
    given = {"edge_index": EDGES, "x": X, **arrays}
    np.savez(tmp_path / "bad.npz", **{key: array for key, array in given.items() if array is not None})
    with pytest.raises(FormatError, match=sentence):
        read_npz(tmp_path / "bad.npz")


def test_a_file_that_is_no_npz_has_a_sentence(tmp_path):
    with pytest.raises(
        FormatError, match=r"nothing.npz: the file to import must exist, got no such file; check"
    ):
        read_npz(tmp_path / "nothing.npz")
    whole = write(tmp_path / "whole.npz").read_bytes()
    np.save(tmp_path / "array.npy", X)
    for name, content in {"t.npz": b"text", "e.npz": b"", "cut.npz": whole[: len(whole) // 2]}.items():
        (tmp_path / name).write_bytes(content)
    for name in ("t.npz", "e.npz", "cut.npz", "array.npy"):
        with pytest.raises(FormatError, match=r"must be a .npz file of arrays, got something else; write"):
            read_npz(tmp_path / name)


def real(name):
    if not (DATA / name).is_file():
        pytest.skip(f"{DATA / name} is not on this machine")
    return read_npz(DATA / name)


def test_cora_is_what_its_table_says():
    graph = real("cora.npz")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (2708, 10556, 1433)
    assert int(graph.labels.max()) == 6
    assert np.bincount(graph.split).tolist() == [1068, 140, 500, 1000]


def test_twitch_is_seven_graphs():
    graph = real("twitch_7graphs.npz")
    assert (graph.num_nodes, graph.num_edges, graph.num_graphs) == (36890, 985150, 7)
    assert graph.features.shape == (36890, 3170)
