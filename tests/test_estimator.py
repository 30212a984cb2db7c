"""LRGI in the manner of scikit-learn, and the names that `import lrgi` offers."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lrgi
from lrgi import LRGI, FitPlan, InputError, fit_encoder
from lrgi.interop.pyg import to_pyg
from reference.tiny import SMALL_PLAN, tiny_graph

GRAPH = tiny_graph()


def test_fit_and_transform():
    model = LRGI(**SMALL_PLAN)
    assert model.fit(GRAPH) is model
    expected = fit_encoder(GRAPH, FitPlan(**SMALL_PLAN)).embed(GRAPH).array
    np.testing.assert_array_equal(model.transform(GRAPH), expected)
    np.testing.assert_array_equal(LRGI(**SMALL_PLAN).fit_transform(GRAPH), expected)
    assert model.fit_on_ == "all"


def test_layers_side_by_side():
    model = LRGI(**SMALL_PLAN).fit(GRAPH)
    first, last = (table.array for table in model.encoder_.tables(GRAPH))
    np.testing.assert_array_equal(model.transform(GRAPH, layers=[2, 1]), np.hstack([last, first]))
    np.testing.assert_array_equal(model.transform(GRAPH, layers="all"), np.hstack([first, last]))
    np.testing.assert_array_equal(model.transform(GRAPH, layers=1), first)
    with pytest.raises(InputError, match=r"layers must be .* numbers from 1 to 2, got \[3\]"):
        model.transform(GRAPH, layers=[3])


def test_pyg_data_and_lists_of_it():
    data = to_pyg(GRAPH)
    np.testing.assert_allclose(
        LRGI(**SMALL_PLAN).fit_transform(data), LRGI(**SMALL_PLAN).fit_transform(GRAPH), atol=1e-5
    )
    assert LRGI(**SMALL_PLAN).fit([data, data]).transform(data).shape == (240, 8)
    with pytest.raises(InputError, match=r"a graph must be a Graph, a PyG Data .* got int"):
        LRGI(**SMALL_PLAN).fit(3)


def test_parameters():
    model = LRGI(width=64)
    assert model.get_params() == {**FitPlan(width=64).to_mapping(), "per_layer": ()}
    assert model.set_params(heads=2, layers=1).plan() == FitPlan(width=64, heads=2, layers=1)
    assert repr(model) == "LRGI(layers=1, width=64, heads=2)"
    assert LRGI(**model.get_params()).plan() == model.plan()
    with pytest.raises(InputError, match=r"a setting must be one of .*, got 'depth'"):
        model.set_params(depth=3)
    with pytest.raises(InputError, match="width must be divisible"):
        LRGI(width=30)


def test_it_must_be_fitted():
    with pytest.raises(InputError, match="an LRGI must be fitted before it embeds"):
        LRGI().transform(GRAPH)


def test_the_public_names():
    assert len(lrgi.__all__) <= 20
    assert sorted(lrgi.__all__) == dir(lrgi)
    for name in lrgi.__all__:
        assert getattr(lrgi, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = lrgi.nothing
    pyproject = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', pyproject, re.MULTILINE)[1] == lrgi.__version__


def test_importing_costs_nothing():
    code = "import sys, lrgi; assert not {'torch', 'numpy', 'numba'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
