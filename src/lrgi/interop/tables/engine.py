"""DuckDB, held to a bound of memory and to a folder: what is quoted, streamed, and said when it refuses."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lrgi.errors import FormatError, InputError

ROWS = 1 << 17  # in a batch that is handed to numpy

_LINE = re.compile(r"CSV Error on Line: (\d+)")
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES)
_WIDTH = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")


class Engine:
    """One connection to DuckDB: `run` a statement, get `rows` or an `array`, or stream `batches`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str) -> None:
        """Execute; InputError or FormatError for what DuckDB refuses."""
        with refusals():
            self._connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small result."""
        with refusals():
            found: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return found

    def one(self, sql: str) -> tuple[Any, ...]:
        """The only row."""
        return self.rows(sql)[0]

    def array(self, sql: str) -> npt.NDArray[Any]:
        """The only column of a result; masked where there are gaps."""
        with refusals():
            (found,) = self._connection.execute(sql).fetchnumpy().values()
        values: npt.NDArray[Any] = found
        return values

    def batches(self, sql: str, rows: int = ROWS) -> Iterator[Any]:
        """A result as Arrow record batches, a part at a time."""
        with refusals():
            yield from self._connection.sql(sql).to_arrow_reader(rows)

    def insert(self, table: str, values: npt.NDArray[Any]) -> None:
        """Append an array as the rows of a table of one column."""
        import pyarrow as pa

        self._connection.register("given_values", pa.table({"value": values}))
        self.run(f"INSERT INTO {table} SELECT value FROM given_values")
        self._connection.unregister("given_values")

    def keep_order(self, keep: bool) -> None:
        """Whether rows must come in the order in which they were read; sorting needs less memory without."""
        self.run(f"SET preserve_insertion_order = {str(keep).lower()}")


@contextmanager
def engine(beside: Path, memory: str = "2GB", threads: int = 2) -> Iterator[Engine]:
    """An engine whose tables and spilled data lie in a folder next to `beside`, gone afterwards."""
    duckdb = _duckdb()
    beside.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{beside.name}.import.", dir=beside.parent))
    settings = {
        "memory_limit": memory,
        "threads": threads,
        "temp_directory": str(scratch / "spill"),
        "autoinstall_known_extensions": False,  # nothing is fetched from anywhere
        "autoload_known_extensions": False,
    }
    try:
        try:
            connection = duckdb.connect(str(scratch / "tables.duckdb"), config=settings)
        except duckdb.Error:
            raise InputError(f"memory must be a size such as 2GB, got {memory!r}; correct it") from None
        try:
            connection.execute("SET enable_progress_bar = false")
            yield Engine(connection)
        finally:
            connection.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _duckdb() -> Any:
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as missing:
        raise InputError(
            f"tables must be read by duckdb and pyarrow, got no {missing.name}; "
            "run `pip install lrgi[tables]`"
        ) from None
    return duckdb


@contextmanager
def refusals() -> Iterator[None]:
    """What DuckDB refuses, as one sentence."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise _sentence(error) from error


def _sentence(error: Exception) -> InputError | FormatError | OSError:
    text = str(error)
    line, width = _LINE.search(text), _WIDTH.search(text)
    where = f" in line {int(line[1]):,}" if line else ""
    if width:
        return FormatError(
            f"a row of a CSV must have {width[1]} cells, got {width[2]}{where}; "
            "quote cells that hold the delimiter, or name another one with --delimiter"
        )
    if "unicode" in text.lower() and line:
        return FormatError(
            f"a CSV must be text in UTF-8, got other bytes{where}; save it as UTF-8 (in a spreadsheet "
            "program: 'CSV UTF-8'), or name what it is with --encoding latin-1"
        )
    if "IO Error" in text and any(os.strerror(number) in text for number in _DISK):
        number = next(number for number in _DISK if os.strerror(number) in text)
        return OSError(number, os.strerror(number))  # told as any other write that the system refuses
    if "Out of Memory" in text or "could not allocate" in text:
        return InputError(f"the memory for tables must suffice, got {_first(text)!r}; raise --memory")
    if "Maximum line size" in text or "max_line_size" in text:
        return FormatError(
            f"a row of a CSV must be shorter than 2 MB, got a longer one{where}; look for a quote that is "
            "never closed"
        )
    if "quote" in text and line:
        return FormatError(
            f"quotes in a CSV must be closed and doubled inside cells, got others{where}; correct that row"
        )
    return FormatError(f"a table must be readable, got {_first(text)!r}; check the file and its format")


def _first(text: str) -> str:
    return " ".join(text.split("\n")[0].split())[:300]


def quoted(name: str) -> str:
    """A name of a column or table in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("'", "''") + "'"
