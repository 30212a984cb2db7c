"""Figures beside their records: where they lie, and how a page shows them."""

from __future__ import annotations

from lrgi.errors import LRGIError
from lrgi.experiments.registry import Request
from lrgi.experiments.render import Grid, details
from lrgi.report.figures import Figure, draw

FOLDER = "figures"  # beside the folder of records, and in docs/


def keep_figure(figure: Figure, name: str, request: Request) -> str:
    """Draw into RESULTS/figures; says where, or why not."""
    try:
        svg, png = draw(figure, request.results / FOLDER / name)
    except LRGIError as error:
        return f"No figure: {error}."
    return f"Figure: {svg}, {png.name}"


def figure_block(figure: Figure, name: str, grid: Grid, how: str) -> str:
    """The figure with its numbers; the digest says which drawing belongs to these numbers."""
    image = f"![{figure.title}](../results/{FOLDER}/{name}.svg)"
    parts = (
        f"{image}\n<!-- drawn from {figure.digest} -->", how, grid.markdown(),
        details("As LaTeX", grid.latex(), "latex"),
    )  # fmt: skip
    return "\n\n".join(parts)
