"""Generated parts of a documentation page: between <!-- NAME --> and <!-- end of NAME -->."""

from __future__ import annotations

import re
from pathlib import Path

from lrgi.errors import FormatError, InputError
from lrgi.experiments.registry import REPRODUCTIONS, reproduction


def all_blocks(results: Path, page: str = "results.md") -> dict[str, str]:
    """The text of every block of a page of docs/ that some experiment makes of its records."""
    known = sorted({entry.page for entry in REPRODUCTIONS.values()})
    if page not in known:
        raise InputError(f"the page must be called one of {', '.join(known)}, got {page}; name one of those")
    blocks: dict[str, str] = {}
    for name, entry in REPRODUCTIONS.items():
        if entry.page == page:
            blocks |= reproduction(name).blocks(results)
    return blocks


def with_blocks(page: str, blocks: dict[str, str]) -> str:
    """The page with the text of each block in its place; a block without a place on the page is refused."""
    for name, text in blocks.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise FormatError(
                f"the page must hold the lines {begin} and {end} once, got {len(pattern.findall(page))} such "
                "places; add them where the table belongs"
            )
        before, after = page.split(begin)[0], page.split(end)[1]
        page = f"{before}{begin}\n{text.strip()}\n{end}{after}"
    return page
