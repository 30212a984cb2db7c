"""`lrgi plan --processes`: what several would send, and where their data should lie."""

from lrgi.graph.store import open_graph
from lrgi.training.plan import FitPlan
from lrgi.training.traffic import step_traffic
from reference.tiny import SMALL


def test_a_plan_for_several_processes(lrgi, place):
    settings = [word for word in SMALL if word != "--no-probe"]
    answer = lrgi("plan", place / "graph", "--processes", 3, *settings)
    assert answer.code == 0
    assert "By 3 processes:" in answer.out
    assert "of the nodes, much of the graph however it is cut" in answer.out  # a small world
    assert (
        f"torchrun --nproc-per-node=3 -m lrgi fit {place / 'graph'} --out RUN --placement whole" in answer.out
    )
    found = lrgi("plan", place / "graph", "--processes", 3, *settings, "--json").json
    assert found["placement"]["best"] == "whole"
    assert 0.5 < found["placement"]["share_of_nodes"] <= 1
    width, columns = int(settings[settings.index("--width") + 1]), open_graph(place / "graph").num_features
    plan = FitPlan(width=width)
    assert found["sent_bytes"] == max(step_traffic(plan, d, 1, 3).total for d in (columns, width))
    nodes = open_graph(place / "graph").num_nodes
    answer = lrgi("plan", place / "graph", "--processes", nodes + 1, *settings)
    assert f"--processes must be at most the number of nodes, {nodes}, got {nodes + 1}" in answer.err
