"""A table on disk: one file, many, or a folder of Parquet, CSV, TSV or JSON lines, as SQL that reads it."""

from __future__ import annotations

import glob
import gzip
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from lrgi.errors import FormatError, InputError
from lrgi.interop.tables.dialect import Dialect, dialect_of
from lrgi.interop.tables.engine import Engine, literal, quoted

_KINDS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".txt": "csv",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
}  # fmt: skip
_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_REAL = {"FLOAT", "DOUBLE", "UBIGINT", "HUGEINT", "UHUGEINT", "BOOLEAN"}
_NOTHING = '"NULL"'  # a column of gaps alone
_MOMENTS = ("DATE", "TIMESTAMP")


@dataclass(frozen=True)
class Reading:
    """How text tables are to be read; what is not said is guessed."""

    delimiter: str = ""
    encoding: str = ""
    header: str = "auto"  # yes, no


@dataclass(frozen=True)
class Source:
    """A table: its columns with DuckDB's types, and how to select from it."""

    files: tuple[Path, ...]
    kind: str  # parquet, csv or json
    columns: dict[str, str]
    scan: str  # stands after FROM
    dialect: Dialect | None = None

    @property
    def title(self) -> str:
        """The file, or the first and how many more."""
        more = len(self.files) - 1
        return str(self.files[0]) + (f" and {more} more" if more else "")

    def text(self, name: str, at: str = "") -> str:
        """SQL for a column (called `at` there) as text; empty cells are gaps, and spaces around
        the cells of a CSV are none of theirs."""
        at, kind = at or quoted(name), self.columns[name]
        if kind == "JSON":
            at = f"({at} ->> '$')"
        elif kind in ("FLOAT", "DOUBLE"):  # whole numbers that gaps made floating, as in pandas
            whole = f"{at} = floor({at}) AND abs({at}) < 9007199254740992"
            said = f"WHEN {whole} THEN {at}::BIGINT::VARCHAR ELSE {at}::VARCHAR"
            at = f"CASE WHEN isnan({at}) THEN NULL {said} END"
        elif kind != "VARCHAR":
            at = f"{at}::VARCHAR"
        return f"nullif({f'trim({at})' if self.kind == 'csv' else at}, '')"

    def is_whole(self, name: str) -> bool:
        """Whether a column holds whole numbers, as 64 bits can say them."""
        return self.columns[name] in _WHOLE

    def family(self, name: str) -> str:
        """text, number, time, list or other: what the file says a column holds."""
        kind = self.columns[name]
        if kind in ("VARCHAR", "JSON", "UUID", _NOTHING) or kind.startswith("ENUM"):
            return "text"
        if kind in _WHOLE or kind in _REAL or kind.startswith("DECIMAL"):
            return "number"
        if kind.startswith(_MOMENTS):
            return "time"
        item = kind[: kind.rfind("[")] if kind.endswith("]") else ""
        numbers = item in _WHOLE or item in _REAL or item.startswith("DECIMAL")
        return "list" if numbers else "other"


def open_source(
    db: Engine, given: str, what: str, reading: Reading = Reading(), known: Collection[str] = ()
) -> Source:
    """The table that a path, a glob or a folder names. Raises FormatError with what is wrong with it."""
    files = _files(given, what)
    kinds = sorted({_kind(path) for path in files})
    if len(kinds) > 1:
        raise FormatError(
            f"the files of one table must be of one kind, got {' and '.join(kinds)} in {given}; "
            "name one kind with a glob such as 'folder/*.parquet'"
        )
    listed = "[" + ", ".join(literal(glob.escape(str(path))) for path in files) + "]"
    if kinds[0] == "csv":
        return _text_source(db, files, listed, reading, known)
    if kinds[0] == "parquet":
        scan = f"read_parquet({listed})"
    else:
        scan = f"json{len(db.rows('SHOW TABLES'))}"
        read = f"read_json({listed}, format = 'newline_delimited', sample_size = -1, union_by_name = true)"
        db.run(f"CREATE TABLE {scan} AS SELECT * FROM {read}")
    columns = {name: kind for name, kind, *_ in db.rows(f"DESCRIBE SELECT * FROM {scan}")}
    if list(columns) == ["json"]:  # what DuckDB calls rows that are no objects
        raise FormatError(
            f"a row of JSON lines must be an object, got another value in {files[0]}; "
            'write {"name": value} in every line'
        )
    return Source(files, kinds[0], columns, scan)


def _text_source(
    db: Engine, files: tuple[Path, ...], listed: str, reading: Reading, known: Collection[str]
) -> Source:
    told = {"delimiter": reading.delimiter, "encoding": reading.encoding, "header": reading.header}
    dialect = dialect_of(files[0], **told, known=known)
    for path in files[1:]:
        other = dialect_of(path, **told, known=known)
        if other.header and other.names != dialect.names:
            raise FormatError(
                f"the files of one table must have the same columns, got {', '.join(dialect.names)} in "
                f"{files[0]} and {', '.join(other.names)} in {path}; name fewer files with a glob"
            )
    columns = "{" + ", ".join(f"{literal(name)}: 'VARCHAR'" for name in dialect.names) + "}"
    options = (
        f"delim = {literal(dialect.delimiter)}, quote = '\"', escape = '\"', header = {dialect.header}, "
        f"skip = {dialect.skip}, encoding = {literal(dialect.encoding)}, auto_detect = false, "
        f"columns = {columns}"
    )
    table = f"text{len(db.rows('SHOW TABLES'))}"
    _read_text(db, files, table, f"read_csv({listed}, {options}", dialect.encoding)
    return Source(files, "csv", dict.fromkeys(dialect.names, "VARCHAR"), table, dialect)


def _read_text(db: Engine, files: tuple[Path, ...], table: str, call: str, encoding: str) -> None:
    """Make a table of CSV files: whole rows first, then also rows that end early.

    DuckDB reads short rows beside cells with line ends only when it is told not to read in parallel, and
    then it passes over a quote that is never closed, with all that follows. So those are counted before.
    """
    refusal: FormatError | InputError | None = None
    for options in ("", ", null_padding = true", ", null_padding = true, parallel = false"):
        try:
            if "parallel" in options:
                _check_quotes(files, encoding)
            db.run(f"CREATE TABLE {table} AS SELECT * FROM {call}{options})")
            return
        except (FormatError, InputError) as error:
            refusal = error
            if options and "null_padding" not in str(error.__cause__):
                break
    assert refusal is not None
    raise refusal


def _check_quotes(files: tuple[Path, ...], encoding: str) -> None:
    for path in files:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding=encoding, newline="") as file:
            quotes = 0
            while part := file.read(1 << 20):
                quotes += part.count('"')
        if quotes % 2:
            raise FormatError(
                f"quotes in a CSV must be closed and doubled inside cells, got {quotes:,} of them in {path}; "
                "correct the row where one is missing"
            )


def _files(given: str, what: str) -> tuple[Path, ...]:
    place = Path(given).expanduser()
    if place.is_dir():
        found = [path for path in sorted(place.rglob("*")) if path.is_file() and _in_table(path)]
    elif place.is_file():
        found = [place]
    else:
        beyond = Path(place.anchor)  # where a pattern begins: / or here
        found = sorted(beyond.glob(str(place.relative_to(beyond)))) if given.strip() else []
        found = [path for path in found if path.is_file()]
    if not found:
        rest = "a folder without tables" if place.is_dir() else "no such file"
        raise FormatError(
            f"{what} must be a file, a glob or a folder of tables, got {given}, {rest}; check it"
        )
    for path in found:
        if path.stat().st_size == 0:
            raise FormatError(f"{what} must hold a table, got {path}, which is empty; write it again")
    return tuple(found)


def _in_table(path: Path) -> bool:
    """Spark and others put marks beside the parts of a table, whose names begin with . or _."""
    return not path.name.startswith((".", "_")) and _ending(path) in _KINDS


def _ending(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _kind(path: Path) -> str:
    """By its name; where that says nothing, by its first bytes."""
    ending = _ending(path)
    if ending in _KINDS:
        return _KINDS[ending]
    with path.open("rb") as file:
        start = file.read(8)
    if ending in (".xlsx", ".xls", ".ods") or start.startswith(b"PK\x03\x04"):
        raise FormatError(
            f"a table must be Parquet, CSV, TSV or JSON lines, got {path}; save it from the spreadsheet "
            "program as 'CSV UTF-8'"
        )
    return "parquet" if start.startswith(b"PAR1") else "json" if start.lstrip().startswith(b"{") else "csv"
