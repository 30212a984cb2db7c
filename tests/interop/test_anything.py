"""Whatever a user has becomes the same graph; none of the libraries is imported for it."""

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from lrgi import LRGI, read_npz, save_graph
from lrgi.errors import FormatError, InputError
from lrgi.interop.anything import as_graph, read_path
from lrgi.interop.pyg import from_pyg, to_pyg
from reference.tiny import SMALL_PLAN, npz_arrays, tiny_graph

GRAPH = tiny_graph()
ARRAYS = npz_arrays(GRAPH)
MATRIX = sp.csr_array((np.ones(GRAPH.num_edges), tuple(ARRAYS["edge_index"])), shape=(240, 240))


def hetero():
    half = GRAPH.num_edges // 2
    edges = torch.from_numpy(ARRAYS["edge_index"].astype(np.int64))
    data = HeteroData()
    data["user"].x = torch.from_numpy(GRAPH.features.array.copy())
    data["user"].y = torch.from_numpy(GRAPH.labels.copy())
    data["user", "knows", "user"].edge_index = edges[:, :half]
    data["user", "likes", "user"].edge_index = edges[:, half:]
    return data


def drawn():
    graph = nx.DiGraph()
    graph.add_nodes_from((n, {"x": GRAPH.features.array[n], "y": int(GRAPH.labels[n])}) for n in range(240))
    graph.add_edges_from(ARRAYS["edge_index"].T.tolist())
    return graph


OBJECTS = {
    "graph": lambda: GRAPH,
    "pyg": lambda: to_pyg(GRAPH),
    "hetero": hetero,
    "networkx": drawn,
    "matrix and features": lambda: (MATRIX, GRAPH.features.array),
    "edges and features": lambda: (ARRAYS["edge_index"], GRAPH.features.array),
    "arrays by name": lambda: ARRAYS,
}


@pytest.mark.parametrize("make", OBJECTS.values(), ids=OBJECTS)
def test_every_object_becomes_the_same_graph(make):
    graph = as_graph(make())
    np.testing.assert_array_equal(graph.indptr, GRAPH.indptr)
    np.testing.assert_array_equal(graph.indices, GRAPH.indices)
    np.testing.assert_array_equal(graph.features.array, GRAPH.features.array)
    assert as_graph(make(), features_from="degree").num_features == 33


def test_the_estimator_takes_them_all_with_the_same_result(tmp_path):
    expected = LRGI(**SMALL_PLAN).fit_transform(GRAPH)
    np.savez(tmp_path / "a.npz", **ARRAYS)
    save_graph(GRAPH, tmp_path / "g")
    for given in [drawn(), hetero(), (MATRIX, GRAPH.features.array), str(tmp_path / "g"), tmp_path / "a.npz"]:
        np.testing.assert_array_equal(LRGI(**SMALL_PLAN).fit_transform(given), expected)


def test_a_list_of_heterogeneous_graphs_and_one_of_two_types():
    assert from_pyg([hetero(), hetero()]).offsets.tolist() == [0, 240, 480]
    mixed = hetero()
    mixed["item"].x = torch.ones(3, 2)
    with pytest.raises(InputError, match=r"a HeteroData must have one node type, got 2 \(user, item\); LRGI"):
        from_pyg(mixed)
    empty = HeteroData()
    empty["user"].x = torch.ones(3, 2)
    with pytest.raises(InputError, match="a PyG graph must have edge_index, got None"):
        from_pyg(empty)


def test_what_has_no_features_needs_some_made():
    for given in (MATRIX, nx.path_graph(5), {"edge_index": ARRAYS["edge_index"]}):
        with pytest.raises(InputError, match=r"got none|got only"):
            as_graph(given)
        assert as_graph(given, features_from="random-walk").num_features == 16
    bare = to_pyg(GRAPH)
    del bare.x
    assert as_graph(bare, features_from="degree").num_nodes == 240


def test_the_number_of_nodes_is_what_has_a_row_per_node(tmp_path):
    np.savez(tmp_path / "a.npz", edge_index=np.array([[0], [2]]), y=np.zeros(5, np.int64))
    assert read_npz(tmp_path / "a.npz", features_from="degree").num_nodes == 5
    np.savez(tmp_path / "b.npz", edge_index=np.array([[0], [2]]))
    assert read_npz(tmp_path / "b.npz", features_from="degree").num_nodes == 3


def test_paths(tmp_path):
    sp.save_npz(tmp_path / "m.npz", MATRIX)
    np.save(tmp_path / "x.npy", GRAPH.features.array)
    graph = read_path(tmp_path / "m.npz", features=tmp_path / "x.npy")
    np.testing.assert_array_equal(graph.features.array, GRAPH.features.array)
    assert graph.name == "m"
    assert read_path(tmp_path / "m.npz").num_features == 0
    np.savez(tmp_path / "a.npz", **ARRAYS)
    with pytest.raises(InputError, match="a file of features must go with an adjacency matrix of scipy"):
        read_path(tmp_path / "a.npz", features=tmp_path / "x.npy")
    with pytest.raises(
        FormatError, match=r"a folder to import must hold metadata.yaml \(GraphBolt\) or raw/"
    ):
        read_path(tmp_path)
    with pytest.raises(FormatError, match="the file to import must exist, got no such file"):
        as_graph(tmp_path / "none.npz")


def test_nothing_foreign_is_imported_for_a_look_at_an_object():
    code = (
        "import sys, numpy as np\n"
        "from lrgi.interop.anything import as_graph\n"
        "as_graph((np.array([[0], [1]]), np.eye(2)))\n"
        "print([m for m in ('networkx', 'scipy.sparse', 'torch_geometric', 'ogb', 'duckdb', 'pandas')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
