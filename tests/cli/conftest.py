"""A tiny graph on disk and a run of it, made once, and a way to call the command."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrgi.cli.main import main
from lrgi.graph.store import save_graph
from reference.tiny import SMALL, npz_arrays, tiny_graph


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on stdout."""
        return json.loads(self.out)


@pytest.fixture
def lrgi(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Calls the command in this process."""

    def call(*words: object) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `graph`, `graph.npz`, `many.npz` (7 graphs), `run` and `held` (fitted on a part)."""
    folder = tmp_path_factory.mktemp("cli")
    graph = tiny_graph()
    save_graph(graph, folder / "graph")
    arrays = npz_arrays(graph)
    np.savez(folder / "graph.npz", **arrays)
    group = np.sort(np.arange(240) % 7)
    inside = group[arrays["edge_index"][0]] == group[arrays["edge_index"][1]]
    apart = arrays["edge_index"][:, inside]
    np.savez(folder / "many.npz", **{**arrays, "edge_index": apart, "graph_id": group})
    assert main(["fit", str(folder / "graph"), "--out", str(folder / "run"), "--quiet", *SMALL]) == 0
    held = ["--fit-on", "train", "--no-probe"]
    assert main(["fit", str(folder / "graph"), "--out", str(folder / "held"), "--quiet", *SMALL, *held]) == 0
    return folder
