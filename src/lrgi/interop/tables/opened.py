"""Tables found and understood: which column is what, and `edges` and `node_rows` inside the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lrgi.errors import InputError
from lrgi.interop.tables.edges import NodeCounts
from lrgi.interop.tables.engine import Engine, quoted
from lrgi.interop.tables.fields import make_node_rows
from lrgi.interop.tables.plan import KNOWN, TablePlan, chosen_column
from lrgi.interop.tables.sources import Reading, Source, open_source


@dataclass(frozen=True)
class Tables:
    """What the engine holds now: edges(src, dst), and node_rows(row, id, c0, ...) of a node table."""

    edges: Source | None
    nodes: Source | None
    columns: dict[str, str]  # role -> column: src, dst, id, label, split
    guessed: tuple[str, ...]
    whole: bool  # all ids are 64-bit integers, as the files have them
    add_unknown: bool


def open_tables(
    db: Engine,
    edges: str | None,
    nodes: str | None,
    plan: TablePlan,
    tell: Callable[[str], None],
    *,
    as_text: bool = False,
    flag: str = "--edges",
) -> Tables:
    """Read the tables' beginnings, choose columns, and make views of them (tables of what is text).

    `as_text`: whole numbers are ids like any other text.
    """
    delimiter = "\t" if plan.delimiter == "\\t" else plan.delimiter
    reading = Reading(delimiter, plan.encoding, plan.edges_header)
    edge_source, node_source, columns = None, None, dict[str, str]()
    if edges is not None:
        ends = _known("src", "dst", plan.src, plan.dst)
        edge_source = open_source(db, edges, flag, reading, ends)
        columns |= dict(zip(("src", "dst"), _ends(edge_source, plan), strict=True))
    if nodes is not None:
        reading = replace(reading, header=plan.nodes_header)
        node_source = open_source(db, nodes, "--nodes", reading, _known("id", "label", "split", plan.id))
        columns |= _roles(node_source, plan)
    guessed = tuple(
        role for role in columns if not getattr(plan, "split_column" if role == "split" else role)
    )
    ids = [(edge_source, columns[role]) for role in ("src", "dst") if edge_source is not None]
    if node_source is not None:
        ids.append((node_source, columns["id"]))
    for source, name in ids:
        if source.family(name) in ("list", "other"):
            raise InputError(
                f"ids must be text or whole numbers, got {source.columns[name]} in column {name!r}; "
                "name another column"
            )
    whole = not as_text and all(source.is_whole(name) for source, name in ids)
    tell(_chosen(edge_source, node_source, columns, guessed))
    if edge_source is not None:
        _make_edges(db, edge_source, columns, whole=whole)
    else:
        db.run("CREATE TABLE edges (src VARCHAR, dst VARCHAR)")
    if node_source is not None:
        make_node_rows(db, node_source, columns["id"], whole=whole)
    return Tables(edge_source, node_source, columns, guessed, whole, nodes is None or plan.unknown == "add")


def check_met(db: Engine, tables: Tables, counts: NodeCounts) -> None:
    """InputError where no edge names a node of the table: the ids are of two kinds, or the columns wrong."""
    listed = counts.total - counts.only_in_edges
    if tables.nodes is None or not listed:
        return
    met = (
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM edges SEMI JOIN listed ON src = id LIMIT 1)) + "
        "(SELECT count(*) FROM (SELECT 1 FROM edges SEMI JOIN listed ON dst = id LIMIT 1))"
    )
    db.run("CREATE TEMP VIEW listed AS SELECT id FROM ids WHERE row IS NOT NULL")
    if db.one(met)[0]:
        return
    ((node,),) = db.rows("SELECT id FROM listed LIMIT 1")
    ends = db.rows("SELECT coalesce(src, dst) FROM edges WHERE coalesce(src, dst) IS NOT NULL LIMIT 1")
    if ends:
        raise InputError(
            f"edges must name nodes of the node table, got none that does: {ends[0][0]!r} in the edges, "
            f"{node!r} in the nodes; correct --src, --dst or --id"
        )


def _known(*roles_and_names: str) -> set[str]:
    names: set[str] = set()
    for entry in roles_and_names:
        names |= set(KNOWN.get(entry, ())) | {entry.lower()}
    return names - {""}


def _ends(source: Source, plan: TablePlan) -> tuple[str, str]:
    """The columns of senders and receivers."""
    names = list(source.columns)
    src = chosen_column(plan, "src", names, "edges")
    dst = chosen_column(plan, "dst", [name for name in names if name != src], "edges")
    headless = source.dialect is not None and not source.dialect.header
    if headless and len(names) >= 2:
        src, dst = src or names[0], dst or names[1]
    if src is None or dst is None:
        also = ", or pass --edges-header no if its first row is an edge" if source.kind == "csv" else ""
        raise InputError(
            f"edges must have columns of senders and receivers, got {', '.join(names)} in {source.title}; "
            f"name them with --src and --dst{also}"
        )
    return src, dst


def _roles(source: Source, plan: TablePlan) -> dict[str, str]:
    names = list(source.columns)
    found = {"id": chosen_column(plan, "id", names, "nodes") or names[0]}
    for role, flag in (("label", "label"), ("split", "split_column")):
        rest = [name for name in names if name not in found.values()]
        name = chosen_column(plan, role, rest, "nodes", flag=flag)
        if name is not None:
            found[role] = name
    return found


def _make_edges(db: Engine, source: Source, columns: Mapping[str, str], *, whole: bool) -> None:
    parts = []
    for role in ("src", "dst"):
        value = f"{quoted(columns[role])}::BIGINT" if whole else source.text(columns[role])
        parts.append(f"{value} AS {role}")
    db.keep_order(False)
    db.run(f"CREATE VIEW edges AS SELECT {', '.join(parts)} FROM {source.scan}")


def _chosen(
    edges: Source | None, nodes: Source | None, columns: Mapping[str, str], guessed: tuple[str, ...]
) -> str:
    """Which columns are taken for what, as a line of progress."""
    said = [
        f"{role} = {name!r}" + (" (guessed)" if role in guessed else "") for role, name in columns.items()
    ]
    where = [f"{what} {of.title}" for what, of in (("edges", edges), ("nodes", nodes)) if of is not None]
    return f"reading {', '.join(where)}: {', '.join(said)}"
