"""What `lrgi reproduce` can make, by name. To add a table or a figure:

1. Write a module of this room with
     reproduce(request: Request) -> Outcome      run what can run, write records, say what is missing
     blocks(results: Path) -> dict[str, str]     Markdown for docs/results.md, from records alone; may be {}
2. Name it in REPRODUCTIONS.

`reproduce` leaves one RunRecord per cell or point in `request.results` (report/record.py: `save_record`), and
skips what is on record with the same settings unless `request.again`. `blocks` puts its text between the
lines <!-- NAME --> and <!-- end of NAME --> of docs/results.md; `make tables` writes them, and
tests/experiments/test_pages.py fails while page and records disagree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from lrgi.errors import InputError


class Reproduction(NamedTuple):
    """A line of `lrgi reproduce --list`, and the module of this room that makes it."""

    summary: str
    module: str
    page: str = "results.md"  # of docs/, that its blocks are on


REPRODUCTIONS: dict[str, Reproduction] = {
    "table:results": Reproduction(
        "the paper's table of results: seven methods on PPI, Reddit and ogbn-products", "paper_table"
    ),
    "table:demo": Reproduction(
        "every method beside its own untrained encoder, on the demo's graph at a quarter of its size",
        "demo_table",
    ),
    "table:real-graphs": Reproduction(
        "all methods on eight small real graphs, with published scores beside ours", "real_graphs"
    ),
    "table:complexity": Reproduction(
        "the paper's table of complexities: batches and 100 epochs of DGI, G-BT, RGI and LRGI",
        "table_complexity",
        "scale.md",
    ),
    "table:batch": Reproduction(
        "the paper's table of batches: B 512 and 2048, sampled and whole neighbourhoods",
        "table_batch",
        "scale.md",
    ),
    "figure:depth-width": Reproduction(
        "the paper's figure of depth and width: scores and memory of RGI and LRGI",
        "figure_depth_width",
        "scale.md",
    ),
    "figure:oversmoothing": Reproduction(
        "the paper's figure of oversmoothing: MAD of every layer of RGI and LRGI",
        "figure_oversmoothing",
        "scale.md",
    ),
    "table:reliability": Reproduction(
        "kills, faults, damages and inputs survived (made by `make torture` and `make fuzz`)",
        "reliability",
        "reliability.md",
    ),
}


@dataclass(frozen=True)
class Request:
    """What a caller of `lrgi reproduce` asks for. Empty choices mean all."""

    data: Path = Path("data")
    results: Path = Path("results")
    data_sets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()  # empty: the experiment's own
    budget_minutes: float | None = None
    device: str = "cpu"
    jobs: int = 1
    again: bool = False
    command: str = "lrgi reproduce"
    tell: Callable[[str], None] = field(default=lambda line: None)  # a line of progress


@dataclass(frozen=True)
class Outcome:
    """What came of it: the table in words, the same as JSON, and what is missing with its reason."""

    text: str
    json: dict[str, Any]
    missing: dict[str, str] = field(default_factory=dict)


def reproduction(name: str) -> Any:
    """The module that makes the experiment of that name; InputError where there is none."""
    if name not in REPRODUCTIONS:
        raise InputError(
            f"an experiment must be one of {', '.join(REPRODUCTIONS)}, got {name!r}; "
            "see `lrgi reproduce --list`"
        )
    return import_module(f"lrgi.experiments.{REPRODUCTIONS[name].module}")
