"""Line charts as SVG and PNG: solid white below them, so that they are readable in print and on a dark page.

Colours are told apart by people who see few, lines also by dashes and markers. The same numbers give the
same SVG; the digest of what was drawn is in the file, so that a test can say that it is out of date.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from lrgi.errors import LRGIError

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
_SIZE = (4.2, 3.2)  # inches per panel
_TICKS = 8


@dataclass(frozen=True)
class Line:
    """Points, in order; `crosses` are places where there is no point, marked on the lower edge."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    crosses: tuple[float, ...] = ()
    style: int | None = None  # of colour, marker and dash; by default the line's number


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels beside each other; `notes` is a line below them."""

    title: str
    panels: tuple[Panel, ...] = field(default_factory=tuple)
    notes: str = ""

    @property
    def digest(self) -> str:
        """Of everything that is drawn."""
        text = json.dumps(asdict(self), sort_keys=True, default=list)
        return blake2b(text.encode(), digest_size=16).hexdigest()


def draw(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Write stem.svg and stem.png; returns both paths. LRGIError where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise LRGIError(
            "figures must be drawn with matplotlib, got a Python without it; pip install matplotlib"
        ) from error
    from matplotlib.figure import Figure as Canvas

    stem.parent.mkdir(parents=True, exist_ok=True)
    look = {"svg.hashsalt": "lrgi", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
            "grid.color": "#dddddd", "axes.axisbelow": True}  # fmt: skip
    paths = stem.with_suffix(".svg"), stem.with_suffix(".png")
    with matplotlib.rc_context(look):
        width, height = _SIZE
        canvas = Canvas(figsize=(width * len(figure.panels), height + 0.4), facecolor="white")
        for number, panel in enumerate(figure.panels):
            _draw_panel(canvas.add_subplot(1, len(figure.panels), number + 1), panel)
        canvas.suptitle(figure.title, fontsize=10)
        if figure.notes:
            canvas.text(0.5, 0.005, figure.notes, ha="center", va="bottom", fontsize=7, color="#444444")
        canvas.tight_layout(rect=(0, 0.04 if figure.notes else 0, 1, 1))
        canvas.savefig(paths[0], metadata={"Date": None, "Description": figure.digest})
        canvas.savefig(paths[1], dpi=160, metadata={"Description": figure.digest, "Software": None})
    return paths


def drawn_digest(path: Path) -> str | None:
    """The digest that an SVG of `draw` carries; None where there is none."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    _, _, rest = text.partition("<dc:description>")
    return rest.partition("</dc:description>")[0] or None


def _draw_panel(axes: Any, panel: Panel) -> None:
    for number, line in enumerate(panel.lines):
        style = number if line.style is None else line.style
        look = {"color": COLOURS[style % len(COLOURS)], "markersize": 4, "linewidth": 1.4}
        axes.plot(
            line.x, line.y, marker=MARKERS[style % len(MARKERS)], linestyle=DASHES[style % len(DASHES)],
            label=line.label, **look,
        )  # fmt: skip
        if line.crosses:
            low = [0.03 + 0.05 * (style % 4)] * len(line.crosses)
            axes.plot(
                line.crosses, low, transform=axes.get_xaxis_transform(), linestyle="none", marker="x",
                markersize=7, markeredgewidth=2, color=look["color"], clip_on=False,
            )  # fmt: skip
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    _tidy(axes, panel)
    if any(line.label for line in panel.lines):
        axes.legend(fontsize=7, framealpha=0.6, loc="best")


def _tidy(axes: Any, panel: Panel) -> None:
    """Ticks where points are, plain numbers, and room for the crosses below the lines."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    places = sorted({x for line in panel.lines for x in (*line.x, *line.crosses)})
    if not panel.log_x and 1 < len(places) <= _TICKS:
        axes.set_xticks(places)
    if any(line.crosses for line in panel.lines):
        low, high = axes.get_ylim()
        axes.set_ylim(low * (low / high) ** 0.3 if panel.log_y else low - 0.3 * (high - low), high)
    if panel.log_y and (values := [y for line in panel.lines for y in line.y]):
        few = max(values) < 100 * min(values)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(StrMethodFormatter("{x:,g}") if few else NullFormatter())
        axes.tick_params(axis="y", which="minor", labelsize=7)
