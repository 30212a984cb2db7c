"""GraphBolt's folders: made ones, laid out as its specification says, and damaged ones."""

import shutil

import numpy as np
import pytest
import yaml

from lrgi.errors import FormatError, InputError, LRGIError
from lrgi.interop.graphbolt import METADATA, read_graphbolt

X = np.arange(10, dtype=np.float32).reshape(5, 2)
SETS = {"train": ([3, 0], [1, 0]), "validation": ([1], [2]), "test": ([4], [1])}


def array(folder, file, values, **entry):
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{file}.npy", values)
    return {"format": "numpy", "in_memory": True, "path": f"{file}.npy", **entry}


def folder_of(place, seeds="seeds", **changes):
    place.mkdir(exist_ok=True)
    (place / "edges.csv").write_text("0,1\n1,2\n2,2\n3,4\n")
    sets = {
        f"{part}_set": [
            {
                "data": [
                    array(place, f"set/{part}_ids", np.array(ids), name=seeds),
                    array(place, f"set/{part}_labels", np.array(labels), name="labels"),
                ]
            }
        ]
        for part, (ids, labels) in SETS.items()
    }
    about = {
        "dataset_name": "small",
        "graph": {"nodes": [{"num": 5}], "edges": [{"format": "csv", "path": "edges.csv"}]},
        "feature_data": [
            array(place, "data/feat", X, domain="node", name="feat"),
            array(place, "data/year", np.arange(5), domain="node", name="year"),
            array(place, "data/weight", np.ones(4), domain="edge", name="weight"),
        ],
        "tasks": [{"name": "node_classification", "num_classes": 3, **sets}],
        **changes,
    }
    (place / METADATA).write_text(yaml.safe_dump(about))
    return place


@pytest.mark.parametrize("seeds", ["seeds", "seed_nodes"])
def test_a_folder(tmp_path, seeds):
    graph = read_graphbolt(folder_of(tmp_path / "g", seeds), directed=True)
    assert graph.indptr.tolist() == [0, 0, 1, 2, 2, 3]  # 0 to 1, 1 to 2, 3 to 4
    assert graph.indices.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(graph.features.array, X)
    assert graph.labels.tolist() == [0, 2, -1, 1, 1]
    assert graph.split.tolist() == [1, 2, 0, 1, 3]
    assert graph.name == "small"
    assert read_graphbolt(tmp_path / "g").num_edges == 6


def test_edges_as_numpy_several_types_and_labels_among_the_node_data(tmp_path):
    place = tmp_path / "g"
    place.mkdir()
    edges = [
        array(place, "a", np.array([[0, 1], [1, 2]]), type="p:cites:p"),
        array(place, "b", np.array([[3], [4]]), type="p:likes:p"),
    ]
    data = [
        array(place, "deg", np.arange(5), domain="node", type="p", name="degree"),
        array(place, "pos", X, domain="node", type="p", name="position"),
        array(
            place, "lab", np.array([[0.0], [1], [np.nan], [1], [0]]), domain="node", type="p", name="label"
        ),
    ]
    graph = {"nodes": [{"type": "p", "num": 5}], "edges": edges}
    read = read_graphbolt(folder_of(place, graph=graph, feature_data=data, tasks=None))
    assert read.num_edges == 6
    np.testing.assert_array_equal(read.features.array, np.column_stack([np.arange(5), X]))
    assert read.labels.tolist() == [0, 1, -1, 1, 0]
    assert read.split is None


def test_tasks_about_edges_are_passed_over(tmp_path):
    place = tmp_path / "g"
    place.mkdir()
    pairs = array(place, "pairs", np.array([[0, 1], [1, 2]]), name="seeds")
    links = {"name": "link_prediction", "train_set": [{"data": [pairs]}]}
    whole = yaml.safe_load((folder_of(place) / METADATA).read_text())
    assert read_graphbolt(folder_of(place, tasks=[links, *whole["tasks"]])).split.tolist() == [1, 2, 0, 1, 3]
    assert read_graphbolt(folder_of(place, tasks=[links])).split is None


def test_without_features_some_can_be_made(tmp_path):
    place = folder_of(tmp_path / "g", feature_data=[])
    assert read_graphbolt(place, features_from="degree").num_features == 21
    with pytest.raises(InputError, match="a graph must have features, got none"):
        read_graphbolt(place)


TYPED = {"nodes": [{"type": "user", "num": 2}, {"type": "item", "num": 3}], "edges": []}
TORCH = {"format": "torch", "path": "data/feat.npy", "domain": "node", "name": "feat"}
MISSING = {"format": "numpy", "path": "data/none.npy", "domain": "node", "name": "feat"}
SHORT = {"format": "numpy", "path": "set/test_ids.npy", "domain": "node", "name": "feat"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"graph": TYPED}, r"must have one node type, got 2 \(user, item\); LRGI knows no types"),
        (
            {"graph_topology": {}},
            "must be the metadata.yaml of the raw data, got the one that GraphBolt makes",
        ),
        (
            {"graph": None},
            "must have graph, feature_data and tasks as GraphBolt lays them out, got something",
        ),
        ({"feature_data": [TORCH]}, "must be in the format numpy, got 'torch', which is pickled; write it"),
        ({"feature_data": [MISSING]}, r"none.npy must be a .npy file of numbers, got what cannot be read"),
        ({"feature_data": [SHORT]}, r"test_ids.npy must have one row per node \(5\), got shape \(1,\)"),
        ({"feature_data": [{"domain": "node"}]}, r"got something else \(KeyError: 'name'\)"),
        ({"tasks": 3}, "got something else"),
    ],
)
def test_mistakes(tmp_path, changes, sentence):
    with pytest.raises(LRGIError, match=sentence):
        read_graphbolt(folder_of(tmp_path / "g", **changes))


def test_seeds_and_labels_that_do_not_fit(tmp_path):
    place = folder_of(tmp_path / "g")
    for name, values, sentence in [
        ("set/test_ids", np.array([5]), "seeds of test_set must be nodes from 0 to 4, got int64 up to 5"),
        ("set/test_ids", np.array([0.5]), "seeds of test_set must be nodes from 0 to 4, got float64"),
        ("set/test_labels", np.array([1, 2]), r"labels must have one row per seed \(1\), got shape \(2,\)"),
    ]:
        shutil.copy(place / f"{name}.npy", tmp_path / "kept.npy")
        np.save(place / f"{name}.npy", values)
        with pytest.raises(FormatError, match=sentence):
            read_graphbolt(place)
        shutil.copy(tmp_path / "kept.npy", place / f"{name}.npy")
    (place / "edges.csv").write_text("src,dst\n0,1\n")
    with pytest.raises(FormatError, match="must be two whole numbers a line, separated by a comma"):
        read_graphbolt(place)


@pytest.mark.parametrize("text", ["", "- 1", "graph: [", "a: b", "!!python/object/apply:os.getcwd []"])
def test_text_that_says_no_graph(tmp_path, text):
    (tmp_path / METADATA).write_text(text)
    with pytest.raises(FormatError, match=r"metadata.yaml must (say what the graph is|be YAML text)"):
        read_graphbolt(tmp_path)
