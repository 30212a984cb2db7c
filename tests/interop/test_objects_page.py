"""What docs/objects.md shows runs, and the functions that it names are there."""

import re
from importlib import import_module
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "objects.md").read_text()


def test_its_code_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/objects.md", "exec"), {})


def test_its_functions_are_there():
    names = set(re.findall(r"`(lrgi\.[\w.]+)`", PAGE))
    assert len(names) >= 10
    for name in names:
        module, _, last = name.rpartition(".")
        owner = import_module(module) if module != "lrgi.Graph" else import_module("lrgi").Graph
        assert hasattr(owner, last), name
