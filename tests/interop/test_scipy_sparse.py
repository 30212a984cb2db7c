"""Adjacency matrices of scipy.sparse, in memory and in files."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrgi.errors import FormatError, InputError
from lrgi.graph.features import SparseTable
from lrgi.interop.scipy_sparse import from_scipy, is_scipy_npz, load_features, load_matrix

X = np.arange(8, dtype=np.float32).reshape(4, 2)
DENSE = np.array([[0, 2, 0, 0], [0, 0, 0.5, 0], [0, 0, 3, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_every_format_says_the_same_edges(kind, make):
    graph = from_scipy(make(DENSE).asformat(kind), X, directed=True, labels=[0, 1, 0, 1], name="g")
    assert graph.indptr.tolist() == [0, 0, 1, 2, 2]  # i sends to j: 0 to 1, 1 to 2; the loop is dropped
    assert graph.indices.tolist() == [0, 1]
    assert (graph.name, graph.labels.tolist()) == ("g", [0, 1, 0, 1])
    assert from_scipy(make(DENSE).asformat(kind), X).num_edges == 4


def test_a_stored_zero_is_no_edge_and_sparse_features_stay_sparse():
    stored = sp.csr_array(DENSE)
    stored.data[0] = 0
    graph = from_scipy(stored, sp.csr_array(X), directed=True)
    assert graph.num_edges == 1
    assert isinstance(graph.features, SparseTable)


def test_features_of_the_structure():
    assert from_scipy(sp.csr_array(DENSE), features_from="degree").encoding.made["from"] == "degree"
    with pytest.raises(InputError, match="a graph must have features, got none"):
        from_scipy(sp.csr_array(DENSE))


def test_mistakes():
    with pytest.raises(InputError, match=r"an adjacency matrix must be square, got shape \(4, 2\)"):
        from_scipy(sp.csr_array(X), X)
    with pytest.raises(InputError, match=r"features must have one row per node \(4\), got 3 rows"):
        from_scipy(sp.csr_array(DENSE), X[:3])


def test_files(tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix(DENSE))
    assert is_scipy_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(load_matrix(tmp_path / "a.npz").toarray(), DENSE)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(load_features(tmp_path / "x.npy").array, X)
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(X))
    np.testing.assert_array_equal(load_features(tmp_path / "x.npz").rows([3, 0]), X[[3, 0]])
    np.savez(tmp_path / "ours.npz", x=X, edge_index=np.array([[0], [1]]))
    assert not is_scipy_npz(tmp_path / "ours.npz")
    assert not is_scipy_npz(tmp_path / "x.npy")
    assert not is_scipy_npz(tmp_path / "none.npz")


def test_damaged_files_are_one_sentence(tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.csr_matrix(DENSE))
    arrays = dict(np.load(tmp_path / "a.npz", allow_pickle=False))
    np.savez(tmp_path / "b.npz", **{**arrays, "indptr": arrays["indptr"][:-1]})
    with pytest.raises(FormatError, match=r"a matrix must be a file of scipy.sparse.save_npz, got .*b.npz"):
        load_matrix(tmp_path / "b.npz")
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(FormatError, match=r"features must be a .npy file of numbers, got .*o.npy"):
        load_features(tmp_path / "o.npy")
    np.savez(tmp_path / "two.npz", x=X, y=X)
    with pytest.raises(FormatError, match=r"features must be one array \[N, d\], got .*two.npz, a .npz of"):
        load_features(tmp_path / "two.npz")
    with pytest.raises(FormatError, match=r"features must be a .npy file of numbers, got .*no.npy"):
        load_features(tmp_path / "no.npy")
