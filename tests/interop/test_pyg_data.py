"""PyG's Data in and out."""

import numpy as np
import pytest
import scipy.sparse
import torch

from lrgi.errors import InputError
from lrgi.graph.features import SparseTable
from lrgi.graph.graph import Graph
from lrgi.interop.pyg import from_pyg, to_pyg

data_module = pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed")
Data, Batch, HeteroData = data_module.Data, data_module.Batch, data_module.HeteroData

EDGES = torch.tensor([[0, 1, 1], [1, 0, 2]])
X = torch.arange(6.0).reshape(3, 2)


def test_the_direction_of_edge_index_is_kept():
    graph = from_pyg(Data(x=X, edge_index=EDGES, y=torch.tensor([0, 1, 2])), name="three")
    np.testing.assert_array_equal(graph.degrees(), [1, 1, 1])
    np.testing.assert_array_equal(graph.indices, [1, 0, 1])
    assert (graph.name, graph.labels.dtype) == ("three", np.int64)


@pytest.mark.parametrize("sparse", [False, True])
def test_there_and_back(sparse):
    x = scipy.sparse.csr_matrix(X.numpy()) if sparse else X.numpy()
    graph = Graph.from_edges(
        [[0, 3], [1, 4]],
        scipy.sparse.vstack([x, x]) if sparse else np.concatenate([x, x]),
        labels=np.eye(6, 2, dtype=np.uint8),
        split=[1, 2, 3, 0, 1, 1],
        ids=[5, 4, 3, 2, 1, 0],
        offsets=[0, 3, 6],
    )
    data = to_pyg(graph)
    assert data.validate()
    back = from_pyg(data)
    for name in ("indptr", "indices", "labels", "split", "ids", "offsets"):
        np.testing.assert_array_equal(getattr(back, name), getattr(graph, name))
    assert isinstance(back.features, SparseTable) == sparse
    np.testing.assert_array_equal(back.features.rows(np.arange(6)), graph.features.rows(np.arange(6)))
    data.edge_index[:] = 0  # a copy: the graph does not change
    graph.check()


def test_text_ids_survive():
    graph = Graph.from_edges([[0], [1]], np.eye(2), ids=["a", "bc"])
    np.testing.assert_array_equal(from_pyg(to_pyg(graph)).ids, ["a", "bc"])


def test_a_list_is_many_graphs_and_a_part_may_lack_edges():
    one = Data(x=X, edge_index=EDGES, y=torch.eye(3, 4))
    alone = Data(x=X[:1], edge_index=torch.empty(2, 0, dtype=torch.long), y=torch.ones(1, 4))
    graph = from_pyg([one, alone, one])
    assert graph.offsets.tolist() == [0, 3, 4, 7]
    assert graph.degrees().tolist() == [1, 1, 1, 0, 1, 1, 1]
    assert graph.labels.dtype == np.uint8
    batch = from_pyg(Batch.from_data_list([one, alone, one]))
    for name in ("indptr", "indices", "labels", "offsets"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(graph, name))


def test_one_of_many_splits_is_chosen():
    masks = torch.tensor([[1, 0], [0, 1], [0, 0]], dtype=torch.bool)
    data = Data(
        x=X, edge_index=EDGES, train_mask=masks, val_mask=masks.flip(0), test_mask=masks.flip(1)[:, 0] > 2
    )
    assert from_pyg(data).split.tolist() == [1, 0, 2]
    with pytest.raises(InputError, match="masks must not overlap, got node 1 in both train and validation"):
        from_pyg(data, split=1)
    with pytest.raises(InputError, match="split must lie in 0 to 1, got 2; choose a column of train_mask"):
        from_pyg(data, split=2)


def test_sparse_tensors_stay_sparse():
    graph = from_pyg(Data(x=X.to_sparse_coo(), edge_index=EDGES))
    assert isinstance(graph.features, SparseTable)
    np.testing.assert_array_equal(graph.features.rows([2, 0]), X[[2, 0]])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: [], "the list of graphs must have at least one, got none; give some Data"),
        (lambda: [3], "must be a Data, a HeteroData or a list of them, got int; call list"),
        (HeteroData, r"a HeteroData must have one node type, got 0 \(none\); LRGI knows no types"),
        (lambda: Data(x=X), "a PyG graph must have edge_index, got None; set data.edge_index first"),
        (lambda: Data(edge_index=EDGES), "a PyG graph must have x, got None; set data.x first, or give feat"),
        (lambda: [Data(x=X, edge_index=EDGES + 1)] * 2, "must lie in 0 to 2, got 3; give features for every"),
        (lambda: Data(x=X, edge_index=EDGES + 1), "must be below the number of nodes 3, got 3 in edge 2"),
        (lambda: [Data(x=X, edge_index=EDGES.T)] * 2, r"edge_index must have shape \(2, E\), got \(3, 2\)"),
        (
            lambda: [Data(x=X, edge_index=EDGES, y=torch.zeros(3).long()), Data(x=X, edge_index=EDGES)],
            "the graphs must all have y or none, got 1 of 2 with it; add or remove it",
        ),
        (
            lambda: [Data(x=X, edge_index=EDGES), Data(x=X[:, :1], edge_index=EDGES)],
            r"must have features of one width, got widths \[1, 2\]",
        ),
    ],
)
def test_sentences(make, sentence):
    with pytest.raises(InputError, match=sentence):
        from_pyg(make())
