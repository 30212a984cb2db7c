"""The model card: what the hub reads, what a person reads, and that it says what the config says."""

import json

import pytest
import yaml

from lrgi.card import CARD, card_text, missing_line
from lrgi.encoder import CONFIG, Encoder, verify_encoder
from lrgi.errors import FormatError
from lrgi.layers.make import make_layer

SIZES = {"name": 'a | "b": <c>', "nodes": 1200, "edges": 6000, "graphs": 1, "columns": 3}
COLUMN = {
    "name": "a|ge", "kind": "number", "mean": 40.25, "scale": 2.0, "values": [], "other": False, "width": 1,
    "missing": True,
}  # fmt: skip
ROW = {"validation_mean": 0.75, "test_mean": 0.70004, "test_spread": 0.01, "mad": 0.5, "effective_rank": 9.0}
TABLE = {
    "rows": [{"name": "raw features", **dict.fromkeys(ROW)}, {"name": "LRGI after layer 1", **ROW}],
    "metric": "micro_f1", "protocol": "inductive", "splits": "the graph's own", "seeds": [0, 1, 2],
    "problem": None,
}  # fmt: skip
EXTRA = {
    "method": "lrgi", "plan": {"layers": 1, "seed": 3}, "fit_on": "train", "graph": SIZES,
    "fitted_graph": {**SIZES, "nodes": 600, "edges": 1200}, "versions": {"lrgi": "0.1.0"},
    "alarms": ["the loss must fall, got 3"], "table": TABLE,
    "encoding": {"columns": [COLUMN, *[{**COLUMN, "name": f"c{i}"} for i in range(60)]], "made": None},
}  # fmt: skip


def encoder(extra):
    return Encoder([make_layer("sage", 3, 8)], extra)


def config_of(extra, place):
    encoder(extra).save(place)
    return json.loads((place / CONFIG).read_text())


def test_the_hubs_lines_are_yaml_whatever_the_graph_is_called(tmp_path):
    text = card_text(config_of(EXTRA, tmp_path / "e"))
    _, front, body = text.split("---\n", 2)
    found = yaml.safe_load(front)
    assert (found["library_name"], found["license"], found["pipeline_tag"]) == ("lrgi", "unknown", "graph-ml")
    assert {"graph-ml", "node-embeddings", "safetensors"} <= set(found["tags"])
    (result,) = found["model-index"][0]["results"]
    assert result["dataset"]["name"] == SIZES["name"]
    assert (result["metrics"][0]["type"], result["metrics"][0]["value"]) == ("f1", 0.7)
    assert '\n# a \\| "b": &lt;c>\n' in body


def test_data_settings_scores_and_warnings_are_said(tmp_path):
    text = card_text(config_of(EXTRA, tmp_path / "e"))
    for line in [
        "| nodes | 1,200 | 600 |",
        "| edges per node | 5.00 | 2.00 |",
        "| a\\|ge | number | mean 40.25, deviation 2, gaps marked |",
        "| ... | | 21 more are in config.json |",
        "| seed | 3 |",
        "| raw features |  |  |  |  |  |",
        "| LRGI after layer 1 | 0.7500 | 0.7000 | 0.0100 | 0.5000 | 9.0000 |",
        "- the loss must fall, got 3",
    ]:
        assert line in text.splitlines(), line
    assert "micro-F1 of a linear probe, inductive, mean over 3 seeds" in text


def test_what_is_not_known_is_not_said(tmp_path):
    for extra in ({}, {"note": 1, "graph": 3, "table": [], "plan": "x", "alarms": None, "encoding": {}}):
        text = card_text(config_of(extra, tmp_path / "e"))
        assert "None were measured." in text
        assert "model-index" not in text
        assert "alarm" not in text
    silent = card_text(config_of({"alarms": []}, tmp_path / "e"))
    assert "- The collapse alarm was silent during the fit." in silent


def test_a_card_may_be_added_to_and_not_contradict(tmp_path):
    config, card = config_of(EXTRA, tmp_path / "e"), tmp_path / "e" / CARD
    verify_encoder(tmp_path / "e")
    text = card.read_text()
    assert text == card_text(config)
    card.write_text(text.replace("license: unknown", "license: mit") + "\n## Thanks\n")
    verify_encoder(tmp_path / "e")
    assert missing_line(config, text.replace("| 0.7000 |", "| 0.9000 |")) == (
        "| LRGI after layer 1 | 0.7500 | 0.7000 | 0.0100 | 0.5000 | 9.0000 |"
    )
    card.write_text(text.replace("| seed | 3 |", "| seed | 4 |"))
    with pytest.raises(FormatError, match=r"README.md must say what config.json says, got no line '\| seed"):
        verify_encoder(tmp_path / "e")
    Encoder.load(tmp_path / "e")  # the model itself is whole
    card.unlink()
    with pytest.raises(FormatError, match=r"README.md must say what config.json says, got no line '---'"):
        verify_encoder(tmp_path / "e")
