"""Experiments as data: a table is a folder of TOML files, and a cell is what they say of it together.

    TABLE/table.toml          title, rows, seeds, readouts, untrained; [plan] and [sources] for all cells;
                              [graphs.NAME] with title, protocol, split, features, published scores, plan
    TABLE/ROW.toml            method, title; [plan], [settings] of the method, [on.GRAPH.plan], remarks;
                              fresh = true: the plans of table and graph do not count; readouts of this row
    TABLE/GRAPH/ROW.toml      what one cell says for itself: plan, settings, sources, [paper], remarks

Later ones win: table, graph, row, row on this graph, cell. A [plan] has fields of FitPlan, [settings] those
of the method, [sources] says of each where its number comes from.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from lrgi.baselines.methods import method_called
from lrgi.errors import FormatError, InputError
from lrgi.graph.prepare import check_steps
from lrgi.training.plan import FitPlan

FOLDER = Path(__file__).parent
PROTOCOLS = ("transductive", "inductive")
SPLITS = ("own", "random", "by-graph")
_NOT_RESULT = ("device",)  # settings of a plan that do not decide the result
_FILES = {
    "table": {"title", "rows", "graphs", "plan", "sources", "seeds", "remarks", "readouts", "untrained"},
    "row": {"title", "method", "plan", "settings", "sources", "on", "remarks", "fresh", "readouts"},
    "cell": {"plan", "settings", "sources", "paper", "remarks"},
}


@dataclass(frozen=True)
class DataSet:
    """A graph of a table: how it is prepared, split and scored."""

    name: str  # of the graph directory or .npz file below --data
    title: str
    protocol: str
    split: str = "own"  # what the file says; random 10/10/80 by index; or whole graphs held out
    splits: int = 1  # random ones, numbered from 0; inductively a fit sees one of them, that of its seed
    shares: tuple[float, float] = (0.1, 0.1)  # of training and validation nodes in a random split
    fit_on: str = "train"  # inductively: "train" or "train+validation"
    features: tuple[str, ...] = ()  # steps of graph/prepare.py
    metrics: tuple[str, ...] = ()  # beside accuracy or micro-F1
    how: str = ""  # how to get the graph
    generated: Mapping[str, int] | None = None  # arguments of the demo's generator, in place of a file
    best: float | None = None  # published score, in percent, of the best self-supervised method

    def __post_init__(self) -> None:
        for name in ("shares", "features", "metrics"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for what, value, allowed in (("protocol", self.protocol, PROTOCOLS), ("split", self.split, SPLITS)):
            if value not in allowed:
                raise InputError(f"{what} must be one of {', '.join(allowed)}, got {value!r}; choose one")
        check_steps(self.features)


@dataclass(frozen=True)
class Paper:
    """A published score in percent, its spread if one is given, and where it stands."""

    score: float
    spread: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Cell:
    """A method on a graph, with every setting."""

    table: str
    row: str
    title: str
    method: str
    data: DataSet
    plan: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0, 1, 2)
    untrained: bool = False  # whether the encoder is probed too as the fit begins with it
    readouts: str = "main"  # "main": the last layer's u alone; "all": every view of every layer too
    sources: Mapping[str, str] = field(default_factory=dict)
    paper: Paper | None = None
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """GRAPH/ROW."""
        return f"{self.data.name}/{self.row}"

    def fit_plan(self, seed: int, device: str = "cpu") -> FitPlan:
        """Every setting of the fit; InputError for what no plan can be."""
        return FitPlan.from_mapping({**self.plan, "seed": seed, "device": device})

    def method_settings(self) -> dict[str, Any]:
        """Every setting of the method beside the plan's."""
        kind = method_called(self.method).settings
        return {} if kind is None else asdict(kind(**self.settings))

    def identity(self) -> dict[str, Any]:
        """Everything that decides the result but the seeds, as JSON: what a record stands for."""
        plan = {k: v for k, v in self.fit_plan(0).to_mapping().items() if k not in ("seed", *_NOT_RESULT)}
        data = {k: v for k, v in asdict(self.data).items() if k not in ("title", "how", "metrics", "best")}
        return {
            "method": self.method,
            "plan": plan,
            "settings": self.method_settings(),
            "data": {k: list(v) if isinstance(v, tuple) else v for k, v in data.items()},
            "readouts": self.readouts,
            "untrained": self.untrained,
        }


@dataclass(frozen=True)
class Table:
    """A table: its cells by row and graph."""

    name: str
    title: str
    rows: tuple[str, ...]
    graphs: tuple[DataSet, ...]
    cells: tuple[Cell, ...]
    remarks: tuple[str, ...] = ()

    @property
    def titles(self) -> dict[str, str]:
        """Of the rows."""
        return {cell.row: cell.title for cell in self.cells}

    def cell(self, graph: str, row: str) -> Cell:
        """The cell of a row on a graph."""
        return next(c for c in self.cells if (c.data.name, c.row) == (graph, row))

    def chosen(self, graphs: tuple[str, ...] = (), rows: tuple[str, ...] = ()) -> list[Cell]:
        """The cells of some graphs and rows; none named: of all. InputError for a name there is not."""
        names = tuple(graph.name for graph in self.graphs)
        for what, given, known in (("data set", graphs, names), ("method", rows, self.rows)):
            for name in given:
                if name not in known:
                    raise InputError(
                        f"a {what} of this table must be one of {', '.join(known)}, got {name!r}; choose one"
                    )
        graphs, rows = graphs or names, rows or self.rows
        return [cell for cell in self.cells if cell.data.name in graphs and cell.row in rows]


def difference(
    recorded: Mapping[str, Any], now: Mapping[str, Any], defaults: Mapping[str, Any]
) -> str | None:
    """The first setting that a record was made with otherwise, in words; None if they agree.

    A setting that is newer than the record counts as agreeing while it has its default.
    """
    for key, value in now.items():
        default = defaults.get(key)
        if isinstance(value, Mapping):
            inner = difference(recorded.get(key, {}), value, default if isinstance(default, Mapping) else {})
            if inner is not None:
                return f"{key}.{inner}" if "." not in key else inner
        elif key in recorded and recorded[key] != value:
            return f"{key} was {recorded[key]!r}, is {value!r}"
        elif key not in recorded and value != default:
            return f"{key} is new, and {value!r}"
    return None


def setting_defaults(cell: Cell) -> dict[str, Any]:
    """What settings count as where a record does not know them."""
    kind = method_called(cell.method).settings
    settings = {} if kind is None else {entry.name: entry.default for entry in fields(kind)}
    data = {entry.name: entry.default for entry in fields(DataSet)}
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in data.items()}
    plan = FitPlan().to_mapping() | {
        "inputs": "given"
    }  # as all features were taken before there was a choice
    return {"plan": plan, "settings": settings, "data": listed, "untrained": False}


@cache
def load_table(name: str, folder: Path = FOLDER) -> Table:
    """The table in a folder of this room; FormatError, with the file's name, for what cannot be."""
    place = folder / name
    whole = _read(place / "table.toml", "table")
    graphs = {key: dict(value) for key, value in whole.get("graphs", {}).items()}
    cells, sets = [], []
    for graph, about in graphs.items():
        own = {key: about.pop(key, {}) for key in ("plan", "sources", "published")}
        try:
            sets.append(DataSet(name=graph, best=own["published"].pop("best", None), **about))
        except (TypeError, InputError) as error:
            raise FormatError(f"{place / 'table.toml'}: graph {graph}: {error}") from error
        for row in whole["rows"]:
            cells.append(_cell(place, whole, row, sets[-1], own))
    rows = tuple(whole["rows"])
    return Table(name, whole["title"], rows, tuple(sets), tuple(cells), tuple(whole.get("remarks", ())))


def _cell(place: Path, whole: dict[str, Any], row: str, data: DataSet, graph: dict[str, Any]) -> Cell:
    about = _read(place / f"{row}.toml", "row")
    path = place / data.name / f"{row}.toml"
    own = _read(path, "cell") if path.exists() else {}
    here = about.get("on", {}).get(data.name, {})
    layers = (about, here, own) if about.get("fresh") else (whole, graph, about, here, own)
    merged: dict[str, dict[str, Any]] = {
        key: {k: v for layer in layers for k, v in layer.get(key, {}).items()}
        for key in ("plan", "settings", "sources")
    }
    try:
        cell = Cell(
            place.name, row, about["title"], about["method"], data, merged["plan"], merged["settings"],
            seeds=tuple(whole.get("seeds", (0, 1, 2))),
            readouts=about.get("readouts", whole.get("readouts", "main")),
            untrained=whole.get("untrained", False),
            sources=merged["sources"],
            paper=_paper(own.get("paper"), graph["published"], row),
            remarks=(*about.get("remarks", ()), *here.get("remarks", ()), *own.get("remarks", ())),
        )  # fmt: skip
        cell.fit_plan(0)
        cell.method_settings()
    except (KeyError, TypeError, InputError) as error:
        raise FormatError(f"{path if own else place / f'{row}.toml'}: on {data.name}: {error}") from error
    return cell


def _paper(own: dict[str, Any] | None, published: Mapping[str, Any], row: str) -> Paper | None:
    if own is not None:
        return Paper(**own)
    given = published.get(row)
    if given is None:
        return None
    score, spread = given if isinstance(given, list) else (given, None)
    return Paper(float(score), spread, str(published.get("source", "")))


def _read(path: Path, kind: str) -> dict[str, Any]:
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: an experiment must be a TOML file, got {error}; correct it") from error
    unknown = sorted(set(given) - _FILES[kind])
    if unknown:
        raise FormatError(
            f"{path}: keys of a {kind} must be among {', '.join(sorted(_FILES[kind]))}, got {unknown[0]!r}; "
            "correct the name"
        )
    return given
