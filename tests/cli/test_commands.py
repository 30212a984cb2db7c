"""Every command does what it says: files, words, JSON as docs/json.md documents it."""

import json
import re
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from lrgi.baselines.methods import METHODS
from lrgi.cli.main import COMMANDS
from lrgi.graph.store import open_graph
from lrgi.probe.linear import ProbePlan
from lrgi.training.plan import FitPlan
from lrgi.training.run import open_run
from reference.tiny import SMALL

ROOT = Path(__file__).resolve().parents[2]

GRAPH_KEYS = {
    "name", "nodes", "edges", "graphs", "isolated_nodes", "mean_degree", "largest_degree", "features",
    "labels", "split", "ids",
}  # fmt: skip
RUN_KEYS = {
    "format", "version", "status", "command", "plan", "fit_on", "protocol", "graph", "fitted_graph",
    "versions", "hardware", "started", "finished", "seconds", "layers", "method", "processes",
    "sent_bytes", "method_settings", "from", "files", "source", "alarms",
}  # fmt: skip
TABLE_KEYS = {"rows", "metric", "protocol", "splits", "seeds", "problem"}
ROW_KEYS = {
    "name", "validation_mean", "validation_spread", "test_mean", "test_spread", "mad", "effective_rank",
    "seconds",
}  # fmt: skip
PROBE_KEYS = {
    "command", "run", "graph", "layers", "view", "columns", "splits", "metric", "protocol", "seeds",
    "validation_scores", "test_scores", "best_epochs", "seconds", "validation_mean", "validation_spread",
    "test_mean", "test_spread",
}  # fmt: skip
EMBEDDING_KEYS = {
    "format", "version", "graph", "nodes", "columns", "layers", "view", "run", "embedded_in", "arrays",
    "kind", "dtype", "source",
}  # fmt: skip


def python_m_lrgi(*words, **options):
    command = [sys.executable, "-m", "lrgi", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_help_is_fast_and_needs_no_torch():
    begun = time.perf_counter()
    done = python_m_lrgi("--help")
    assert time.perf_counter() - begun < 1.0  # 0.05 s on an idle machine; torch alone takes 2
    assert done.returncode == 0
    for name in COMMANDS:
        assert re.search(rf"^ +{name}\b", done.stdout, re.MULTILINE)
    code = "import sys, lrgi, lrgi.cli.main; lrgi.cli.main.main(['--version'])"
    check = f"try:\n exec({code!r})\nexcept SystemExit: assert not {{'torch', 'numpy'}} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_no_words_print_the_help(lrgi):
    answer = lrgi()
    assert answer.code == 0
    assert "commands:" in answer.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_ends_with_an_example(capsys, lrgi, command):
    with pytest.raises(SystemExit, match="0"):
        lrgi(command, "--help")
    text = capsys.readouterr().out
    assert f"examples:\n  lrgi {command}" in text
    assert "--json" in text


@pytest.mark.parametrize(("command", "settings"), [("fit", FitPlan), ("probe", ProbePlan)])
def test_help_names_every_setting_with_its_default(capsys, lrgi, command, settings):
    with pytest.raises(SystemExit):
        lrgi(command, "--help")
    text = " ".join(capsys.readouterr().out.split())
    for entry in fields(settings):
        flag = "--" + entry.name.replace("_", "-")
        assert (f"{flag} " in text) == (entry.metadata.get("flag") is not False)
        if entry.metadata.get("flag") is not False:
            assert " ".join(entry.metadata["help"].split()) + " (default " in text


def test_import_keeps_a_graph_and_says_what_it_is(lrgi, place, tmp_path):
    answer = lrgi("import", place / "graph.npz", "--out", tmp_path / "g")
    assert answer.code == 0
    for words in ("240\n", "2,400 directed", "12 columns, dense", "4 classes", "split     none"):
        assert words in answer.out
    assert f"fit {tmp_path / 'g'} --out runs/graph" in answer.out
    graph = open_graph(tmp_path / "g")
    assert graph.num_edges == 2400
    assert graph.split is None


def test_import_as_json(lrgi, place, tmp_path):
    found = lrgi("import", place / "graph.npz", "--out", tmp_path / "g", "--split", "random", "--json").json
    assert set(found) == {"command", "path", "graph"}
    assert set(found["graph"]) == GRAPH_KEYS
    assert found["graph"]["split"] == {"train": 24, "validation": 24, "test": 192}


def test_import_holds_out_graphs_where_there_are_many(lrgi, place, tmp_path):
    found = lrgi("import", place / "many.npz", "--out", tmp_path / "g", "--json").json["graph"]
    assert found["graphs"] == 7
    graph = open_graph(tmp_path / "g")
    parts = [set(graph.split[a:b].tolist()) for a, b in zip(graph.offsets, graph.offsets[1:], strict=False)]
    assert sorted(parts, key=str) == [{1}] * 5 + [{2}] + [{3}]


def test_fit_writes_a_run_and_a_table(lrgi, place, tmp_path):
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "run", *SMALL)
    assert answer.code == 0
    for row in ("raw features", "LRGI after layer 1", "LRGI after layer 2"):
        assert re.search(rf"^{row} +0\.\d{{3}} +0\.\d{{3}}", answer.out, re.MULTILINE)
    assert "transductive" in answer.out
    assert f"embed {tmp_path / 'run'} {place / 'graph'} --out" in answer.out
    assert (tmp_path / "run" / "table.txt").read_text() in answer.out
    assert (
        json.loads((tmp_path / "run" / "table.json").read_text())["rows"][2]["name"] == "LRGI after layer 2"
    )


def test_a_pipe_gets_plain_lines(lrgi, place, tmp_path):
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "run", *SMALL)
    lines = answer.err.splitlines()
    assert "layer 1 of 2: 2 steps" in lines
    assert any(line.startswith("layer 2 of 2 fitted: 2 steps in ") for line in lines)
    assert not set("\r\x1b#") & set(answer.err)


def test_quiet_is_quiet(lrgi, place, tmp_path):
    assert lrgi("fit", place / "graph", "--out", tmp_path / "run", *SMALL, "--quiet").err == ""


def test_fit_as_json(lrgi, place, tmp_path):
    found = lrgi("fit", place / "graph", "--out", tmp_path / "run", *SMALL, "--json").json
    assert set(found) == {"command", "path", "run", "table"}
    assert set(found["run"]) == RUN_KEYS
    assert set(found["table"]) == TABLE_KEYS
    assert set(found["table"]["rows"][0]) == ROW_KEYS
    assert found["run"]["plan"]["width"] == 8


def test_fit_takes_a_preset_and_flags_change_it(lrgi, place, tmp_path):
    small = ["--width", "8", "--updates", "2", "--layers", "1"]
    found = lrgi("fit", place / "graph", "--out", tmp_path / "r", "--preset", "ppi", "--json", *small).json
    plan = found["run"]["plan"]
    assert (plan["covariance"], plan["batch_size"], plan["width"]) == (20.0, 0, 8)
    assert (plan["updates"], plan["epochs"]) == (2, 0)
    assert found["run"]["protocol"] == found["table"]["protocol"] == "inductive"
    assert found["run"]["fitted_graph"]["nodes"] == round(0.8 * 240)


def test_fit_without_probe_still_measures(lrgi, place):
    table = json.loads((place / "held" / "table.json").read_text())
    assert table["problem"] == "it was not asked for"
    assert [row["test_mean"] for row in table["rows"]] == [None] * 3
    assert all(row["mad"] > 0 and row["effective_rank"] > 0 for row in table["rows"])
    assert "Nothing was probed: it was not asked for." in (place / "held" / "table.txt").read_text()


def test_fit_reads_npz_and_needs_no_labels(lrgi, place, tmp_path):
    arrays = dict(np.load(place / "graph.npz"))
    del arrays["y"]
    np.savez(tmp_path / "bare.npz", **arrays)
    answer = lrgi("fit", tmp_path / "bare.npz", "--out", tmp_path / "run", *SMALL)
    assert answer.code == 0
    assert "Nothing was probed: the graph has no labels." in answer.out
    assert "lrgi probe" not in answer.out


def test_embed_writes_what_the_encoder_gives(lrgi, place, tmp_path):
    answer = lrgi("embed", place / "run", place / "graph", "--out", tmp_path / "emb")
    assert answer.code == 0
    assert "240 nodes x 8 columns (layer 2)" in answer.out
    expected = open_run(place / "run").encoder.embed(open_graph(place / "graph")).array
    np.testing.assert_array_equal(np.load(tmp_path / "emb" / "embeddings.npy"), expected)


def test_embed_as_json_with_layers_side_by_side(lrgi, place, tmp_path):
    words = ["embed", place / "held", place / "graph", "--out", tmp_path / "emb", "--layers", "2,1"]
    found = lrgi(*words, "--training-subgraph", "--json").json
    assert set(found) == {"command", "path", "seconds", "embedding"}
    assert set(found["embedding"]) == EMBEDDING_KEYS
    assert found["embedding"]["layers"] == [2, 1]
    assert found["embedding"]["embedded_in"] == "training subgraph"
    assert np.load(tmp_path / "emb" / "embeddings.npy").shape == (144, 16)
    nodes = np.load(tmp_path / "emb" / "nodes.npy")
    np.testing.assert_array_equal(nodes, np.flatnonzero(open_graph(place / "graph").split == 1))


def test_probe_in_words(lrgi, place):
    answer = lrgi("probe", place / "run", place / "graph", "--epochs", "20")
    assert answer.code == 0
    assert re.search(r"^test +0\.\d{4} ± 0\.\d{4}$", answer.out, re.MULTILINE)
    assert "protocol    transductive" in answer.out


@pytest.mark.parametrize(
    ("run", "flags", "protocol"),
    [
        ("run", [], "transductive"),
        ("held", [], "inductive"),
        ("run", ["--protocol", "inductive"], "inductive"),
        ("held", ["--protocol", "transductive", "--layers", "all"], "transductive"),
    ],
)
def test_probe_as_json_names_its_protocol(lrgi, place, run, flags, protocol):
    found = lrgi("probe", place / run, place / "graph", "--epochs", "10", "--json", *flags).json
    assert set(found) == PROBE_KEYS
    assert found["protocol"] == protocol
    assert found["splits"] == "the graph's own"
    assert found["columns"] == (16 if "all" in flags else 8)


def test_probe_without_a_split_draws_one_per_seed(lrgi, place):
    words = ["probe", place / "run", place / "graph.npz", "--epochs", "10", "--seeds", "3,5", "--json"]
    found = lrgi(*words).json
    assert found["splits"].startswith("random 10/10/80 %")
    assert found["seeds"] == [3, 5]
    assert len(set(found["test_scores"])) == 2


@pytest.mark.parametrize(
    ("path", "kind", "keys", "words"),
    [
        ("graph", "graph", GRAPH_KEYS, "Graph 'planted-communities' (graph directory"),
        ("graph.npz", "graph", GRAPH_KEYS, "as `lrgi import` would read it"),
        ("run", "run", RUN_KEYS, "LRGI after layer 2"),
        ("run/encoder", "encoder", {"layers", "weights", "extra"}, "layer 1  gat, 12 -> 8 columns"),
        ("emb", "embedding", EMBEDDING_KEYS, "240 nodes x 8 columns"),
    ],
)
def test_info(lrgi, place, path, kind, keys, words):
    if path == "emb" and not (place / "emb").exists():
        lrgi("embed", place / "run", place / "graph", "--out", place / "emb")
    found = lrgi("info", place / path, "--json").json
    assert set(found) == {"command", "path", "kind", kind}
    assert found["kind"] == kind
    assert set(found[kind]) == keys
    assert words in lrgi("info", place / path).out


def test_the_demo_in_small(tmp_path):
    words = ["demo", "--nodes", "600", "--updates", "2", "--layers", "2"]
    done = python_m_lrgi(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [
        "raw features", "features propagated 2 times", "untrained encoder, 2 layers", "LRGI after layer 1",
        "LRGI after layer 2",
    ]  # fmt: skip
    found = [name for line in done.stdout.splitlines() for name in rows if line.startswith(name)]
    assert found == rows
    assert "python -m lrgi probe runs/demo runs/demo/graph --layers all" in done.stdout
    assert open_graph(tmp_path / "runs" / "demo" / "graph").num_nodes == 600


def test_the_demo_replaces_only_its_own_run(lrgi, place, tmp_path):
    words = ["demo", "--nodes", "400", "--updates", "1", "--layers", "1", "--json", "--out", tmp_path / "d"]
    first, second = lrgi(*words).json, lrgi(*words).json
    assert set(first) == {"command", "path", "graph", "run", "table"}
    assert [row["test_mean"] for row in first["table"]["rows"]] == [
        row["test_mean"] for row in second["table"]["rows"]
    ]
    answer = lrgi(*words[:-1], place / "run")
    assert answer.code == 2
    assert "which holds a run of 'lrgi fit'; choose another path with --out" in answer.err


def test_every_key_is_documented():
    text = (ROOT / "docs" / "json.md").read_text()
    keys = GRAPH_KEYS | RUN_KEYS | TABLE_KEYS | ROW_KEYS | PROBE_KEYS | EMBEDDING_KEYS
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_and_is_probed_and_embedded(lrgi, place, tmp_path, method):
    run = tmp_path / "run"
    fitted = lrgi("fit", place / "graph", "--out", run, "--method", method, *SMALL, "--json").json
    assert fitted["run"]["method"] == method
    columns = 12 if method in ("raw", "propagate") else 8
    probed = lrgi("probe", run, place / "graph", "--json").json
    assert (probed["columns"], probed["test_mean"] > 0) == (columns, True)
    both = lrgi("embed", run, place / "graph", "--out", tmp_path / "e", "--view", "both", "--json").json
    assert both["embedding"]["columns"] == 2 * columns


def test_a_methods_own_setting_reaches_it(lrgi, place, tmp_path):
    words = ("--method", "gbt", *SMALL, "--no-probe")
    files = []
    for at, more in enumerate([(), ("--gbt-edges", "0.9")]):
        lrgi("fit", place / "graph", "--out", tmp_path / str(at), *words, *more)
        files.append((tmp_path / str(at) / "encoder" / "model.safetensors").read_bytes())
    assert files[0] != files[1]


def test_generate_writes_a_graph_of_the_size_asked_for(lrgi, tmp_path):
    found = lrgi("generate", "products", "--out", tmp_path / "g", "--scale", "0.002", "--json").json
    assert found["graph"]["nodes"] == 4898
    assert found["graph"]["edges"] == 2 * 123_718
    again = lrgi("generate", "products", "--out", tmp_path / "g", "--scale", "0.002")
    assert again.code == 2
    assert "must be free" in again.err


def test_generate_refuses_what_it_does_not_know(lrgi, tmp_path):
    answer = lrgi("generate", "papers", "--out", tmp_path / "g")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "must be one of products, products-training, demo, got 'papers'; choose one" in answer.err


def test_a_data_set_by_name_says_which_files_to_put_where(lrgi, tmp_path, monkeypatch):
    from lrgi.interop.datasets import from_pyg

    def refused(name: str, root: Path) -> None:
        raise OSError("no network")

    monkeypatch.setattr(from_pyg, "download", refused)
    answer = lrgi("import", "cora", "--root", tmp_path, "--out", tmp_path / "graph")
    assert answer.code == 2
    assert "only take them from a source that you trust" in answer.err
    assert f"must lie in {tmp_path / 'cora' / 'raw'}, got none of ind.cora.x" in answer.err
    assert not (tmp_path / "graph").exists()
