"""A user's mistake is one sentence and exit code 2, and leaves nothing behind."""

import json
import shutil

import numpy as np
import pytest

from lrgi.cli.main import COMMANDS
from lrgi.directory import locked, write_sealed
from lrgi.training.run import RECORD
from reference.tiny import SMALL, npz_arrays, tiny_graph


def fails(answer, *parts):
    assert answer.code == 2
    assert answer.out == ""
    last = answer.err.splitlines()[-1]
    assert last.startswith("lrgi: error: ")
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in last


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fitt"], f"a command must be one of {', '.join(COMMANDS)}, got 'fitt'"),
        (["--json"], f"a command must be one of {', '.join(COMMANDS)}, got none"),
        (["fit"], "the following arguments are required: GRAPH, --out; see `lrgi fit --help`"),
        (["fit", "g", "--out", "r", "--wdth", "3"], "takes, got '--wdth'; see `lrgi fit --help`"),
        (["fit", "g", "--out", "r", "--width", "x"], "--width must be a whole number, got 'x'"),
        (["fit", "g", "--out", "r", "--warmup", "x"], "--warmup must be a number, got 'x'"),
        (["fit", "g", "--out", "r", "--threads", "0"], "--threads must be at least 1, got 0"),
        (["probe", "r", "g", "--seeds", "a"], "--seeds must be whole numbers with commas between, got 'a'"),
    ],
)
def test_command_lines(lrgi, words, sentence):
    fails(lrgi(*words), sentence)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--preset", "cora"], "preset must be one of ppi, reddit, products, got 'cora'; choose one or none"),
        (["--width", "30"], "width must be divisible by the number of heads, got width 30 and 4 heads"),
        (["--layer", "gin"], "layer must be one of gat, sage, gcn, plain-gcn, got 'gin'; choose one"),
        (["--batch-size", "1"], "batch_size must be 0 or at least 2, got 1"),
    ],
)
def test_settings_of_a_fit(lrgi, place, tmp_path, flags, sentence):
    fails(lrgi("fit", place / "graph", "--out", tmp_path / "r", *flags), sentence)
    assert not (tmp_path / "r").exists()


def test_a_missing_graph(lrgi, place, tmp_path):
    fails(lrgi("fit", tmp_path / "no", "--out", tmp_path / "r"), "a graph must exist, got", "check the path")
    fails(lrgi("info", tmp_path / "no"), "a path to look at must exist")


def test_a_missing_run(lrgi, place, tmp_path):
    answer = lrgi("embed", tmp_path / "no", place / "graph", "--out", tmp_path / "e")
    fails(answer, "a run directory must exist, got")
    answer = lrgi("probe", place / "graph", place / "graph")
    fails(answer, "a run must be a directory with a run.json", "make one with `lrgi fit`")


def test_a_run_directory_that_holds_something_else(lrgi, place, tmp_path):
    (tmp_path / "mine.txt").write_text("dear diary")
    answer = lrgi("fit", place / "graph", "--out", tmp_path, "--overwrite")
    fails(answer, "the place for a run must be free", "which holds something else; choose another path")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_finished_run(lrgi, place):
    answer = lrgi("fit", place / "graph", "--out", place / "run", *SMALL, "--seed", "1")
    fails(answer, "got seed 1 for", "which holds a finished run with seed 0; choose another path", "--from")
    before = {p.name: p.stat().st_mtime_ns for p in (place / "run").iterdir()}
    answer = lrgi("fit", place / "graph", "--out", place / "run", *SMALL)
    assert answer.code == 0
    assert "is finished, with these very settings: nothing is fitted again" in answer.err
    assert "LRGI after layer 2" in answer.out
    assert {p.name: p.stat().st_mtime_ns for p in (place / "run").iterdir()} == before


def test_an_unfinished_run(lrgi, place, tmp_path):
    record = json.loads((place / "run" / RECORD).read_text()) | {"status": "interrupted"}
    write_sealed(tmp_path / RECORD, record)
    answer = lrgi("fit", place / "graph", "--out", tmp_path, *SMALL, "--width", "12")
    fails(answer, "which holds an unfinished run with width 8; choose another path, pass --overwrite")
    answer = lrgi("probe", tmp_path, place / "graph")
    fails(answer, "a run must be finished, got", "which is 'interrupted'")
    assert lrgi("fit", place / "graph", "--out", tmp_path, *SMALL).code == 0


def test_another_graph(lrgi, place, tmp_path):
    arrays = npz_arrays(tiny_graph())
    np.savez(tmp_path / "other.npz", **{**arrays, "x": arrays["x"] + 1})
    answer = lrgi("fit", tmp_path / "other.npz", "--out", place / "run", *SMALL)
    fails(answer, "a run must keep its settings, got graph '240 nodes,", "choose another path")


def test_a_run_directory_that_another_process_holds(lrgi, place, tmp_path):
    with locked(tmp_path):
        answer = lrgi("fit", place / "graph", "--out", tmp_path, *SMALL)
    fails(answer, "a run directory must be used by one process at a time, got", "wait for it")
    assert lrgi("fit", place / "graph", "--out", tmp_path, *SMALL, "--no-probe").code == 0


def test_a_run_of_a_newer_version(lrgi, place, tmp_path):
    record = json.loads((place / "run" / RECORD).read_text()) | {"version": 2}
    (tmp_path / RECORD).write_text(json.dumps(record))
    fails(lrgi("probe", tmp_path, place / "graph"), "a run's version must be from 1 to 1, got 2", "upgrade")


def test_a_graph_with_other_columns(lrgi, place, tmp_path):
    arrays = npz_arrays(tiny_graph())
    np.savez(tmp_path / "narrow.npz", **{**arrays, "x": arrays["x"][:, :5]})
    sentence = "a graph to embed must have the 12 feature columns of the fit, got 5"
    fails(lrgi("probe", place / "run", tmp_path / "narrow.npz"), sentence)
    fails(lrgi("embed", place / "run", tmp_path / "narrow.npz", "--out", tmp_path / "e"), sentence)
    assert not (tmp_path / "e").exists()


def test_features_that_are_not_finite(lrgi, tmp_path):
    arrays = npz_arrays(tiny_graph())
    arrays["x"] = arrays["x"].copy()
    arrays["x"][3, 1] = np.nan
    np.savez(tmp_path / "bad.npz", **arrays)
    answer = lrgi("import", tmp_path / "bad.npz", "--out", tmp_path / "g")
    fails(answer, "features must be finite, got nan in row 3, column 1")
    assert not (tmp_path / "g").exists()


def test_a_truncated_array_file(lrgi, place, tmp_path):
    shutil.copytree(place / "graph", tmp_path / "g")
    file = tmp_path / "g" / "features.npy"
    file.write_bytes(file.read_bytes()[:-100])
    answer = lrgi("fit", tmp_path / "g", "--out", tmp_path / "r")
    fails(answer, "features.npy must have 11648 bytes, got 11548; it is truncated")


def test_a_newer_manifest(lrgi, place, tmp_path):
    shutil.copytree(place / "graph", tmp_path / "g")
    file = tmp_path / "g" / "manifest.json"
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    fails(lrgi("info", tmp_path / "g"), "a graph's version must be at most 1, got 2", "upgrade lrgi")


def test_layers_that_are_not_there(lrgi, place):
    answer = lrgi("probe", place / "run", place / "graph", "--layers", "3")
    fails(answer, "layers must be 'last', 'all' or different numbers from 1 to 2, got '3'")


def test_a_protocol_that_cannot_be(lrgi, place):
    answer = lrgi("probe", place / "held", place / "graph.npz")
    fails(answer, "a graph for the inductive protocol must have a split, got none")
    answer = lrgi("probe", place / "run", place / "graph", "--protocol", "fair")
    fails(answer, "protocol must be one of auto, inductive, transductive, got 'fair'")


def test_a_graph_without_labels(lrgi, place, tmp_path):
    arrays = npz_arrays(tiny_graph())
    del arrays["y"]
    np.savez(tmp_path / "bare.npz", **arrays)
    fails(lrgi("probe", place / "run", tmp_path / "bare.npz"), "a graph to probe must have labels")


def test_few_graphs_cannot_be_split_by_graph(lrgi, place, tmp_path):
    answer = lrgi("import", place / "graph.npz", "--out", tmp_path / "g", "--split", "by-graph")
    fails(answer, "a data set to split by graph must have at least 3 graphs, got 1")


def test_an_embedding_in_the_way(lrgi, place, tmp_path):
    words = ["embed", place / "run", place / "graph", "--out", tmp_path / "e"]
    assert lrgi(*words).code == 0
    fails(lrgi(*words), "which holds an embedding; choose another path or pass --overwrite")
    assert lrgi(*words, "--overwrite").code == 0
    fails(
        lrgi(*words[:-1], place / "graph", "--overwrite"), "which holds something else; choose another path"
    )


def test_a_place_that_the_system_refuses(lrgi, place, tmp_path):
    (tmp_path / "file").write_text("")
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "file" / "run", *SMALL)
    fails(answer, "the system refused", "Not a directory")


def test_something_that_is_nothing_of_ours(lrgi, tmp_path):
    fails(lrgi("info", tmp_path), "must be a graph, run, encoder or embedding, got", "none of them")


def test_debug_shows_the_traceback(lrgi, tmp_path):
    with pytest.raises(Exception, match="a graph must exist"):
        lrgi("fit", tmp_path / "no", "--out", tmp_path / "r", "--debug")


def test_an_interrupt_is_one_line(lrgi, place, tmp_path, monkeypatch):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("lrgi.encoder._all_sources", interrupted)
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "r", *SMALL)
    assert answer.code == 130
    assert answer.err.splitlines()[-1] == "lrgi: interrupted"
    assert json.loads((tmp_path / "r" / RECORD).read_text())["status"] == "interrupted"


def test_a_setting_of_another_method(lrgi, place, tmp_path):
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "r", *SMALL, "--gbt-edges", "0.5")
    fails(answer, "--gbt-edges must go with --method gbt, got --method lrgi; drop it")


def test_an_unknown_method(lrgi, place, tmp_path):
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "r", *SMALL, "--method", "best")
    fails(answer, "method must be one of raw, random,", "got 'best'; choose one")


def test_a_device_that_is_not_there(lrgi, place, tmp_path):
    answer = lrgi("fit", place / "graph", "--out", tmp_path / "r", *SMALL, "--device", "cuda:99")
    fails(answer, "device must be one that torch finds here, got 'cuda:99'", "use cpu")


def test_growing_what_cannot_grow(lrgi, place, tmp_path):
    fails(lrgi("grow", place / "run", "--layers", "2"), "--layers must be more than the 2 of the run, got 2")
    fails(lrgi("grow", place / "run", "--layers", "+x"), "--layers must be a whole number, got 'x'")
    fails(lrgi("grow", tmp_path), "a run must be a directory with a run.json")
    arrays = npz_arrays(tiny_graph())
    np.savez(tmp_path / "other.npz", **{**arrays, "x": arrays["x"] + 1})
    answer = lrgi("grow", place / "run", tmp_path / "other.npz")
    fails(answer, "a run must keep its settings, got graph '240 nodes", "choose another path")


def test_verifying_what_is_nothing_of_ours(lrgi, tmp_path):
    fails(lrgi("verify", tmp_path), "a path to verify must be a graph, run, encoder or embedding directory")
    fails(lrgi("verify", tmp_path / "no"), "a path to verify must exist, got")


def test_starting_from_weights_of_other_shapes(lrgi, place, tmp_path):
    wide = ("fit", place / "graph", "--out", tmp_path / "r", *SMALL, "--width", "16", "--from", place / "run")
    fails(lrgi(*wide), "the weights to start from must have the shapes of the settings, got layer 1 of")
