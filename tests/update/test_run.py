"""`update_run` on tables: as importing everything anew and embedding it from scratch, killed or not."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrgi.cli.main import main
from lrgi.errors import InputError
from lrgi.graph.store import MANIFEST, attributes_of, open_graph, save_graph, verify_graph
from lrgi.interop.tables.plan import TablePlan
from lrgi.interop.tables.read import Wishes, import_tables
from lrgi.outputs import embed_layers
from lrgi.training.run import open_run
from lrgi.update import refresh
from lrgi.update import run as module
from lrgi.update.run import Wanted, update_run
from lrgi.update.tables import kept_outputs, problems_of_tables
from reference.kills import Killed
from reference.tiny import SMALL, tiny_graph

CITIES = ["Rome", "Oslo", "", "Bonn"]


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def person(name, at):
    return [name, "" if at % 9 == 0 else at % 50, CITIES[at % 4], f"2020-01-{at % 28 + 1:02d}", at % 2]


HEAD = ["id", "age", "city", "joined", "label"]


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """By name, a folder with `e.csv`, `n.csv`, the graph `g` and `run`, a run with its tables."""
    made = {}
    for name, flags in {
        "undirected": [],
        "directed": ["--directed"],
        "degrees": ["--features-from", "degree"],
    }.items():
        folder = tmp_path_factory.mktemp(name)
        random = np.random.default_rng(1)
        ends = [[f"p{a}", f"p{b}"] for a, b in random.integers(0, 150, (300, 2))]
        edges = write(folder / "e.csv", [["src", "dst"], *ends])
        nodes = write(folder / "n.csv", [HEAD, *(person(f"p{at}", at) for at in range(150))])
        layer = "gcn" if name == "directed" else "gat"
        for words in (
            [
                "import",
                "--edges",
                edges,
                "--nodes",
                nodes,
                "--out",
                folder / "g",
                "--split",
                "random",
                *flags,
            ],
            ["fit", folder / "g", "--out", folder / "run", *SMALL, "--no-probe", "--layer", layer],
            ["update", folder / "run"],
        ):
            assert main([*map(str, words), "--quiet"]) == 0
        made[name] = folder
    return made


@pytest.fixture
def base(bases, tmp_path):
    shutil.copytree(bases["undirected"], tmp_path / "base")
    return tmp_path / "base"


def new_tables(folder, seed):
    """A random change of the people: (edges added, edges removed, node rows), and their files."""
    random = np.random.default_rng(seed)
    names = [f"p{at}" for at in range(150)] + [f"new {seed % 7} {at}" for at in range(3)] + ["ada", "bob"]
    added = [[str(a), str(b)] for a, b in random.choice(names, (int(random.integers(1, 7)), 2))]
    added += [["p1", "p1"], ["", "p3"]]
    old = read(folder / "e.csv")[1:]
    gone = [old[at] for at in random.integers(0, len(old), 3)]
    gone = [pair for pair in gone if pair not in added and pair[::-1] not in added]
    who = list(dict.fromkeys(random.choice(names[100:], 4).tolist()))
    rows = [person(name, int(random.integers(0, 999))) for name in who] + [person(who[0], 5)]
    return added, gone, rows


def rewritten(folder, added, gone, rows, ids, directed):
    """Tables of all that there is after a change, with the nodes in the order of `ids`."""
    old = read(folder / "e.csv")[1:]
    key = tuple if directed else lambda pair: tuple(sorted(pair))
    without = {key(pair) for pair in gone}
    edges = [pair for pair in old if key(pair) not in without] + added
    known = {row[0]: row for row in read(folder / "n.csv")[1:]}
    known |= {row[0]: row for row in reversed(rows)}
    nodes = [known.get(name, [name, "", "", "", ""]) for name in ids]
    return (
        write(folder / "all_e.csv", [["src", "dst"], *edges]),
        write(folder / "all_n.csv", [HEAD, *nodes]),
    )


@pytest.mark.parametrize("name", ["undirected", "directed", "degrees"])
@given(seed=st.integers(0, 2**31))
@settings(max_examples=3)
def test_the_bits_of_importing_everything_anew(bases, tmp_path_factory, name, seed):
    folder = tmp_path_factory.mktemp("case") / "base"
    shutil.copytree(bases[name], folder)
    added, gone, rows = new_tables(folder, seed)
    wanted = Wanted(
        write(folder / "e2.csv", [["src", "dst"], *added]),
        write(folder / "n2.csv", [HEAD, *rows]),
        write(folder / "gone.csv", [["src", "dst"], *gone]) if gone else None,
    )
    done = update_run(folder / "run", folder / "g", wanted)
    graph, directed = open_graph(folder / "g"), name == "directed"
    verify_graph(folder / "g")
    ids = graph.ids.tolist()
    assert len(set(ids)) == len(ids)
    edges, nodes = rewritten(folder, added, gone, rows, ids, directed)
    import_tables(
        edges, folder / "again", nodes=nodes, like=graph.encoding, plan=TablePlan(directed=directed),
        wishes=Wishes(),
    )  # fmt: skip
    again = open_graph(folder / "again")
    assert again.ids.tolist() == ids
    np.testing.assert_array_equal(graph.indptr, again.indptr)
    np.testing.assert_array_equal(graph.indices, again.indices)
    np.testing.assert_array_equal(graph.features.array.view("i4"), again.features.array.view("i4"))
    encoder = open_run(folder / "run").encoder
    kept = kept_outputs(folder / "run", folder / "g")
    for layer in (1, 2):
        scratch = embed_layers(encoder, again, layer)
        np.testing.assert_array_equal(kept[layer].array.view("i4"), scratch.view("i4"))
    counts = done.changes["edges"]
    assert counts["read"] == len(added) == sum(counts.values()) - counts["read"]
    assert counts["empty_end"] == 1
    counts = done.changes["nodes"]
    assert counts["read"] == len(rows) == sum(counts[key] for key in ("repeated_id", "new", "known"))
    assert counts["total"] == graph.num_nodes
    assert done.had_tables
    assert list(problems_of_tables(folder / "run")) == []
    assert not list(folder.glob(".g*"))


def test_labels_split_and_attributes_of_new_and_changed_nodes(base):
    before = open_graph(base / "g")
    was = pq.read_table(attributes_of(base / "g")).to_pylist()
    split = before.split.copy()
    nodes = [
        ["id", "age", "city", "joined", "y"],
        ["zoe", 4, "Oslo", "2021-05-06", 1],
        ["p7", "", "Rome", "", 0],
    ]
    wanted = Wanted(
        write(base / "e2.csv", [["a", "b"], ["zoe", "late"]]),
        write(base / "n2.csv", nodes),
        plan=TablePlan(src="a", dst="b"),
    )
    update_run(base / "run", base / "g", wanted)
    graph = open_graph(base / "g")
    assert graph.ids[-2:].tolist() == ["zoe", "late"]
    assert graph.labels[[7, -2, -1]].tolist() == [0, 1, -1]
    assert graph.split.tolist() == [*split.tolist(), 0, 0]
    found = pq.read_table(attributes_of(base / "g")).to_pylist()
    assert found[:7] == was[:7]
    assert found[8:-2] == was[8:]
    assert [found[7]["age"], found[7]["city"], found[7]["id"]] == [None, "Rome", "p7"]
    assert found[7]["label"] == was[7]["label"]  # the new table has no column of that name
    assert [found[-2]["id"], found[-2]["age"], found[-2]["city"]] == ["zoe", 4.0, "Oslo"]
    assert found[-1] == {"id": "late"} | dict.fromkeys(["label", "age", "city", "joined"])


def test_what_changes_nothing_touches_nothing(base):
    old = read(base / "e.csv")[1:4]
    table = write(base / "e2.csv", [["src", "dst"], *old, *[pair[::-1] for pair in old]])
    manifest = (base / "g" / MANIFEST).read_bytes()
    done = update_run(base / "run", base / "g", Wanted(table))
    assert (done.changed, done.layers, done.changes["edges"]["known"]) == (False, (), 3)
    assert done.changes["edges"]["repeated"] == 3
    assert (base / "g" / MANIFEST).read_bytes() == manifest
    same = Wanted(nodes=write(base / "n2.csv", [HEAD, person("p5", 5)]))
    done = update_run(base / "run", base / "g", same)
    assert (done.features, [one.rows for one in done.layers]) == (0, [0] * len(done.layers))


def test_unknown_ids_may_be_dropped(base):
    table = write(base / "e2.csv", [["src", "dst"], ["p1", "who"], ["p1", "p149"], ["who", "what"]])
    done = update_run(base / "run", base / "g", Wanted(table, plan=TablePlan(unknown="drop")))
    assert (done.changes["edges"]["unknown"], done.nodes) == (2, 150)


class Stop:
    """Ends an update at some point, as a signal would."""

    def __init__(self, patch, name, after=0):
        where = module if name == "exchange" else refresh
        self.left, self.call = after, getattr(where, name)
        patch.setattr(where, name, self)

    def __call__(self, *args, **kwargs):
        if self.left == 0:
            raise Killed
        self.left -= 1
        return self.call(*args, **kwargs)


@pytest.mark.parametrize(
    ("name", "after", "goes_on"),
    [
        ("embed_rows", 0, False),
        ("embed_rows", 1, True),
        ("describe_array", 1, True),
        ("exchange", 0, False),
    ],
)
def test_a_killed_update_leaves_all_as_it_was_and_goes_on(base, name, after, goes_on, tmp_path):
    edges = write(base / "e2.csv", [["src", "dst"], ["p1", "zoe"]])
    shutil.copytree(base, tmp_path / "other")
    update_run(tmp_path / "other" / "run", tmp_path / "other" / "g", Wanted(edges))
    manifest, told = (base / "g" / MANIFEST).read_bytes(), []
    kept = kept_outputs(base / "run", base / "g")[2].array.copy()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        Stop(patch, name, after)
        update_run(base / "run", base / "g", Wanted(edges))
    assert (base / "g" / MANIFEST).read_bytes() == manifest
    verify_graph(base / "g")
    np.testing.assert_array_equal(kept_outputs(base / "run", base / "g")[2].array, kept)
    assert list(problems_of_tables(base / "run")) == []
    (base / ".g.update" / "graph").mkdir(parents=True)  # what SIGKILL leaves
    update_run(base / "run", base / "g", Wanted(edges), tell=told.append)
    assert any("going on with tables" in line for line in told) == goes_on
    assert (base / "g" / MANIFEST).read_bytes() == (tmp_path / "other" / "g" / MANIFEST).read_bytes()
    for layer, table in kept_outputs(tmp_path / "other" / "run", tmp_path / "other" / "g").items():
        np.testing.assert_array_equal(kept_outputs(base / "run", base / "g")[layer].array, table.array)
    assert not (base / ".g.update").exists()
    assert len(list((base / "run" / "tables").iterdir())) == 1


def arrays(folder, graph):
    """A run on a graph of arrays, which has neither ids nor columns."""
    save_graph(graph, folder / "g")
    words = ["fit", folder / "g", "--out", folder / "run", *SMALL, "--no-probe", "--quiet"]
    assert main([str(word) for word in words]) == 0
    return folder


def test_a_graph_of_arrays_takes_lists_and_ids_go_on(tmp_path):
    graph = tiny_graph()
    folder = arrays(tmp_path, graph)
    row = {"id": 240, "x": [0.5] * 12}
    (tmp_path / "n.jsonl").write_text(json.dumps(row) + "\n")
    edges = write(tmp_path / "e.csv", [["src", "dst"], [240, 3], [3, 4], ["07", "x"]])
    wanted = Wanted(edges, str(tmp_path / "n.jsonl"), plan=TablePlan(unknown="drop"))
    done = update_run(folder / "run", folder / "g", wanted)
    assert (done.had_tables, done.changes["edges"]["unknown"], done.directed) == (False, 1, False)
    changed = open_graph(folder / "g")
    assert (changed.ids, changed.num_nodes) == (None, 241)
    assert changed.features.array[240].tolist() == [0.5] * 12
    assert 3 in changed.indices[changed.indptr[240] :]
    kept = kept_outputs(folder / "run", folder / "g")
    scratch = embed_layers(open_run(folder / "run").encoder, changed, 2)
    np.testing.assert_array_equal(kept[2].array, scratch)
    (tmp_path / "n.jsonl").write_text(json.dumps({**row, "id": "zoe"}) + "\n")
    update_run(folder / "run", folder / "g", Wanted(nodes=str(tmp_path / "n.jsonl")))
    ids = open_graph(folder / "g").ids
    assert (ids[5], ids[240], ids[241]) == ("5", "240", "zoe")


def test_a_graph_that_does_not_say_whether_it_is_directed(tmp_path):
    graph = dataclasses.replace(tiny_graph(), directed=None)
    folder = arrays(tmp_path, graph)
    edges = write(tmp_path / "e.csv", [["src", "dst"], [1, 100]])
    done = update_run(folder / "run", folder / "g", Wanted(edges))
    assert (done.directed, done.guessed_directed) == (False, True)
    found = open_graph(folder / "g")
    assert found.directed is False
    assert found.num_edges == graph.num_edges + 2
    done = update_run(folder / "run", folder / "g", Wanted(edges, directed=True))
    assert (done.directed, done.guessed_directed, done.changed) == (True, False, False)


def test_mistakes(base, tmp_path):
    run, graph = base / "run", base / "g"
    edges = write(base / "e2.csv", [["src", "dst"], ["p1", "p149"]])
    tiny = arrays(tmp_path / "tiny", tiny_graph())
    lone = write(base / "e3.csv", [["src", "dst"], [1, 999]])
    for place, wanted, sentence in [
        ((run, tmp_path), Wanted(edges), "a graph to update must be a graph directory, got"),
        ((run, graph), Wanted(edges, None, edges), "an edge must be either new or one to remove, got 1"),
        ((run, graph), Wanted(nodes=write(base / "a.csv", [["id", "age"], ["x", 1]])),
         "the nodes must have the columns of the fit, got none called 'city'"),
        ((run, graph), Wanted(nodes=write(base / "b.csv", [[*HEAD, "size"], [*person("x", 1), 2]])),
         "the nodes must have only the columns of the fit, got one more called 'size'"),
        ((run, graph), Wanted(nodes=write(base / "c.csv", [HEAD, ["x", "old", "", "", ""]])),
         "column 'age' must hold numbers as at the fit, got 'old'"),
        ((run, graph), Wanted(write(base / "d.csv", [["src", "dst"], ["p1", "x" * 1001]])),
         "an id must have at most 1,000 letters"),
        ((run, graph), Wanted(remove_edges=str(base / "none.csv")),
         "--remove-edges must be a file, a glob or a folder of tables, got"),
        ((run, tiny / "g"), Wanted(edges), "must have the 7 feature columns of the fit, got 12"),
        ((tiny / "run", tiny / "g"), Wanted(lone), "new nodes must have features, got none for '999'"),
        ((tiny / "run", tiny / "g"), Wanted(nodes=edges),
         "nodes of a graph of arrays must have one column of lists of 12 numbers, got dst"),
    ]:  # fmt: skip
        before = (place[1] / MANIFEST).read_bytes() if place[1] != tmp_path else b""
        with pytest.raises(InputError, match=sentence):
            update_run(*place, wanted)
        assert not before or (place[1] / MANIFEST).read_bytes() == before
        assert not list(place[1].parent.glob(".g*"))
    others = [HEAD, *(person(f"p{at}", at * 7 + 1) for at in range(150))]
    import_tables(str(base / "e.csv"), base / "h", nodes=write(base / "n.csv", others))
    with pytest.raises(InputError, match=r"must have features made as those of the fit, got .*h, which"):
        update_run(run, base / "h", Wanted(edges))
    with module.locked(graph), pytest.raises(InputError, match="a graph directory must be used by one"):
        update_run(run, graph, Wanted(edges))


def test_files_that_did_not_change_are_the_same_files(base):
    features = (base / "g" / "features.npy").stat().st_ino
    edges = write(base / "e2.csv", [["src", "dst"], ["p1", "p149"]])
    update_run(base / "run", base / "g", Wanted(edges))
    assert (base / "g" / "features.npy").stat().st_ino == features
