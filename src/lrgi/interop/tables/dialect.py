"""How a text table is written: its delimiter, its header, what comes before it. Judged by its beginning."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lrgi.errors import FormatError

NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"

_SAMPLE = 1 << 18  # bytes
_ROWS = 100
_TITLES = 5  # lines above the header that are looked at
_DELIMITERS = (",", ";", "\t", "|", " ")
_IS_NUMBER = re.compile(NUMBER)


@dataclass(frozen=True)
class Dialect:
    """What a reader must be told of a text table."""

    delimiter: str
    encoding: str
    skip: int  # lines before the header, or before the first row
    header: bool
    names: tuple[str, ...]


def dialect_of(
    path: Path,
    *,
    delimiter: str = "",
    encoding: str = "",
    header: str = "auto",
    known: Collection[str] = (),
) -> Dialect:
    """The dialect of a CSV or TSV file, gzipped or not; what is given is not guessed.

    `known` are names (in lower case) that make a first row a header. Without such a name a first row is
    a header when its cells are all there, all different, and none of them is a number.
    """
    raw = _beginning(path)
    encoding = encoding or _encoding(raw)
    text = _decoded(raw, encoding, path)
    if "\r" in text and "\n" not in text:
        raise FormatError(
            f"lines of a CSV must end as on Unix or Windows, got those of old Macs in {path}; save it as "
            "'CSV UTF-8'"
        )
    lines = text.splitlines(keepends=True)
    skip = 0
    if lines and (named := re.fullmatch(r"sep=(.)", lines[0].strip("\r\n"))):  # Excel's own
        delimiter, skip = delimiter or named[1], 1
    while skip < len(lines) and (lines[skip].startswith("#") or not lines[skip].strip()):
        skip += 1
    rest = "".join(lines[skip:])
    if not rest.strip():
        raise FormatError(f"a table must have at least one row, got {path}, which has none; check the file")
    if not delimiter:
        tabs = any(suffix in (".tsv", ".tab") for suffix in path.suffixes)
        delimiter = "\t" if tabs else max(_DELIMITERS, key=lambda d: _consistency(rest, d))
    if header == "auto" and (titles := _titles(lines[skip:], delimiter, known)):
        skip += titles
        rest = "".join(lines[skip:])
    first = [cell.strip(" ") for cell in _rows(rest, delimiter)[0]]
    has_header = header == "yes" or (header == "auto" and _is_header(first, known))
    return Dialect(delimiter, encoding, skip, has_header, _names(first, has_header))


def _beginning(path: Path) -> bytes:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            raw: bytes = file.read(_SAMPLE)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise FormatError(f"a file ending in .gz must be gzipped, got {path}; compress it again") from None
    if len(raw) == _SAMPLE:  # the last line is cut off
        raw = raw[: raw.rfind(b"\n") + 1] or raw
    return raw


def _encoding(raw: bytes) -> str:
    return "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _decoded(raw: bytes, encoding: str, path: Path) -> str:
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        return codecs.getincrementaldecoder(name)().decode(raw)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FormatError(
            f"a CSV must be text in UTF-8, got other bytes in line {line:,} of {path}; save it as UTF-8 (in "
            "a spreadsheet program: 'CSV UTF-8'), or name what it is with --encoding latin-1"
        ) from None
    except LookupError:
        raise FormatError(
            f"an encoding must be utf-8, utf-16 or latin-1, got {encoding!r}; choose one"
        ) from None


def _rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) == _ROWS:
                break
    except csv.Error:  # a cell longer than Python's reader takes; DuckDB judges it
        pass
    return rows or [[""]]


def _consistency(text: str, delimiter: str) -> tuple[bool, float, int, int]:
    """How well a delimiter cuts rows alike: more than one cell, share of rows like the first, cells."""
    rows = _rows(text, delimiter)
    width = len(rows[0])
    alike = sum(len(row) == width for row in rows) / len(rows)
    # A space is the last resort; among equals the order of _DELIMITERS decides.
    return width > 1, round(alike, 1), width if delimiter != " " else 0, -_DELIMITERS.index(delimiter)


def _titles(lines: list[str], delimiter: str, known: Collection[str]) -> int:
    """Lines before the header in which at most one cell says something, such as the title of a sheet."""
    for at, line in enumerate(lines[:_TITLES]):
        cells = [cell.strip(' "\r\n').lower() for cell in line.split(delimiter)]
        if sum(map(bool, cells)) > 1:
            return at if any(cell in known for cell in cells) else 0
    return 0


def _is_header(first: list[str], known: Collection[str]) -> bool:
    if any(cell.lower() in known for cell in first):
        return True
    numbers = any(_IS_NUMBER.fullmatch(cell) for cell in first)
    return not numbers and all(first) and len(set(first)) == len(first)


def _names(first: list[str], named: bool) -> tuple[str, ...]:
    """Names of the columns: the header's, made whole and different."""
    names: list[str] = []
    for at, cell in enumerate(first, 1):
        name = cell if named and cell else f"column {at}"
        while name in names:
            name += " again"
        names.append(name)
    return tuple(names)
