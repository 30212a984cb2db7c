"""The run directory: what is in it after a fit that ends, breaks off, or meets something else."""

import json
import platform

import numpy as np
import pytest

from lrgi.encoder import Encoder
from lrgi.errors import FormatError, InputError
from lrgi.graph.fingerprint import fingerprint
from lrgi.graph.graph import Graph
from lrgi.graph.inductive import training_subgraph
from lrgi.training.fit import fit_encoder
from lrgi.training.journal import Listener
from lrgi.training.plan import FitPlan
from lrgi.training.resolve import planned_steps, protocol_of, resolve_fit_on
from lrgi.training.run import (
    ENCODER,
    RECORD,
    fit_run,
    is_run_directory,
    open_run,
    read_record,
)
from lrgi.training.writer import STEPS
from reference.tiny import SMALL_PLAN, tiny_graph

GRAPH = tiny_graph()
PLAN = FitPlan(**SMALL_PLAN)


class Breaks(Listener):
    """Ends a fit in the middle of layer 2."""

    def __init__(self, error):
        self.error = error

    def step_taken(self, record):
        if record.place.layer == 2:
            raise self.error


def lines_of(path, name=STEPS):
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


def test_a_run_holds_everything_about_a_fit(tmp_path):
    run = fit_run(GRAPH, PLAN, tmp_path / "deep" / "run")
    names = sorted(p.name for p in run.path.iterdir())
    assert names[0] == ENCODER
    assert names[1].startswith("events.out.tfevents.")
    assert names[2:] == [RECORD, STEPS]
    record = read_record(run.path)
    assert FitPlan.from_mapping(record["plan"]) == PLAN
    assert (record["fit_on"], record["protocol"]) == ("all", "transductive")
    sizes = {"name": "planted-communities", "nodes": 240, "edges": 2400, "graphs": 1, "columns": 12}
    assert record["fitted_graph"] == sizes
    assert record["graph"] == {**sizes, "checksum": fingerprint(GRAPH)}
    assert record["versions"]["python"] == platform.python_version()
    assert set(record["versions"]) == {"lrgi", "torch", "numpy", "numba", "python"}
    assert record["hardware"]["cores"] >= 1
    assert [layer["steps"] for layer in record["layers"]] == list(planned_steps(PLAN, GRAPH))
    assert all(layer["fit_seconds"] > 0 for layer in record["layers"])
    assert record["layers"][0]["embed_seconds"] >= 0
    assert record["status"] == "finished"
    assert record["started"] <= record["finished"]


def test_a_run_records_every_step(tmp_path):
    run = fit_run(GRAPH, PLAN, tmp_path)
    steps = planned_steps(PLAN, GRAPH)
    lines = lines_of(tmp_path)
    assert [(line["layer"], line["step"]) for line in lines] == [
        (layer, step) for layer, count in enumerate(steps, 1) for step in range(1, count + 1)
    ]
    for line in lines:
        parts = [line[name] for name in ("reconstruction", "variance", "covariance")]
        assert line["loss"] == pytest.approx(np.dot(PLAN.weights, parts), rel=1e-5)
        assert line["nodes"] >= 100
        assert line["edges"] > 0
        assert line["learning_rate"] > 0
        assert line["seconds"] > 0
    assert (
        run.record["layers"][0]["fit_seconds"] >= sum(x["seconds"] for x in lines if x["layer"] == 1) * 0.99
    )


def test_the_encoder_of_a_run_is_the_fitted_one(tmp_path):
    fit_run(GRAPH, PLAN, tmp_path)
    expected = fit_encoder(GRAPH, PLAN).embed(GRAPH).array
    np.testing.assert_array_equal(open_run(tmp_path).encoder.embed(GRAPH).array, expected)
    assert Encoder.load(tmp_path / ENCODER).extra["fit_on"] == "all"


def test_tensorboard_reads_the_events(tmp_path):
    event_file_loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    fit_run(GRAPH, PLAN, tmp_path)
    (file,) = tmp_path.glob("events.out.tfevents.*")
    events = list(event_file_loader.RawEventFileLoader(str(file)).Load())
    assert len(events) == 1 + sum(planned_steps(PLAN, GRAPH))


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "interrupted"), (InputError("too bad"), "failed")]
)
def test_a_fit_that_breaks_off_says_so_and_leaves_no_encoder(tmp_path, error, status):
    with pytest.raises(type(error)):
        fit_run(GRAPH, PLAN, tmp_path, listeners=[Breaks(error)])
    record = read_record(tmp_path)
    assert record["status"] == status
    assert record.get("error") == (str(error) or None)
    assert len(record["layers"]) == 1
    assert len(lines_of(tmp_path, f"{STEPS}.part")) == planned_steps(PLAN, GRAPH)[0] + 1
    assert not (tmp_path / ENCODER).exists()
    with pytest.raises(FormatError, match=f"a run must be finished, got .*, which is '{status}'"):
        open_run(tmp_path)
    with pytest.raises(InputError, match="which holds an unfinished run with width 8; choose another path"):
        fit_run(GRAPH, PLAN.with_settings(width=12), tmp_path)
    assert fit_run(GRAPH, PLAN, tmp_path).record["status"] == "finished"


def test_overwriting_removes_what_a_run_wrote_and_nothing_else(tmp_path):
    fit_run(GRAPH, PLAN, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "table.txt").write_text("of the old run")
    with pytest.raises(
        InputError, match=r"got seed 1 for .*, which holds a finished run with seed 0; choose"
    ):
        fit_run(GRAPH, PLAN.with_settings(seed=1), tmp_path)
    assert (tmp_path / "table.txt").exists()
    fit_run(GRAPH, PLAN.with_settings(seed=1), tmp_path, overwrite=True)
    assert read_record(tmp_path)["plan"]["seed"] == 1
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "table.txt").exists()
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1


def test_a_place_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"the place for a run must be free, got .* something else"):
        fit_run(GRAPH, PLAN, tmp_path, overwrite=True)
    with pytest.raises(InputError, match="something else"):
        fit_run(GRAPH, PLAN, tmp_path / "notes.txt", overwrite=True)
    with pytest.raises(FormatError, match=r"a run must be a directory with a run.json"):
        open_run(tmp_path)
    assert not is_run_directory(tmp_path)


def test_a_newer_run_is_refused(tmp_path):
    (tmp_path / RECORD).write_text(json.dumps({"format": "lrgi-run", "version": 2}))
    with pytest.raises(FormatError, match="a run's version must be from 1 to 1, got 2"):
        open_run(tmp_path)


def many_graphs() -> Graph:
    edges = np.array([[0, 1, 3, 4, 6, 7], [1, 2, 4, 5, 7, 8]])
    x = np.arange(27, dtype=np.float32).reshape(9, 3)
    return Graph.from_edges(edges, x, offsets=[0, 3, 6, 9], split=np.repeat([1, 2, 3], 3))


def test_auto_holds_out_graphs_where_a_split_does():
    many = many_graphs()
    bare = Graph(many.indptr, many.indices, many.features, offsets=many.offsets)
    untrained = Graph(many.indptr, many.indices, many.features, split=[3] * 9, offsets=many.offsets)
    assert resolve_fit_on(FitPlan(), many) == "train"
    assert resolve_fit_on(FitPlan(), bare) == "all"
    assert resolve_fit_on(FitPlan(), untrained) == "all"
    assert resolve_fit_on(FitPlan(), GRAPH) == "all"  # one graph, though it has a split
    assert resolve_fit_on(FitPlan(fit_on="train+validation"), GRAPH) == "train+validation"
    assert [protocol_of(on) for on in ("all", "train", "train+validation")] == [
        "transductive",
        "inductive",
        "inductive",
    ]


def test_an_inductive_run_sees_the_training_subgraph(tmp_path):
    plan = PLAN.with_settings(fit_on="train")
    run = fit_run(GRAPH, plan, tmp_path)
    seen, _ = training_subgraph(GRAPH)
    assert (run.record["fit_on"], run.record["protocol"]) == ("train", "inductive")
    assert run.record["fitted_graph"]["nodes"] == seen.num_nodes < run.record["graph"]["nodes"]
    expected = fit_encoder(seen, plan).embed(GRAPH).array
    np.testing.assert_array_equal(run.encoder.embed(GRAPH).array, expected)
