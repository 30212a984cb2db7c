"""Tables as people have them: formats, spreadsheets, kinds of columns, treatment of new nodes, mistakes."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lrgi.errors import InputError, LRGIError
from lrgi.graph.graph import Graph
from lrgi.graph.store import attributes_of, open_graph, verify_graph
from lrgi.interop.tables.plan import TablePlan
from lrgi.interop.tables.read import Imported, Wishes, import_tables

EDGES = "src,dst\na,b\nb,c\nc,a\n"
NODES = "id,age,city\na,10,Rome\nb,20,Oslo\nc,30,Rome\n"


class Place:
    """A folder of tables, and an import out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.graphs = folder, 0

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def read(self, edges: str = "", nodes: str | None = "", **options: object) -> tuple[Graph, Imported]:
        edges = edges or self.file("edges.csv", EDGES)
        if nodes == "":
            nodes = self.file("nodes.csv", NODES)
        self.graphs += 1
        self.out = self.folder / f"graph{self.graphs}"
        done = import_tables(edges, self.out, nodes=nodes, **options)
        verify_graph(self.out)
        return open_graph(self.out), done


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


DEGREE = Wishes(features_from="degree")


def test_a_spreadsheets_csv(place):
    """Semicolons, a byte-order mark, decimal commas, quoted line ends, empty cells, stray lines."""
    edges = place.file(
        "e.csv", "\ufeffFrom;To\r\n1001;1002\r\n1002;1003\r\n;\r\n\r\n1003;1001\r\n;;".encode()
    )
    nodes = place.file(
        "n.csv",
        '\ufeffID;Größe;Ort;Notiz;Class\r\n1001;1,5;"Köln; am Rhein";"sagt ""ja""\r\nund nein";x\r\n'
        "1002;2,5;Bonn;;y\r\n1003;;Bonn;;x\r\n;;;;\r\n\r\n1002\r\n".encode(),
    )
    graph, done = place.read(edges, nodes)
    assert graph.ids.tolist() == [1001, 1002, 1003]
    assert (done.edges.read, done.edges.empty_end, done.edges.kept) == (5, 2, 3)
    assert (done.nodes.read, done.nodes.empty_id, done.nodes.repeated_id) == (5, 1, 1)
    assert done.columns == {"src": "From", "dst": "To", "id": "ID", "label": "Class"}
    assert graph.labels.tolist() == [0, 1, 0]
    features = dict(zip(graph.encoding.features, graph.features.array.T.tolist(), strict=True))
    assert features["Größe"] == [-1, 1, 0]
    assert features["Größe is missing"] == [0, 0, 1]
    assert features["Ort=Köln; am Rhein"] == [1, 0, 0]
    assert features["Notiz is missing"] == [0, 1, 1]


def test_a_title_above_the_header_is_passed_over(place):
    edges = place.file("e.csv", "Calls of 2024;;\r\n;;\r\nFrom;To;Note\r\na;b;x\r\nb;c;\r\n")
    nodes = place.file("n.csv", '"People; all",,\n,,\nid,age,city\na,1,x\nb,2,y\nc,4,x\n')
    graph, done = place.read(edges, nodes)
    assert (graph.ids.tolist(), done.edges.read, done.nodes.read) == (["a", "b", "c"], 2, 3)
    assert done.columns == {"src": "From", "dst": "To", "id": "id"}
    half = place.file("h.csv", "a,\nb,c\nc,a\n")  # no known name below: a row like others
    assert place.read(half, None, wishes=DEGREE)[1].edges.empty_end == 1


def test_numbers_and_dates_in_a_readers_dress_are_named(place):
    nodes = place.file(
        "n.csv",
        'id,income,share,price,when,plain,city,day\na,"1,234.50",12%,€ 3,31.12.2024,1,Rome,2024-12-31\n'
        'b,"2,345.00",7%,€ 4.50,01.02.2025,2,Oslo,2025-02-01\nc,10,n/a,€ 5,,3,12%,2025-03-01\n',
    )
    graph, done = place.read(nodes=nodes)
    plainly = "write them without signs and thousands, such as 1234.5"
    assert done.hints == {
        "income": f"looks like numbers, got '1,234.50'; {plainly}",
        "share": f"looks like numbers, got '12%'; {plainly}",
        "price": f"looks like numbers, got '€ 3'; {plainly}",
        "when": "looks like dates, got '01.02.2025'; write them such as 2024-12-31",
    }
    kinds = {column.name: column.kind for column in graph.encoding.columns}
    assert (kinds["income"], kinds["plain"], kinds["day"]) == ("category", "number", "time")
    assert done.to_json()["hints"] == done.hints
    _, again = place.read(nodes=place.file("z.csv", "id,zip\na,1.000\nb,2.000\nc,x\n"))
    assert again.hints == {}


def test_a_utf_16_export_with_everything(place):
    text = 'id\tname\tsize\r\n1\t"a\tb"\t1.5\r\n2\t"line\r\nbreak"\t\r\n3\tÄ\t2\r\n\t\t\r\n'
    edges = place.file("e.txt", "src\tdst\r\n1\t2\r\n2\t3\r\n".encode("utf-16"))
    graph, done = place.read(edges, place.file("n.txt", text.encode("utf-16")))
    assert graph.ids.tolist() == [1, 2, 3]
    assert done.nodes.empty_id == 1
    assert "name=line\r\nbreak" in graph.encoding.features


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.tsv", "src\tdst\na\tb\nb\tc\nc\ta\n"),
        ("e.csv.gz", gzip.compress(EDGES.encode())),
        ("e.csv", "sep=|\r\nsrc|dst\r\na|b\r\nb|c\r\nc|a\r\n"),
        ("e.txt", "# a graph\n# from\tto\na b\nb c\nc a\n"),
        ("e.csv", EDGES.encode("utf-16")),
        ("e.csv", "dst, src\nb, a\nc, b\na, c\n"),
        ("e.jsonl", '{"src": "a", "dst": "b"}\n{"src": "b", "dst": "c"}\n{"src": "c", "dst": "a"}\n'),
        ("e", EDGES),
    ],
)  # fmt: skip
def test_formats(place, name, content):
    wanted = [2, 0, 1]
    header = "no" if name == "e.txt" else "auto"
    graph, _ = place.read(place.file(name, content), plan=TablePlan(directed=True, edges_header=header))
    assert graph.indices.tolist() == wanted
    assert graph.ids.tolist() == ["a", "b", "c"]


def test_many_files_globs_and_folders(place):
    for at, row in enumerate(("a,b", "b,c", "c,a")):
        place.file(f"parts/part-{at}.csv", f"src,dst\n{row}\n")
    place.file("parts/_SUCCESS", "")
    for given in (place.folder / "parts", place.folder / "parts" / "part-*.csv"):
        assert place.read(str(given))[0].num_edges == 6
    table = pa.table({"src": ["a", "b", "c"], "dst": ["b", "c", "a"]})
    pq.write_table(table, place.folder / "a[1]*.parquet")  # a name that is a pattern of other names
    assert place.read(str(place.folder / "a[1]*.parquet"))[0].num_edges == 6


def test_numbers_without_a_header_are_edges(place):
    graph, done = place.read(place.file("e.csv", "1,2\n2,30\n30,1\n"), nodes=None, wishes=DEGREE)
    assert graph.ids.tolist() == [1, 2, 30]
    assert done.edges.kept == 3
    assert done.columns == {"src": "column 1", "dst": "column 2"}


def test_ids_keep_leading_zeros_and_floats_lose_their_point(place):
    graph, _ = place.read(place.file("e.csv", "src,dst\n007,7\n7,08\n"), nodes=None, wishes=DEGREE)
    assert graph.ids.tolist() == ["007", "08", "7"]
    floats = pa.table({"src": pa.array([1.0, 2.0, None]), "dst": pa.array([2, 3, 1])})
    pq.write_table(floats, place.folder / "e.parquet")
    graph, done = place.read(str(place.folder / "e.parquet"), nodes=None, wishes=DEGREE)
    assert graph.ids.tolist() == [1, 2, 3]
    assert done.edges.empty_end == 1


def test_kinds_of_columns(place):
    pq.write_table(
        pa.table({
            "id": ["a", "b", "c", "d"],
            "flag": [True, False, None, True],
            "when": pa.array([0, 10**6, None, 2 * 10**6], pa.timestamp("us")),
            "vector": pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.float32())),
            "fixed": pa.array([[1.0], [2.0], [3.0], [4.0]], pa.list_(pa.float32(), 1)),
            "code": [1, 2, 1, 2],
            "title": ["p", "q", "r", "s"],
            "nested": [{"x": 1}] * 4,
            "same": [1.0] * 4,
        }),
        place.folder / "n.parquet",
    )  # fmt: skip
    plan = TablePlan(category="code", categories=3)
    graph, done = place.read(place.file("e.csv", EDGES + "d,a\n"), str(place.folder / "n.parquet"), plan=plan)
    x = dict(
        zip(graph.encoding.features, graph.features.array.T.astype(float).round(3).tolist(), strict=True)
    )
    assert x["flag"] == [0.707, -1.414, 0, 0.707]
    assert x["when"] == [-1.225, 0, 0, 1.225]
    assert x["when is missing"] == [0, 0, 1, 0]
    assert (x["vector[0]"], x["vector[1]"], x["vector is missing"]) == (
        [1, 0, 3, 5],
        [2, 0, 4, 6],
        [0, 1, 0, 0],
    )
    assert x["fixed[0]"] == [1, 2, 3, 4]
    assert (x["code=1"], x["code=2"]) == ([1, 0, 1, 0], [0, 1, 0, 1])
    assert set(done.encoding.ignored) == {"title", "nested", "same"}
    kept = pq.read_table(attributes_of(place.out))
    assert kept.column_names == ["id", "flag", "when", "code", "title", "same"]
    assert kept["title"].to_pylist() == ["p", "q", "r", "s"]


def test_statistics_are_those_of_the_training_nodes(place):
    nodes = "id,age,city,split\na,10,Rome,train\nb,20,Oslo,Train\nc,99,Bonn,test\nd,,,val\n"
    graph, _ = place.read(nodes=place.file("n.csv", nodes))
    assert graph.split.tolist() == [1, 1, 3, 2]
    assert graph.encoding.features == ("age", "city=Oslo", "city=Rome")
    assert graph.features.array.tolist() == [
        [-1, 0, 1],
        [1, 1, 0],
        [16.8 - 1e-6, 0, 0],
        [0, 0, 0],
    ] or np.allclose(graph.features.array, [[-1, 0, 1], [1, 1, 0], [16.8, 0, 0], [0, 0, 0]])


def test_new_nodes_get_the_treatment_of_the_first(place):
    first, _ = place.read()
    more = place.file("more.csv", "city,id,age\nRome,x,15\nParis,y,\nOslo,z,20\n")
    edges = place.file("more_edges.csv", "src,dst\nx,y\ny,z\n")
    second, _ = place.read(edges, more, like=first.encoding)
    assert second.encoding.same_features(first.encoding)
    scale = np.std([10, 20, 30])
    np.testing.assert_allclose(second.features.array, [[-5 / scale, 0, 1], [0, 0, 0], [0, 1, 0]], rtol=1e-6)
    for content, sentence in [
        ("id,age\nx,1\n", "must have the columns of the fit, got none called 'city'"),
        (
            "id,age,city,size\nx,1,Rome,2\n",
            "must have only the columns of the fit, got one more called 'size'",
        ),
        ("id,age,city\nx,old,Rome\n", "column 'age' must hold numbers as at the fit, got 'old'"),
    ]:
        with pytest.raises(LRGIError, match=sentence):
            place.read(edges, place.file("wrong.csv", content), like=first.encoding)
    extra = place.file("extra.csv", "id,age,city,size\nx,1,Rome,2\n")
    graph, _ = place.read(edges, extra, like=first.encoding, plan=TablePlan(ignore="size"))
    assert graph.num_features == 3


def test_features_of_the_structure_are_remade_alike(place):
    first, _ = place.read(nodes=None, wishes=DEGREE)
    second, _ = place.read(place.file("e2.csv", "src,dst\np,q\nq,r\n"), nodes=None, like=first.encoding)
    assert second.encoding.made == first.encoding.made
    assert second.num_features == first.num_features
    both, _ = place.read(wishes=DEGREE)
    assert both.num_features == 3 + first.num_features
    np.testing.assert_array_equal(both.features.array[:, 3:], first.features.array)


def test_labels_of_all_kinds(place):
    def labels(column: str) -> tuple[list, tuple]:
        cells = column.split("|")
        rows = "".join(
            f"{name},{i},{cell}\n" for i, (name, cell) in enumerate(zip("abc", cells, strict=True))
        )
        graph, _ = place.read(nodes=place.file("n.csv", f"id,age,label\n{rows}"))
        return graph.labels.tolist(), graph.encoding.classes

    assert labels("dog|cat|dog") == ([1, 0, 1], ("cat", "dog"))
    assert labels("10|9|-1") == ([1, 0, -1], ("9", "10"))
    assert labels("x||y") == ([0, -1, 1], ("x", "y"))
    rows = [{"id": "a", "age": 1, "y": [0, 1]}, {"id": "b", "age": 2, "y": [1, 1]}, {"id": "c", "age": 3}]
    many = place.file("n.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert place.read(nodes=many)[0].labels.tolist() == [[0, 1], [1, 1], [0, 0]]


BAD = [
    ({"edges": "nowhere.csv"}, "--edges must be a file, a glob or a folder of tables, got .*, no such file"),
    ({"edges": ("e.csv", "")}, "must hold a table, got .*, which is empty"),
    (
        {"edges": ("e.csv", "x,y\na,b\n")},
        "must have columns of senders and receivers, got x, y .* pass --edges-header no",
    ),
    (
        {"edges": ("e.csv", EDGES + "a,b,c\n")},
        "a row of a CSV must have 2 cells, got 3 in line 5; quote cells",
    ),
    (
        {"edges": ("e.csv", "src,dst\nä,b\n".encode("latin-1"))},
        "must be text in UTF-8, got other bytes in line 2",
    ),
    ({"edges": ("e.csv", 'src,dst\n"a,b\n')}, "quotes in a CSV must be closed"),
    (
        {"edges": ("e.csv", b"src,dst\ra,b\rb,c\r")},
        "lines of a CSV must end as on Unix or .* old Macs in .*e.csv",
    ),
    ({"edges": ("e.xlsx", b"PK\x03\x04 a spreadsheet")}, "must be Parquet, CSV, .* as 'CSV UTF-8'"),
    ({"edges": ("e.parquet", b"PAR1 no more than that")}, "a table must be readable, got .*check the file"),
    ({"edges": ("e.csv.gz", b"no gzip")}, "ending in .gz must be gzipped"),
    (
        {"edges": ("e.csv", "src,dst\na,a\n")},
        "at least one edge between two different nodes, got none in 1 rows",
    ),
    (
        {"edges": ("e.csv", "src,dst\nq,r\n")},
        "must name nodes of the node table, got none that does: 'q' in the",
    ),
    (
        {"edges": ("e.csv", "src,dst\n" + "x" * 1001 + ",a\n")},
        "an id must have at most 1,000 letters, got 1,001",
    ),
    ({"edges": ("e.jsonl", "[1, 2]\n")}, "JSON lines must be an object"),
    (
        {"edges": ("e.jsonl", '{"src": [1], "dst": [2]}\n')},
        r"ids must be text or whole numbers, got BIGINT\[\]",
    ),
    ({"nodes": None}, "a graph must have features, got none .* --features-from degree"),
    (
        {"nodes": ("n.csv", "id,title\na,p\nb,q\nc,r\n"), "plan": TablePlan(categories=2)},
        "must have features, got none",
    ),
    (
        {"nodes": ("n.csv", "id,x,split\na,1,often\nb,2,\n")},
        "must be train, validation or test, got 'often' in column",
    ),
    (
        {"nodes": ("n.jsonl", '{"id":"a","v":[1]}\n{"id":"b","v":[1,2]}\n')},
        "must all have one length, got 1 to 2",
    ),
    ({"nodes": ("n.jsonl", '{"id":"a","v":[1,null]}\n{"id":"b","v":[1,2]}\n')}, "must hold finite numbers"),
    (
        {"plan": TablePlan(src="who")},
        "--src must name a column of the edges, got 'who'; choose one of src, dst",
    ),
    ({"plan": TablePlan(ignore="who")}, "--ignore must name columns of the nodes, got 'who'"),
    ({"wishes": Wishes(memory="much")}, "memory must be a size such as 2GB, got 'much'"),
    (
        {"wishes": Wishes(features_from="air")},
        "features must be made from one of degree, random-walk, random, got",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), BAD)
def test_mistakes_are_one_sentence_and_leave_nothing(place, given, sentence):
    options = {key: place.file(*value) if isinstance(value, tuple) else value for key, value in given.items()}
    with pytest.raises(LRGIError, match=sentence) as caught:
        place.read(**options)
    assert "\n" not in str(caught.value)
    assert not [path.name for path in place.folder.iterdir() if "graph" in path.name]


@pytest.mark.parametrize(
    "settings",
    [
        {"unknown": "guess"},
        {"edges_header": "perhaps"},
        {"nodes_header": "x"},
        {"categories": 0},
        {"delimiter": "ab"},
    ],
)
def test_a_plan_refuses_what_it_does_not_know(settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))} must be"):
        TablePlan(**settings)


def test_rows_come_back_in_order_over_many_batches(place):
    count = 300_000
    ids = np.random.default_rng(0).permutation(count)
    pq.write_table(pa.table({"id": ids, "x": ids * 1.0}), place.folder / "n.parquet", row_group_size=50_000)
    ends = pa.table({"src": ids, "dst": np.roll(ids, 1)})
    pq.write_table(ends, place.folder / "e.parquet", row_group_size=40_000)
    graph, _ = place.read(str(place.folder / "e.parquet"), str(place.folder / "n.parquet"))
    np.testing.assert_array_equal(graph.ids, ids)
    column = graph.encoding.columns[0]
    np.testing.assert_allclose(
        graph.features.array[:, 0], (ids - column.mean) / column.scale, rtol=1e-5, atol=1e-6
    )
    assert graph.degrees().tolist() == [2] * count
    near = graph.ids[graph.indices.reshape(-1, 2)]
    np.testing.assert_array_equal(
        np.sort(near, 1), np.sort(np.stack([np.roll(ids, 1), np.roll(ids, -1)], 1), 1)
    )


def test_rows_that_end_early_beside_cells_with_line_ends(place):
    """DuckDB reads those only one after the other, and then it says nothing of a quote that stays open."""
    both = 'id,age,city\na,1,"Ro\nme"\nb\nc,3,Oslo\n'
    graph, _ = place.read(nodes=place.file("n.csv", both))
    assert graph.encoding.features == ("age", "age is missing", "city=Oslo", "city=Ro\nme", "city is missing")
    with pytest.raises(LRGIError, match=r"quotes in a CSV must be closed and doubled inside cells, got 3"):
        place.read(nodes=place.file("n.csv", both + 'd,4,"Bonn\ne,5,Bonn\n'))
