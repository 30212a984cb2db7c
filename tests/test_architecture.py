"""The house rules of ARCHITECTURE.md and CONTRIBUTING.md, as tests: each names file, line and rule.

A checker takes one parsed file of src/lrgi and yields what offends; `OFFENCES` at the end shows that
every rule can fail, `INNOCENT` that it does not fail on its neighbours.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "lrgi"

FILE_LINES, FUNCTION_LINES, PARAMETERS, KERNEL_PARAMETERS = 400, 60, 6, 8
SHELVES = {"utils", "util", "misc", "base", "common", "helpers", "helper"}
FOREIGN = {
    "torch_geometric", "networkx", "pyarrow", "duckdb", "scipy", "dgl", "pandas", "polars", "ogb", "h5py",
    "igraph", "sklearn", "tensorboard", "usearch", "yaml",
}  # fmt: skip
FOREIGN_ALLOWED = {"layers/pyg.py": "wraps a PyG convolution, so it is PyG's layer and not PyG's format"}
LABEL_READERS = ("graph/", "probe/", "interop/", "cli/", "experiments/", "baselines/supervised.py")
SEEDED = {"Generator", "BitGenerator", "Philox", "PCG64", "PCG64DXSM", "SFC64", "SeedSequence", "default_rng"}
TORCH_DRAWS = {
    "rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson", "rand_like",
    "randn_like", "randint_like",
}  # fmt: skip
IN_PLACE_DRAWS = {
    "uniform_", "normal_", "random_", "exponential_", "bernoulli_", "cauchy_", "geometric_", "log_normal_",
    "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_",
    "trunc_normal_",
}  # fmt: skip
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
Offence = tuple[int, str]


def import_order() -> dict[str, int]:
    """Height of each room, read from the line of ARCHITECTURE.md that a person reads; 0 is the bottom."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    lines = [line.strip("`") for line in text.splitlines() if re.fullmatch(r"`[^`]+ > [^`]+`", line)]
    assert len(lines) == 1, "ARCHITECTURE.md must hold exactly one line `room > room > ...`"
    levels = [[room.strip() for room in level.split(",")] for level in reversed(lines[0].split(">"))]
    return {room: height for height, level in enumerate(levels) for room in level}


@dataclass(frozen=True)
class Source:
    """One file: its path relative to src/lrgi and its text."""

    path: str
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))

    @property
    def room(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def is_top(self) -> bool:
        """The package's own `__init__` stands above every room, `python -m lrgi` is the command line."""
        return self.path in ("__init__.py", "__main__.py")

    @cached_property
    def imports(self) -> list[tuple[int, str, str]]:
        """(line, local name, dotted name) of everything imported anywhere in the file."""
        package = ["lrgi", *self.path.split("/")[:-1]]
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(node.lineno, a.asname or a.name.split(".")[0], a.name) for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = package[: len(package) - node.level + 1] if node.level else []
                base = ".".join([*start, *([node.module] if node.module else [])])
                found += [(node.lineno, a.asname or a.name, f"{base}.{a.name}") for a in node.names]
            elif isinstance(node, ast.Call) and self._last_name(node.func) in ("import_module", "__import__"):
                for arg in node.args[:1]:
                    if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                        found.append((node.lineno, "", arg.value))
        return found

    @cached_property
    def _aliases(self) -> dict[str, str]:
        bound = [(local, dotted) for _, local, dotted in self.imports if local]
        return {local: local if dotted.startswith(f"{local}.") else dotted for local, dotted in bound}

    @staticmethod
    def _last_name(node: ast.AST) -> str:
        return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""

    def dotted(self, node: ast.AST) -> str:
        """The full name behind `np.random.rand`, whatever it was imported as; "" if it is no plain name."""
        if isinstance(node, ast.Name):
            return self._aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    @cached_property
    def names(self) -> list[tuple[int, str]]:
        """(line, full name) of every name and attribute used."""
        used = [n for n in self.nodes if isinstance(n, (ast.Name, ast.Attribute))]
        return [(n.lineno, dotted) for n in used if (dotted := self.dotted(n))]

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [n for n in self.nodes if isinstance(n, ast.Call)]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [n for n in self.nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def imports_go_down(source: Source) -> Iterator[Offence]:
    if source.is_top:
        return
    order = import_order()
    if source.room not in order:
        yield 1, f"room '{source.room}' must be named in the import order of ARCHITECTURE.md"
        return
    for line, _, dotted in source.imports:
        parts = dotted.split(".")
        if parts[0] != "lrgi" or parts[1:] == ["__version__"]:
            continue
        room = parts[1] if len(parts) > 1 else ""
        if room not in order:
            yield line, f"'{source.room}' must import a room of ARCHITECTURE.md, not '{dotted}'"
        elif room != source.room and order[room] > order[source.room]:
            yield line, f"imports go down only: '{source.room}' must not import '{room}'"


def files_are_short(source: Source) -> Iterator[Offence]:
    lines = len(source.text.splitlines())
    if lines > FILE_LINES:
        yield lines, f"a file stops at {FILE_LINES} lines, got {lines}"


def functions_are_short(source: Source) -> Iterator[Offence]:
    for function in source.functions:
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES:
            yield function.lineno, f"a function stops at {FUNCTION_LINES} lines, {function.name} has {lines}"


def is_kernel(path: str) -> bool:
    return re.fullmatch(r"_\w*kernels\.py", path.split("/")[-1]) is not None


def parameters_are_few(source: Source) -> Iterator[Offence]:
    most = KERNEL_PARAMETERS if is_kernel(source.path) else PARAMETERS
    for function in source.functions:
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"], ["ctx"]))
        if count > most:
            what = f"at most {most} positional parameters, {function.name} has {count}"
            yield function.lineno, f"{what}; make the rest keyword-only"


def no_shelves(source: Source) -> Iterator[Offence]:
    for part in source.path.removesuffix(".py").split("/"):
        if part.strip("_") in SHELVES:
            yield 1, f"no room is called '{part}': name it after what it owns"


def numba_in_kernels(source: Source) -> Iterator[Offence]:
    if is_kernel(source.path) or source.room == "compute":
        return
    for line, _, dotted in source.imports:
        if dotted.split(".")[0] in ("numba", "llvmlite"):
            yield line, "numba is imported only in _*kernels.py and compute/"


def foreign_formats_in_interop(source: Source) -> Iterator[Offence]:
    if source.room == "interop" or source.path in FOREIGN_ALLOWED:
        return
    for line, _, dotted in source.imports:
        if dotted.split(".")[0] in FOREIGN:
            yield line, f"'{dotted.split('.')[0]}' is imported only in interop/"


def only_cli_talks(source: Source) -> Iterator[Offence]:
    if source.room == "cli" or source.path == "__main__.py":
        return
    mouths = {
        "print",
        "input",
        "exit",
        "quit",
        "SystemExit",
        "sys.exit",
        "sys.argv",
        "sys.stdout",
        "sys.stderr",
    }
    surroundings = {"os.environ", "os.getenv", "os.putenv", "os._exit"}
    for line, name in source.names:
        if name in mouths | surroundings:
            yield line, f"'{name}' belongs to cli/: only it prints, exits and reads the environment"


def labels_stay_in_probe(source: Source) -> Iterator[Offence]:
    if source.path.startswith(LABEL_READERS):
        return
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "labels":
            yield (
                node.lineno,
                "'.labels' is read only by probe/ (and stored by graph/): a fit must not see it",
            )
    for call in source.calls:
        if source.dotted(call.func) == "getattr" and any(
            isinstance(a, ast.Constant) and a.value == "labels" for a in call.args
        ):
            yield call.lineno, "'labels' is read only by probe/ (and stored by graph/): a fit must not see it"


def randomness_is_seeded(source: Source) -> Iterator[Offence]:
    rule = "randomness comes from lrgi.seed"
    for line, _, dotted in source.imports:
        if dotted.split(".")[0] in ("random", "secrets"):
            yield line, f"{rule}, not from '{dotted}'"
    for line, name in source.names:
        if name.startswith("numpy.random.") and name.split(".")[2] not in SEEDED:
            yield line, f"{rule}, not from the global '{name}'"
        if name in ("torch.manual_seed", "torch.seed", "torch.random.manual_seed", "torch.cuda.manual_seed"):
            yield line, f"{rule}, not from the global '{name}'"
    for call in source.calls:
        name, keywords = source.dotted(call.func), {k.arg for k in call.keywords}
        if name == "numpy.random.default_rng" and not call.args and not keywords:
            yield call.lineno, f"{rule}: default_rng needs a seed"
        draws = name.startswith("torch.") and name.removeprefix("torch.") in TORCH_DRAWS
        in_place = isinstance(call.func, ast.Attribute) and call.func.attr in IN_PLACE_DRAWS
        if (draws or in_place) and "generator" not in keywords:
            yield call.lineno, f"{rule}: '{ast.unparse(call.func)}' needs generator="


def nothing_is_pickled(source: Source) -> Iterator[Offence]:
    for line, _, dotted in source.imports:
        if dotted.split(".")[0] in PICKLES:
            yield line, f"nothing is pickled: '{dotted}'"
    for line, name in source.names:
        if name in ("torch.save", "torch.load", "torch.serialization.load", "torch.serialization.save"):
            yield line, f"nothing is pickled: '{name}'"
    for call in source.calls:
        for k in call.keywords:
            if k.arg == "allow_pickle" and not (isinstance(k.value, ast.Constant) and k.value.value is False):
                yield call.lineno, "nothing is pickled: allow_pickle must be False"


def nothing_is_left_to_do(source: Source) -> Iterator[Offence]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.search(r"\b(TODO|FIXME|NotImplementedError)\b", line):
            yield number, "nothing half-done on main: finish it or write an issue"


Checker = Callable[[Source], Iterator[Offence]]
RULES: list[Checker] = [
    imports_go_down,
    files_are_short,
    functions_are_short,
    parameters_are_few,
    no_shelves,
    numba_in_kernels,
    foreign_formats_in_interop,
    only_cli_talks,
    labels_stay_in_probe,
    randomness_is_seeded,
    nothing_is_pickled,
    nothing_is_left_to_do,
]


def sources(folder: Path = PACKAGE) -> list[Source]:
    return [Source(p.relative_to(folder).as_posix(), p.read_text()) for p in sorted(folder.rglob("*.py"))]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule: Checker) -> None:
    offences = [f"src/lrgi/{s.path}:{line}: {what}" for s in sources() for line, what in rule(s)]
    assert not offences, "\n" + "\n".join(offences)


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_nothing_is_left_to_do_elsewhere(folder: str) -> None:
    others = [s for s in sources(ROOT / folder) if s.path != "test_architecture.py"]
    offences = [
        f"{folder}/{s.path}:{line}: {what}" for s in others for line, what in nothing_is_left_to_do(s)
    ]
    assert not offences, "\n" + "\n".join(offences)


def test_every_room_of_the_order_is_read() -> None:
    order = import_order()
    assert order["cli"] == max(order.values())
    assert order["seed"] == order["errors"] == 0
    assert order["training"] > order["layers"] > order["graph"]


def test_importing_the_package_is_cheap() -> None:
    """`lrgi --help` and tab completion must not wait for torch."""
    heavy = ["torch", "numba", "scipy", "torch_geometric"]
    code = f"import lrgi, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", f"`import lrgi` must import nothing heavy, got {done.stdout.strip()}"


LONG_FUNCTION = "def f():\n" + "    pass\n" * 60
OFFENCES: list[tuple[Checker, str, str]] = [
    (imports_go_down, "graph/a.py", "import lrgi.training.fit"),
    (imports_go_down, "graph/a.py", "from lrgi.training import fit"),
    (imports_go_down, "graph/a.py", "from ..training.fit import fit_layer"),
    (imports_go_down, "graph/a.py", "from .. import probe"),
    (imports_go_down, "encoder.py", "from .training import fit"),
    (imports_go_down, "errors.py", "def f():\n    from lrgi import graph"),
    (imports_go_down, "graph/a.py", "import importlib\nimportlib.import_module('lrgi.cli')"),
    (imports_go_down, "graph/a.py", "import lrgi"),
    (imports_go_down, "cellar/a.py", ""),
    (files_are_short, "graph/a.py", "a = 1\n" * 401),
    (functions_are_short, "graph/a.py", LONG_FUNCTION),
    (
        functions_are_short,
        "graph/a.py",
        "class A:\n" + "".join(f" {x}\n" for x in LONG_FUNCTION.splitlines()),
    ),
    (parameters_are_few, "graph/a.py", "def f(a, b, c, d, e, f, g): ..."),
    (parameters_are_few, "graph/_kernels.py", "def f(a, b, c, d, e, f, g, h, i): ..."),
    (no_shelves, "utils.py", ""),
    (no_shelves, "graph/_helpers.py", ""),
    (no_shelves, "common/a.py", ""),
    (numba_in_kernels, "graph/graph.py", "from numba import njit"),
    (foreign_formats_in_interop, "graph/a.py", "def f():\n    import torch_geometric.data"),
    (foreign_formats_in_interop, "probe/a.py", "from scipy import stats"),
    (only_cli_talks, "training/a.py", "print(1)"),
    (only_cli_talks, "training/a.py", "import sys\nsys.exit(1)"),
    (only_cli_talks, "training/a.py", "from os import environ as e\ne['A'] = '1'"),
    (labels_stay_in_probe, "training/a.py", "x = graph.labels"),
    (labels_stay_in_probe, "baselines/dgi.py", "getattr(graph, 'labels')"),
    (randomness_is_seeded, "graph/a.py", "import numpy as np\nnp.random.rand(3)"),
    (randomness_is_seeded, "graph/a.py", "from numpy import random as r\nr.seed(3)"),
    (randomness_is_seeded, "graph/a.py", "import numpy as np\nnp.random.default_rng()"),
    (randomness_is_seeded, "graph/a.py", "import random"),
    (randomness_is_seeded, "graph/a.py", "import torch\ntorch.manual_seed(0)"),
    (randomness_is_seeded, "graph/a.py", "import torch as t\nt.randn(3)"),
    (randomness_is_seeded, "layers/a.py", "nn.init.xavier_uniform_(w)"),
    (nothing_is_pickled, "encoder.py", "from torch import save\nsave(x, 'a')"),
    (nothing_is_pickled, "encoder.py", "import pickle"),
    (nothing_is_pickled, "encoder.py", "import numpy as np\nnp.load('a', allow_pickle=True)"),
    (nothing_is_left_to_do, "encoder.py", "# TODO"),
    (nothing_is_left_to_do, "encoder.py", "raise NotImplementedError"),
]
INNOCENT: list[tuple[Checker, str, str]] = [
    (imports_go_down, "training/fit.py", "from lrgi.graph import Graph\nfrom . import plan\nimport torch"),
    (imports_go_down, "seed.py", "from lrgi.errors import InputError"),
    (imports_go_down, "cli/main.py", "from lrgi import __version__"),
    (imports_go_down, "__init__.py", "from lrgi.cli import main"),
    (parameters_are_few, "graph/a.py", "def f(self, a, b, c, d, e, f, *, g, h): ..."),
    (no_shelves, "graph/baseline.py", ""),
    (numba_in_kernels, "layers/_gat_kernels.py", "import numba"),
    (foreign_formats_in_interop, "interop/pyg.py", "import torch_geometric"),
    (only_cli_talks, "cli/main.py", "import os\nprint(os.environ)"),
    (labels_stay_in_probe, "probe/linear.py", "x = graph.labels"),
    (labels_stay_in_probe, "baselines/supervised.py", "x = graph.labels"),
    (
        randomness_is_seeded,
        "graph/a.py",
        "import numpy as np\nnp.random.default_rng(3)\nnp.random.Philox(key=1)",
    ),
    (
        randomness_is_seeded,
        "graph/a.py",
        "import torch\ntorch.randn(3, generator=g)\nw.uniform_(0, 1, generator=g)",
    ),
    (nothing_is_pickled, "graph/a.py", "import numpy as np\nnp.load('a', allow_pickle=False)"),
]


@pytest.mark.parametrize(("rule", "path", "text"), OFFENCES)
def test_a_rule_can_fail(rule: Checker, path: str, text: str) -> None:
    assert list(rule(Source(path, text)))


@pytest.mark.parametrize(("rule", "path", "text"), INNOCENT)
def test_a_rule_spares_the_innocent(rule: Checker, path: str, text: str) -> None:
    assert not list(rule(Source(path, text)))


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, _, _ in OFFENCES} == set(RULES)
