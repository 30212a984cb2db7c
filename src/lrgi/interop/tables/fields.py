"""What the columns of a node table hold: judged by all their values, or found again by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lrgi.errors import FormatError, InputError
from lrgi.graph.encoding import Column, Encoding
from lrgi.interop.tables.dialect import NUMBER
from lrgi.interop.tables.engine import Engine, literal, quoted
from lrgi.interop.tables.plan import TablePlan
from lrgi.interop.tables.sources import Source

# In a column that otherwise holds numbers or times, these words are gaps. In a category they are values.
GAPS = ("na", "n/a", "#n/a", "nan", "null", "none", "-", "?")

_GAP = f"IN ({', '.join(literal(word) for word in GAPS)})"
_COMMA = r"[+-]?[0-9]*,[0-9]+"
# What a spreadsheet program writes for a reader's eye: it could mean several things, so it is not read.
_DRESSED = {
    "numbers": r"[+-]?[$€£]? ?[0-9]{1,3}([.,' ’]?[0-9]{3})*([.,][0-9]+)? ?(%|[$€£]|EUR|USD)?",
    "dates": r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}( [0-9:]+)?",
}
_PLAIN = {"numbers": "without signs and thousands, such as 1234.5", "dates": "such as 2024-12-31"}


@dataclass(frozen=True)
class Field:
    """A column of the node table: `at` is its name in `node_rows`, `value` SQL for what it holds."""

    name: str
    at: str
    family: str  # what the file says: text, number, time, list, other
    kind: str  # what it is taken for: number, time, category, list, or left: it makes no features
    value: str
    why: str = ""  # of a column that is left
    hint: str = ""  # what may be wrong with how it is written

    @property
    def kept(self) -> bool:
        """Whether the column stands in the table of attributes beside the graph."""
        return self.kind not in ("list", "other") and self.family != "other"


def node_columns(source: Source) -> list[tuple[str, str]]:
    """(name, name in `node_rows`) of every column."""
    return [(name, f"c{at}") for at, name in enumerate(source.columns)]


def make_node_rows(db: Engine, source: Source, id_column: str, *, whole: bool) -> None:
    """node_rows(row, id, c0, c1, ...): the node table in the order of its rows."""
    db.keep_order(True)
    id_ = f"{quoted(id_column)}::BIGINT" if whole else source.text(id_column)
    parts = [
        f"{source.text(name) if source.family(name) == 'text' else quoted(name)} AS {at}"
        for name, at in node_columns(source)
    ]
    db.run(
        f"CREATE VIEW node_rows AS "
        f"SELECT row_number() OVER () - 1 AS row, {id_} AS id, {', '.join(parts)} FROM {source.scan}"
    )


def judge(db: Engine, source: Source, plan: TablePlan, roles: Collection[str]) -> list[Field]:
    """The fields of all columns but those with a role, as their values are. Nothing is encoded yet."""
    ignored, forced = plan.listed("ignore"), plan.listed("category")
    for flag, names in (("ignore", ignored), ("category", forced)):
        if unknown := [name for name in names if name not in source.columns]:
            raise InputError(
                f"--{flag} must name columns of the nodes, got {unknown[0]!r}; "
                f"choose among {', '.join(source.columns)}"
            )
    fields = []
    for name, at in node_columns(source):
        if name in roles:
            continue
        family = source.family(name)
        kind, why = (family, "") if name not in forced else ("category", "")
        if family == "other":
            why = f"{source.columns[name]} makes no features"
        elif family == "text" and name not in forced:
            kind, why = _text_kind(db, source, at)
        field = _field(source, name, at, family, kind)
        if family == "text" and kind == "category" and not why and name not in (*forced, *ignored):
            field = replace(field, hint=_hint(db, at))
        if name in ignored:
            why = "as asked"
        fields.append(replace(field, kind="left", why=why) if why else field)
    return fields


def find_again(db: Engine, source: Source, encoding: Encoding, roles: Collection[str]) -> list[Field]:
    """The fields that an encoding names, of the kinds it says. InputError for a missing or an extra column,
    FormatError for one that holds something else than at first."""
    given = [name for name in source.columns if name not in roles]
    known = {column.name: column for column in encoding.columns}
    for name in known:
        if name not in given:
            raise InputError(
                f"the nodes must have the columns of the fit, got none called {name!r}; "
                "add it (its cells may be empty)"
            )
    places, fields = dict(node_columns(source)), []
    for name in given:
        if name not in known and name not in encoding.ignored:
            raise InputError(
                f"the nodes must have only the columns of the fit, got one more called {name!r}; "
                "take it out or name it in --ignore"
            )
        family = source.family(name)
        kind = known[name].kind if name in known else "left"
        field = _field(source, name, places[name], family, kind)
        if kind in ("number", "time"):
            _check_values(db, field, source)
        if (kind == "list") != (family == "list") and name in known:
            raise FormatError(
                f"column {name!r} must hold {'lists' if kind == 'list' else 'single values'} as at the fit, "
                f"got {source.columns[name]}; correct it"
            )
        fields.append(field)
    order = {name: at for at, name in enumerate(known)}
    return sorted(fields, key=lambda field: order.get(field.name, len(order)))


def role_field(source: Source, name: str) -> Field:
    """The field of a column that has a role, such as the label: its values as text."""
    at, family = dict(node_columns(source))[name], source.family(name)
    value = at if family in ("text", "list") else source.text(name, at)
    return Field(name, at, family, "list" if family == "list" else "category", value)


def _field(source: Source, name: str, at: str, family: str, kind: str) -> Field:
    commas = source.dialect is not None and source.dialect.delimiter == ";"
    if kind == "number":
        value = _number(at, commas) if family == "text" else f"{at}::DOUBLE"
        value = f"CASE WHEN isfinite({value}) THEN {value} END"
    elif kind == "time":
        value = f"epoch(try_cast({at} AS TIMESTAMP))" if family == "text" else f"epoch({at})"
    elif kind == "list":
        value = f"{at}::FLOAT[]"
    elif kind == "category" or family == "text":
        value = at if family == "text" else f"{at}::VARCHAR"
    else:
        value = at
    return Field(name, at, family, kind, value)


def _number(at: str, commas: bool) -> str:
    plain = f"WHEN regexp_full_match({at}, {literal(NUMBER)}) THEN {at}::DOUBLE"
    other = f" WHEN regexp_full_match({at}, {literal(_COMMA)}) THEN replace({at}, ',', '.')::DOUBLE"
    return f"CASE {plain}{other if commas else ''} END"


def _text_kind(db: Engine, source: Source, at: str) -> tuple[str, str]:
    """number, time or category, or why it is nothing."""
    commas = source.dialect is not None and source.dialect.delimiter == ";"
    total, gaps, numbers, times = db.one(
        f"SELECT count({at}), count(*) FILTER (lower({at}) {_GAP}), count({_number(at, commas)}), "
        f"count(try_cast({at} AS TIMESTAMP)) FROM node_rows"
    )
    if total == gaps:
        return "category", "it is empty"
    if numbers + gaps == total:
        return "number", ""
    return ("time", "") if times + gaps == total else ("category", "")


def _hint(db: Engine, at: str) -> str:
    """What to change in a column of categories that are numbers or dates in dress; else nothing."""
    for what, pattern in _DRESSED.items():
        dressed = f"regexp_full_match({at}, {literal(pattern)})"
        plain = f"regexp_full_match({at}, {literal(NUMBER)})"
        if not db.rows(
            f"SELECT 1 FROM node_rows WHERE NOT ({dressed} OR {plain} OR lower({at}) {_GAP}) LIMIT 1"
        ):
            (some,) = db.one(f"SELECT min({at}) FILTER ({dressed} AND NOT {plain}) FROM node_rows")
            return f"looks like {what}, got {some!r}; write them {_PLAIN[what]}" if some is not None else ""
    return ""


def _check_values(db: Engine, field: Field, source: Source) -> None:
    if field.family != "text":
        return
    wrong = db.rows(
        f"SELECT {field.at} FROM node_rows WHERE {field.at} IS NOT NULL AND {field.value} IS NULL "
        f"AND NOT lower({field.at}) {_GAP} LIMIT 1"
    )
    if wrong:
        raise FormatError(
            f"column {field.name!r} must hold {field.kind}s as at the fit, got {wrong[0][0]!r} in "
            f"{source.title}; correct that cell or leave it empty"
        )


def measure(db: Engine, field: Field, training: npt.NDArray[np.bool_], plan: TablePlan) -> Column | str:
    """The column of an encoding that a field makes, with the statistics of the rows in `training`; or why it
    makes none. `db` has the table `training_rows(row)`."""
    if field.kind == "category":
        return _category(db, field, int(training.sum()), plan.categories)
    if field.kind == "list":
        return _list(db, field)
    found = np.ma.masked_array(db.array(f"SELECT {field.value} FROM node_rows"))
    gaps = np.ma.getmaskarray(found)[training]
    values = np.asarray(found.data, dtype=np.float64)[training][~gaps]
    if len(values) == 0:
        return "it is empty in the training nodes"
    # Scaled first, so that the squares of huge numbers stay finite.
    unit = float(np.abs(values).max()) or 1.0
    mean, scale = float((values / unit).mean()) * unit, float((values / unit).std()) * unit
    missing = bool(gaps.any())
    if scale <= 1e-12 * unit:
        if not missing:
            return "it says the same everywhere"
        scale = 1.0
    return Column(field.name, field.kind, mean=mean, scale=scale, missing=missing)


def _category(db: Engine, field: Field, rows: int, most: int) -> Column | str:
    counted = (
        f"SELECT {field.value} AS v, count(*) AS many FROM node_rows JOIN training_rows USING (row) "
        "GROUP BY v"
    )
    distinct, named = db.one(
        f"SELECT count(v), coalesce(sum(many) FILTER (v IS NOT NULL), 0) FROM ({counted})"
    )
    missing = int(named) < rows
    if distinct == 0:
        return "it is empty in the training nodes"
    if distinct > most and distinct > int(named) / 2:
        return f"almost every value is another one ({distinct:,})"
    if distinct == 1 and not missing:
        return "it says the same everywhere"
    top = db.rows(f"SELECT v FROM ({counted}) WHERE v IS NOT NULL ORDER BY many DESC, v LIMIT {most}")
    values = tuple(sorted(value for (value,) in top))
    return Column(field.name, "category", values=values, other=distinct > most, missing=missing)


def _list(db: Engine, field: Field) -> Column | str:
    shortest, longest = db.one(f"SELECT min(len({field.value})), max(len({field.value})) FROM node_rows")
    (gaps,) = db.one(f"SELECT count(*) - count({field.at}) FROM node_rows JOIN training_rows USING (row)")
    if not longest:
        return "it is empty"
    if shortest != longest:
        raise FormatError(
            f"lists in column {field.name!r} must all have one length, got {shortest:,} to {longest:,}; "
            "make them alike or leave the column out with --ignore"
        )
    return Column(field.name, "list", width=int(longest), missing=gaps > 0)
