"""`lrgi grow`, `lrgi verify`, and runs that are taken up, on the command line."""

import json
import re
import shutil

import pytest

from lrgi.card import card_text
from lrgi.encoder import Encoder
from lrgi.training.run import open_run
from reference.tiny import SMALL


def test_grow_adds_a_layer_and_measures_all(lrgi, place, tmp_path):
    shutil.copytree(place / "run", tmp_path / "run")
    answer = lrgi("grow", tmp_path / "run", "--layers", "+1", "--json")
    assert answer.code == 0
    assert (answer.json["layers"], answer.json["new_layers"], answer.json["scores"]) == (3, 1, [])
    assert [row["name"] for row in answer.json["table"]["rows"]][-1] == "LRGI after layer 3"
    assert len(open_run(tmp_path / "run").encoder.layers) == 3
    assert lrgi("verify", tmp_path / "run").code == 0


@pytest.mark.parametrize("measure", ["edges", "probe"])
def test_grow_stops_when_a_layer_brings_too_little(lrgi, place, tmp_path, measure):
    shutil.copytree(place / "run", tmp_path / "run")
    words = ("grow", tmp_path / "run", place / "graph", "--layers", "4", "--until", measure)
    answer = lrgi(*words, "--least-gain", "2", "--json")  # more than any score can rise
    assert answer.json["new_layers"] == 0
    assert len(answer.json["scores"]) == 2
    assert "less than 2 more: it is dropped, and the run stays as it was" in answer.err
    answer = lrgi(*words, "--least-gain", "-2", "--json")
    assert answer.json["new_layers"] == 2
    assert len(answer.json["scores"]) == 3
    assert lrgi("verify", tmp_path / "run").code == 0


def test_verify_reads_all_kinds(lrgi, place, tmp_path):
    lrgi("embed", place / "run", place / "graph", "--out", tmp_path / "emb")
    for path, kind in [
        (place / "run", "run"), (place / "graph", "graph"), (place / "run" / "encoder", "encoder"),
        (tmp_path / "emb", "embedding"),
    ]:  # fmt: skip
        answer = lrgi("verify", path, "--json")
        assert answer.json == {"command": "verify", "path": str(path), "kind": kind, "whole": True}
    shutil.copytree(place / "run", tmp_path / "run")
    (tmp_path / "run" / "steps.jsonl").write_text("")
    (tmp_path / "run" / "table.txt").unlink()
    answer = lrgi("verify", tmp_path / "run")
    assert answer.code == 2
    assert re.search("must be as it was written, got 2 problems", answer.err)
    for name in ("steps.jsonl must be as lrgi wrote it", "table.txt must be there, got no such file"):
        assert name in answer.err


def test_a_run_that_is_killed_is_taken_up_and_says_so(lrgi, place, tmp_path, monkeypatch):
    words = ("fit", place / "graph", "--out", tmp_path / "run", *SMALL, "--snapshot-seconds", "0", "--json")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("lrgi.training.run.seal_run", lambda *given: 1 / 0)
        lrgi(*words)
    answer = lrgi(*words)
    assert answer.code == 0
    assert "run goes on after layer 2" in answer.err
    assert answer.json["run"]["status"] == "finished"


def test_the_encoders_card_has_the_runs_own_table(lrgi, place, tmp_path):
    table = json.loads((place / "run" / "table.json").read_text())
    card = (place / "run" / "encoder" / "README.md").read_text()
    assert Encoder.load(place / "run" / "encoder").extra["table"] == table
    for row in table["rows"]:
        assert f"| {row['name']} | {row['validation_mean']:.4f} | {row['test_mean']:.4f} |" in card
    assert f"      value: {table['rows'][-1]['test_mean']:.4f}\n" in card
    held = (place / "held" / "encoder" / "README.md").read_text()
    assert "Nothing was probed: it was not asked for." in held
    assert "model-index" not in held
    shutil.copytree(place / "run", tmp_path / "run")
    lrgi("grow", tmp_path / "run")
    grown = (tmp_path / "run" / "encoder" / "README.md").read_text()
    assert "| LRGI after layer 3 |" in grown
    assert grown == card_text(json.loads((tmp_path / "run" / "encoder" / "config.json").read_text()))


def test_a_shared_encoder_stands_for_its_run(lrgi, place, tmp_path):
    shutil.copytree(place / "run" / "encoder", tmp_path / "shared")
    for given, out in ((place / "run", "a"), (tmp_path / "shared", "b")):
        assert lrgi("embed", given, place / "graph", "--out", tmp_path / out).code == 0
    assert (tmp_path / "a" / "embeddings.npy").read_bytes() == (
        tmp_path / "b" / "embeddings.npy"
    ).read_bytes()
    words = (place / "graph", "--seeds", "0", "--epochs", "5", "--json")
    probed = [
        lrgi("probe", given, *words).json["test_mean"] for given in (place / "run", tmp_path / "shared")
    ]
    assert probed[0] == probed[1]
    assert "is an encoder, and every byte" in lrgi("verify", tmp_path / "shared").out
    answer = lrgi("embed", tmp_path, place / "graph", "--out", tmp_path / "c")
    assert (answer.code, answer.out) == (2, "")
    assert "a run must be a directory with a run.json" in answer.err
