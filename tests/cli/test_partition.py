"""`lrgi partition`: what it writes, what it says, what it refuses."""

import numpy as np
import torch

from lrgi.graph.partition import open_part, read_partition
from lrgi.graph.store import open_graph
from lrgi.training.run import open_run
from reference.tiny import SMALL


def test_a_partition_says_what_each_part_holds(lrgi, place, tmp_path):
    answer = lrgi("partition", place / "graph", "--parts", 3, "--out", tmp_path / "parts")
    assert answer.code == 0
    manifest = read_partition(tmp_path / "parts")
    shares = [part["share_of_nodes"] for part in manifest["parts"]]
    assert (
        f"a part holds {100 * np.mean(shares):.0f} % of the nodes on average, and would hold 33 %"
        in answer.out
    )
    assert "That is most of the graph: whole copies" in answer.out  # everyone knows everyone here
    assert f"torchrun --nproc-per-node=3 -m lrgi fit {tmp_path / 'parts'} --out" in answer.out
    owned = [open_part(tmp_path / "parts", number, 3).owned for number in range(3)]
    assert sum(owned) == open_graph(place / "graph").num_nodes


def test_a_partition_as_json_by_ranges_of_the_training_nodes(lrgi, place, tmp_path):
    words = ["partition", place / "graph", "--parts", 2, "--out", tmp_path / "parts", "--by", "ranges"]
    answer = lrgi(*words, "--fit-on", "train", "--json")
    whole = open_graph(place / "graph")
    assert answer.json["partition"]["nodes"] == int((whole.split == 1).sum())
    assert (answer.json["partition"]["by"], answer.json["partition"]["fit_on"]) == ("ranges", "train")


def test_mistakes_are_one_sentence(lrgi, place, tmp_path):
    words = ["partition", place / "graph", "--out", tmp_path / "parts", "--parts"]
    nodes = open_graph(place / "graph").num_nodes
    answer = lrgi(*words, nodes + 1)
    assert (answer.code, answer.out) == (2, "")
    assert f"--parts must be at most the number of nodes, {nodes}, got {nodes + 1}; lower it" in answer.err
    assert lrgi(*words, 1).code == 0
    assert "place for a partition must be free" in lrgi(*words, 1).err
    assert lrgi(*words, 2, "--overwrite").code == 0
    answer = lrgi("fit", tmp_path / "parts", "--out", tmp_path / "run", *SMALL)
    assert "a graph in 2 parts must be taken by 2 processes, got 1; start as many" in answer.err
    assert not (tmp_path / "run").exists()
    assert "--timeout must be above 0" in lrgi("fit", "g", "--out", "r", "--timeout", 0).err


def test_a_single_part_is_fitted_as_the_graph(lrgi, place, tmp_path):
    lrgi("partition", place / "graph", "--parts", 1, "--out", tmp_path / "part")
    answer = lrgi("fit", tmp_path / "part", "--out", tmp_path / "run", *SMALL, "--json")
    assert answer.json["table"] is None
    one, whole = open_run(tmp_path / "run"), open_run(place / "run")
    for a, b in zip(one.encoder.layers, whole.encoder.layers, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert one.record["graph"]["nodes"] == whole.record["graph"]["nodes"]


def test_parts_of_the_training_nodes_are_a_run_on_them(lrgi, place, tmp_path):
    """The run is on record as one on those nodes of that graph, and the whole graph takes it up."""
    lrgi("partition", place / "graph", "--parts", 1, "--out", tmp_path / "part", "--fit-on", "train")
    words = ["fit", "--out", tmp_path / "run", *SMALL, "--json"]
    answer = lrgi(*words, tmp_path / "part", "--fit-on", "all")
    assert "fit_on of a graph in parts must be what it was cut for, 'train', got 'all'" in answer.err
    record = lrgi(*words, tmp_path / "part").json["run"]
    whole = open_graph(place / "graph")
    assert (record["fit_on"], record["protocol"]) == ("train", "inductive")
    assert (record["graph"]["nodes"], record["fitted_graph"]["nodes"]) == (
        whole.num_nodes,
        int((whole.split == 1).sum()),
    )
    assert record["graph"]["checksum"] == open_run(place / "run").record["graph"]["checksum"]
