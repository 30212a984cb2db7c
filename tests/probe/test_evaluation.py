"""Which rows a probe sees: views, protocols, splits; and the rows of the final table."""

from dataclasses import replace

import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.graph.features import DenseTable
from lrgi.probe.data import random_split
from lrgi.probe.evaluation import Views, probe_table
from lrgi.probe.linear import ProbePlan
from lrgi.report.comparison import Measure
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan
from reference.tiny import SMALL_PLAN, tiny_graph

GRAPH = tiny_graph()
PLAN = ProbePlan(epochs=100, learning_rate=0.1, evaluate_every=100, seeds=(0, 1))


def answers(flip=False):
    """A table from which a linear model reads the labels (or reads them wrongly)."""
    labels = (GRAPH.labels + 1) % 4 if flip else GRAPH.labels
    return DenseTable(np.eye(4, dtype=np.float32)[labels])


def test_transductive_rows_are_of_the_whole_graph():
    result = probe_table(Views.of(GRAPH, "all"), answers(), plan=PLAN)
    assert result.protocol == "transductive"
    assert result.test_mean == 1.0


def test_inductive_training_rows_are_of_the_training_subgraph():
    views = Views.of(GRAPH, "train")
    assert views.protocol == "inductive"
    seen = answers().take(views.seen_ids)
    assert probe_table(views, answers(), seen, PLAN).test_mean == 1.0
    assert probe_table(views, answers(flip=True), seen, PLAN).test_mean == 0.0
    with pytest.raises(InputError, match="must have a table of the training subgraph"):
        probe_table(views, answers(), plan=PLAN)


def test_validation_graphs_that_were_fitted_on_do_not_train_the_probe():
    views = Views.of(GRAPH, "train+validation")
    wrong = answers(flip=True).array[views.seen_ids]
    train = views.whole.split[views.seen_ids] == 1
    wrong[train] = answers().array[views.seen_ids[train]]
    assert probe_table(views, answers(), DenseTable(wrong), PLAN).test_mean == 1.0


def test_without_a_split_every_seed_draws_its_own():
    bare = replace(GRAPH, split=None)
    views = Views.of(bare, "all")
    assert views.splits.startswith("random 10/10/80 %")
    table = GRAPH.features
    both = probe_table(views, table, plan=PLAN)
    ones = [
        probe_table(
            Views.of(replace(GRAPH, split=random_split(GRAPH.labels, seed)), "all"),
            table,
            plan=replace(PLAN, seeds=(seed,)),
        )
        for seed in PLAN.seeds
    ]
    assert both.test_scores == tuple(one.test_scores[0] for one in ones)
    with pytest.raises(InputError, match="a graph for the inductive protocol must have a split"):
        Views.of(bare, "train")


def test_a_graph_without_labels_has_no_metric():
    bare = replace(GRAPH, labels=None)
    assert Views.of(bare, "all").metric is None
    with pytest.raises(InputError, match="must have labels to be probed"):
        probe_table(Views.of(replace(bare, split=None), "all"), answers())


@pytest.mark.parametrize("fit_on", ["all", "train"])
def test_rows_of_the_final_table(fit_on):
    plan = FitPlan(**SMALL_PLAN)
    told: list[str] = []
    views = Views.of(GRAPH, fit_on)
    measure = Measure(views, PLAN, tell=told.append)
    measure.add_features()
    measure.add_propagated(2)
    measure.add_untrained(plan)
    encoder = fit_encoder(GRAPH, plan)
    measure.add_layers(encoder, [10.0, 100.0])
    table = measure.comparison()
    names = [row.name for row in table.rows]
    assert names == told
    assert names[1:] == [
        "features propagated 2 times", "untrained encoder, 2 layers", "LRGI after layer 1",
        "LRGI after layer 2",
    ]  # fmt: skip
    assert table.protocol == views.protocol
    assert table.rows[0].seconds == 0
    assert 10 <= table.rows[3].seconds < 11
    assert 110 <= table.rows[4].seconds < 111
    *_, last = encoder.tables(GRAPH)
    seen = None if views.seen is None else encoder.embed(views.seen)
    assert table.rows[4].test_mean == probe_table(views, last, seen, PLAN).test_mean
    assert views.protocol in table.text()


def test_a_row_stands_though_it_cannot_be_probed():
    nothing_to_test = np.where(GRAPH.split == 3, 0, GRAPH.split)
    measure = Measure(Views.of(replace(GRAPH, split=nothing_to_test), "all"), PLAN)
    measure.add_features()
    table = measure.comparison()
    assert table.metric is None
    assert table.rows[0].test_mean is None
    assert table.rows[0].mad > 0
    assert "Nothing was probed: the test part must have at least one labelled row" in table.text()
