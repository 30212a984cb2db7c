"""Tables for people: plain text with aligned numbers, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A title and how many digits its numbers show; text is left-aligned, numbers right-aligned."""

    title: str
    digits: int = 0
    text: bool = False

    def show(self, cell: Cell) -> str:
        """A cell in words; None is a dash."""
        if cell is None:
            return "-"
        if isinstance(cell, str):
            return cell
        return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.{self.digits}f}"


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    """Lines of aligned columns below their titles and a rule."""
    shown = _shown(columns, rows)
    widths = [max(len(row[i]) for row in shown) for i in range(len(columns))]
    lines = [
        "  ".join(_pad(cell, width, column) for cell, width, column in zip(row, widths, columns, strict=True))
        for row in shown
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def markdown_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    """The same as a Markdown table."""
    head, *body = _shown(columns, rows)
    rule = [":---" if column.text else "---:" for column in columns]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *body))


def latex_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> str:
    """The same as a LaTeX tabular with booktabs' rules."""
    head, *body = [[_latex(cell) for cell in row] for row in _shown(columns, rows)]
    spec = "".join("l" if column.text else "r" for column in columns)
    lines = [" & ".join(row) + r" \\" for row in (head, *body)]
    return "\n".join(
        [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule",
         r"\end{tabular}"]
    )  # fmt: skip


def _latex(text: str) -> str:
    for character in "&%_#":
        text = text.replace(character, "\\" + character)
    return text.replace("±", r"$\pm$")


def pairs(values: Sequence[tuple[str, str]], indent: int = 2) -> str:
    """Lines of names and values, the values below each other."""
    width = max(len(name) for name, _ in values)
    return "\n".join(f"{' ' * indent}{name:<{width}}  {value}".rstrip() for name, value in values)


def _shown(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    cells = [[column.show(cell) for column, cell in zip(columns, row, strict=True)] for row in rows]
    return [[column.title for column in columns], *cells]


def _pad(cell: str, width: int, column: Column) -> str:
    return cell.ljust(width) if column.text else cell.rjust(width)
