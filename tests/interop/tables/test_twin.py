"""Generated tables with ids of all types, gaps, repetitions and unicode: all as the slow twin has it."""

import csv
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from lrgi.errors import InputError
from lrgi.graph.store import open_graph, verify_graph
from lrgi.interop.tables.plan import TablePlan
from lrgi.interop.tables.read import Wishes, import_tables
from reference import tables as twin

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
IDS = st.one_of(
    st.lists(st.integers(-(2**60), 2**60), min_size=2, max_size=9, unique=True),
    st.lists(st.integers(0, 50), min_size=2, max_size=9, unique=True),
    st.lists(st.uuids().map(str), min_size=2, max_size=9, unique=True),
    st.lists(TEXT, min_size=2, max_size=9, unique=True),
    st.lists(st.sampled_from(["007", "7", "7.0", "NA", "null", " a", "a", "ä", "\U0001f600", "-1", "1e3"]),
             min_size=2, max_size=9, unique=True),
)  # fmt: skip
CELLS = {
    "age": st.none() | st.floats(-1e6, 1e6, width=32),
    "size": st.none() | st.sampled_from(["1", "2.5", "-3e2", ".5", "NA", "n/a", "?"]),
    "kind": st.none() | st.sampled_from(["a", "b", "ç d", "NA", "a,b", 'say "x"', "two\nlines"]),
}


@st.composite
def tables(draw):
    ids = draw(IDS)
    name = st.sampled_from(ids)
    edges = draw(st.lists(st.tuples(st.none() | name, name | st.none()), min_size=1, max_size=25))
    row = st.fixed_dictionaries({"id": st.none() | name, **CELLS})
    nodes = draw(st.none() | st.lists(row, min_size=1, max_size=12))
    return edges, nodes


def write(folder: Path, kind: str, name: str, columns: dict[str, list]) -> str:
    path = folder / f"{name}.{kind}"
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if kind == "parquet":
        arrays = {
            key: pa.array(values, pa.string() if any(isinstance(v, str) for v in values) else None)
            for key, values in columns.items()
        }
        nothing = {
            key: pa.nulls(len(array), pa.string()) for key, array in arrays.items() if array.type == pa.null()
        }
        pq.write_table(pa.table({**arrays, **nothing}), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        file = io.StringIO(newline="")
        writer = csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(columns)
        writer.writerows(
            [["" if v is None else v for v in row] for row in zip(*columns.values(), strict=True)]
        )
        path.write_bytes(file.getvalue().encode("utf-8-sig"))
    return str(path)


@given(
    tables(), st.sampled_from(["parquet", "csv", "jsonl"]), st.booleans(), st.sampled_from(["add", "drop"])
)
@settings(max_examples=60, phases=[Phase.generate])
def test_counts_ids_edges_and_features_are_the_twins(given_tables, kind, directed, unknown):
    edges, nodes = given_tables
    trim = kind == "csv"
    expected = twin.import_graph(edges, nodes, directed=directed, unknown=unknown, trim=trim)
    plan = TablePlan(
        src="src",
        dst="dst",
        id="id",
        delimiter=";",
        directed=directed,
        unknown=unknown,
        edges_header="yes",
        nodes_header="yes",
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paths = {
            "edges": write(folder, kind, "e", {"src": [s for s, _ in edges], "dst": [r for _, r in edges]})
        }
        if nodes is not None:
            paths["nodes"] = write(folder, kind, "n", {key: [row[key] for row in nodes] for key in nodes[0]})
        options = {"plan": plan, "wishes": Wishes(features_from="degree"), **paths}
        listed = expected["ids"][: len(expected["ids"]) - expected["only_in_edges"]]
        strangers = listed and not any(twin.text(end, trim) in listed for pair in edges for end in pair)
        if not expected["stored"] or strangers:
            with pytest.raises(InputError, match=r"at least one (edge|node)|edges must name nodes"):
                import_tables(out=folder / "g", **options)
            assert not (folder / "g").exists()
            return
        done = import_tables(out=folder / "g", **options)
        verify_graph(folder / "g")
        graph = open_graph(folder / "g")
        found = np.array(graph.features.array)
        ids = [str(name) for name in graph.ids.tolist()]
        receivers = np.repeat(np.arange(graph.num_nodes), graph.degrees())
        stored = set(zip(receivers.tolist(), graph.indices.tolist(), strict=True))
    assert ids == expected["ids"]
    assert stored == expected["stored"]
    for key in ("read", "empty_end", "unknown", "self_loops", "repeated", "kept"):
        assert getattr(done.edges, key) == expected[key], key
    assert done.edges.read == sum(
        getattr(done.edges, key) for key in ("empty_end", "unknown", "self_loops", "repeated", "kept")
    )
    for key in ("empty_id", "repeated_id", "only_in_edges", "total"):
        assert getattr(done.nodes, key) == expected[key], key
    assert done.nodes.read == expected["nodes_read"]
    if nodes is None:
        return
    use = [row is not None for row in expected["rows"]]
    wanted = twin.features(
        expected["rows"],
        nodes,
        use,
        [key for key in nodes[0] if key != "id"],
        trim=trim,
        most=plan.categories,
    )
    names = done.encoding.features
    assert list(names) == list(wanted), done.encoding
    for at, name in enumerate(names):
        np.testing.assert_allclose(found[:, at], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
