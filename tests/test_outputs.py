"""Embeddings of chosen layers."""

import numpy as np
import pytest

from lrgi.errors import InputError
from lrgi.outputs import chosen_layers, embed_layers
from lrgi.training.fit import fit_encoder
from lrgi.training.plan import FitPlan
from reference.tiny import SMALL_PLAN, tiny_graph

GRAPH = tiny_graph()
ENCODER = fit_encoder(GRAPH, FitPlan(**SMALL_PLAN))


def test_choosing_layers():
    for given, numbers in [
        ("last", (3,)), ("all", (1, 2, 3)), ("2", (2,)), ("3,1", (3, 1)), (2, (2,)), ([1, 3], (1, 3)),
    ]:  # fmt: skip
        assert chosen_layers(given, 3) == numbers
    for given in ("", "first", "0", "4", "1,1", [], [0], 4):
        with pytest.raises(InputError, match="layers must be 'last', 'all' or different numbers from 1 to 3"):
            chosen_layers(given, 3)


@pytest.mark.parametrize("layers", ["all", "2,1"])
def test_layers_lie_side_by_side(layers):
    tables = [table.array for table in ENCODER.tables(GRAPH)]
    chosen = chosen_layers(layers, len(tables))
    np.testing.assert_array_equal(
        embed_layers(ENCODER, GRAPH, layers), np.concatenate([tables[n - 1] for n in chosen], axis=1)
    )
