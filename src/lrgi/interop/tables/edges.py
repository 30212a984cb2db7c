"""Ids to numbers, edges to in-neighbours: joined and sorted by DuckDB, streamed to the graph's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lrgi.errors import InputError
from lrgi.graph.arrays import ArrayEntry, ArrayWriter, write_array
from lrgi.graph.edges import index_dtype
from lrgi.interop.tables.engine import Engine

_MOST_LETTERS = 1000
_WHOLE = "regexp_full_match(id, '0|-?[1-9][0-9]{0,17}')"


@dataclass(frozen=True)
class EdgeCounts:
    """Rows of the edge table: read = empty_end + unknown + self_loops + repeated + kept."""

    read: int = 0
    empty_end: int = 0  # no sender or no receiver: dropped
    unknown: int = 0  # an end that is not in the node table: dropped, where that was asked for
    self_loops: int = 0  # dropped
    repeated: int = 0  # merged; undirected, the same edge the other way round is a repetition too
    kept: int = 0


@dataclass(frozen=True)
class NodeCounts:
    """read = empty_id + repeated_id + nodes of the table; total = those + only_in_edges."""

    read: int = 0
    empty_id: int = 0  # no id: dropped
    repeated_id: int = 0  # an id that was there: the first row is kept
    only_in_edges: int = 0  # added after the others, in ascending order of their ids
    total: int = 0


def number_nodes(db: Engine, *, has_nodes: bool, add_unknown: bool, whole: bool) -> NodeCounts:
    """Make the table ids(id, n, row) of all nodes out of `edges(src, dst)` and `node_rows(row, id)`.

    Nodes of the table keep its order; nodes that only edges (with both ends) name follow in ascending
    order of their ids: by number where `whole` (ids are 64-bit integers) or where all of them look like
    one, else by code points.
    """
    read = empty = listed = 0
    db.run(f"CREATE TABLE ids (id {'BIGINT' if whole else 'VARCHAR'}, n BIGINT, row BIGINT)")
    if has_nodes:
        db.run(
            "INSERT INTO ids SELECT id, row_number() OVER (ORDER BY row) - 1, row "
            "FROM (SELECT id, min(row) AS row FROM node_rows WHERE id IS NOT NULL GROUP BY id)"
        )
        read, named = db.one("SELECT count(*), count(id) FROM node_rows")
        empty, (listed,) = read - named, db.one("SELECT count(*) FROM ids")
    if add_unknown:
        db.run(
            "CREATE TABLE found AS SELECT DISTINCT id FROM "
            "(SELECT src AS id FROM edges WHERE dst IS NOT NULL "
            "UNION ALL SELECT dst FROM edges WHERE src IS NOT NULL) ANTI JOIN ids USING (id) "
            "WHERE id IS NOT NULL"
        )
        by_number = not whole and db.one(f"SELECT coalesce(bool_and({_WHOLE}), false) FROM found")[0]
        order = "id::BIGINT" if by_number else "id"
        db.run(
            f"INSERT INTO ids SELECT id, {listed} + row_number() OVER (ORDER BY {order}) - 1, NULL FROM found"
        )
        db.run("DROP TABLE found")
    (total,) = db.one("SELECT count(*) FROM ids")
    return NodeCounts(read, empty, read - empty - listed, total - listed, total)


def pair_nodes(db: Engine, *, all_known: bool) -> None:
    """Make the table pairs(s, r) of numbers out of `edges`: a gap stays one, an unknown id becomes -1.

    Where every id of the edges is a known one, texts are compared by a hash of 64 bits if that tells all
    known ids apart: the join then holds no text.
    """
    key, source = "{}", "ids"
    hashed = "coalesce(any_value(typeof(id)) = 'VARCHAR', false) AND count(DISTINCT hash(id)) = count(*)"
    if all_known and db.one(f"SELECT {hashed} FROM ids")[0]:
        key, source = "hash({})", "(SELECT hash(id) AS id, n FROM ids)"
    db.run(
        "CREATE TABLE pairs AS SELECT "
        "CASE WHEN e.src IS NULL THEN NULL ELSE coalesce(a.n, -1) END AS s, "
        "CASE WHEN e.dst IS NULL THEN NULL ELSE coalesce(b.n, -1) END AS r "
        f"FROM edges e LEFT JOIN {source} a ON {key.format('e.src')} = a.id "
        f"LEFT JOIN {source} b ON {key.format('e.dst')} = b.id"
    )


def write_neighbours(
    db: Engine, nodes: int, directory: Path, *, directed: bool
) -> tuple[dict[str, ArrayEntry], EdgeCounts]:
    """indptr and indices out of `pairs`, sorted on the disk; and what became of every row."""
    read, empty, unknown, loops = db.one(
        "SELECT count(*), count(*) FILTER (s IS NULL OR r IS NULL), "
        "count(*) FILTER (least(s, r) = -1 AND s IS NOT NULL AND r IS NOT NULL), "
        "count(*) FILTER (s = r AND s <> -1) FROM pairs"
    )
    good = "FROM pairs WHERE s >= 0 AND r >= 0 AND s <> r"
    keys = f"SELECT r * {nodes} + s AS key {good}"
    if not directed:
        keys = f"{keys} UNION ALL SELECT s * {nodes} + r {good}"
    counts = np.zeros(nodes + 1, dtype=np.int64)
    indices = ArrayWriter(directory / "indices.npy", index_dtype(nodes))
    try:
        last = -1
        for batch in db.batches(f"SELECT key FROM ({keys}) ORDER BY key", 1 << 20):
            given = batch.column(0).to_numpy()
            new = np.empty(len(given), dtype=bool)
            new[0] = given[0] != last
            np.not_equal(given[1:], given[:-1], out=new[1:])
            last = int(given[-1])
            row, sender = np.divmod(given[new], nodes)
            if len(row):
                found = np.bincount(row - row[0])
                counts[row[0] + 1 : row[0] + 1 + len(found)] += found
            indices.append(sender)
        stored = indices.rows
        entries = {"indices": indices.close()}
    finally:
        indices.discard()
    np.cumsum(counts, out=counts)
    entries["indptr"] = write_array(directory / "indptr.npy", counts)
    both = 1 if directed else 2
    kept, listed = stored // both, read - empty - unknown - loops
    if stored == 0:
        raise InputError(
            f"a graph must have at least one edge between two different nodes, got none in {read:,} rows; "
            "check the columns of senders and receivers"
        )
    return entries, EdgeCounts(read, empty, unknown, loops, listed - kept, kept)


def write_ids(db: Engine, nodes: int, directory: Path, *, whole: bool) -> ArrayEntry:
    """The user's own ids in the order of the nodes: whole numbers where all of them are, else text."""
    letters = 0
    if not whole:
        whole, letters = check_ids(db)
    kept = ArrayWriter(directory / "ids.npy", np.int64 if whole else f"<U{letters}")
    try:
        for batch in db.batches(f"SELECT {'id::BIGINT' if whole else 'id'} FROM ids ORDER BY n"):
            kept.append(_ids(batch.column(0)))
        if kept.rows != nodes:
            raise RuntimeError(f"{nodes} ids expected, got {kept.rows}")
        return kept.close()
    finally:
        kept.discard()


def check_ids(db: Engine) -> tuple[bool, int]:
    """Whether all ids, which are text, look like whole numbers, and the letters of the longest.

    InputError for one that cannot be kept.
    """
    letters, zeros, numbers = db.one(
        f"SELECT max(length(id)), bool_or(contains(id, chr(0))), bool_and({_WHOLE}) FROM ids"
    )
    if zeros:
        raise InputError(
            "an id must not hold the character of code 0, got one that does; replace it by another one"
        )
    if (letters or 0) > _MOST_LETTERS:
        (longest,) = db.one(f"SELECT left(id, 40) FROM ids WHERE length(id) = {letters} LIMIT 1")
        raise InputError(
            f"an id must have at most {_MOST_LETTERS:,} letters, got {letters:,} in {longest!r}...; "
            "check the column, or shorten it"
        )
    return bool(numbers), letters or 0


def _ids(column: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values if values.dtype.kind == "i" else values.astype(np.str_)
