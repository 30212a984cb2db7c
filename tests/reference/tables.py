"""A slow twin of the import of tables: plain loops over rows, no engine. docs/tables.md in Python."""

import math
import re
from collections import Counter
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
GAPS = {"na", "n/a", "#n/a", "nan", "null", "none", "-", "?"}


def text(value: Any, trim: bool) -> str | None:
    """A cell as text, None for a gap."""
    if value is None:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        value = int(value) if value.is_integer() and abs(value) < 2**53 else value
    cell = str(value).strip(" ") if trim else str(value)
    return cell or None


def ordered(ids: set[str]) -> list[str]:
    return sorted(ids, key=int) if ids and all(WHOLE.fullmatch(i) for i in ids) else sorted(ids)


def import_graph(
    edges: list[tuple], nodes: list[dict] | None, *, directed: bool, unknown: str, trim: bool
) -> dict[str, Any]:
    """Ids in order, pairs (receiver, sender) of places, and all counts."""
    ids: list[str] = []
    counts = {"nodes_read": 0, "empty_id": 0, "repeated_id": 0}
    rows: list[dict | None] = []
    for row in nodes or []:
        counts["nodes_read"] += 1
        name = text(row["id"], trim)
        if name is None:
            counts["empty_id"] += 1
        elif name in ids:
            counts["repeated_id"] += 1
        else:
            ids.append(name)
            rows.append(row)
    ends = [(text(s, trim), text(r, trim)) for s, r in edges]
    if nodes is None or unknown == "add":
        ids += ordered({end for pair in ends for end in pair if None not in pair} - set(ids))
    place = {name: at for at, name in enumerate(ids)}
    counts |= {"only_in_edges": len(ids) - len(rows), "total": len(ids)}
    counts |= dict.fromkeys(("read", "empty_end", "unknown", "self_loops", "repeated", "kept"), 0)
    stored: set[tuple[int, int]] = set()
    for sender, receiver in ends:
        counts["read"] += 1
        if sender is None or receiver is None:
            counts["empty_end"] += 1
        elif sender not in place or receiver not in place:
            counts["unknown"] += 1
        elif sender == receiver:
            counts["self_loops"] += 1
        elif (place[receiver], place[sender]) in stored:
            counts["repeated"] += 1
        else:
            counts["kept"] += 1
            stored.add((place[receiver], place[sender]))
            if not directed:
                stored.add((place[sender], place[receiver]))
    return {"ids": ids, "rows": rows + [None] * counts["only_in_edges"], "stored": stored, **counts}


def features(
    rows: list[dict | None],
    judged: list[dict],
    training: list[bool],
    columns: list[str],
    *,
    trim: bool,
    most: int,
) -> dict[str, list[float]]:
    """Feature name -> values of all nodes. `judged` are all rows of the table."""
    made: dict[str, list[float]] = {}
    for name in columns:
        given = [None if row is None else row[name] for row in rows]
        seen = [value for value, use in zip(given, training, strict=True) if use]
        made |= column(name, given, seen, [row[name] for row in judged], trim=trim, most=most)
    return made


def column(
    name: str, given: list, seen: list, judged: list, *, trim: bool, most: int
) -> dict[str, list[float]]:
    if any(isinstance(value, list) for value in judged):
        width = len(next(value for value in judged if value is not None))
        made = {f"{name}[{i}]": [0.0 if v is None else v[i] for v in given] for i in range(width)}
        gaps = [v is None for v in given]
        return made | marked(name, gaps, any(v is None for v in seen))
    if any(isinstance(value, str) for value in judged):
        cells = [text(value, trim) for value in judged]
        said = [cell for cell in cells if cell is not None and cell.lower() not in GAPS]
        if not said:
            return {}
        if all(NUMBER.fullmatch(cell) for cell in said):
            return numbers(name, [as_number(v, trim) for v in given], [as_number(v, trim) for v in seen])
        return category(name, [text(v, trim) for v in given], [text(v, trim) for v in seen], most)
    return numbers(name, [as_float(v) for v in given], [as_float(v) for v in seen])


def as_number(value: str | None, trim: bool) -> float | None:
    cell = text(value, trim)
    return as_float(float(cell)) if cell is not None and NUMBER.fullmatch(cell) else None


def as_float(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(float(value)) else float(value)


def numbers(name: str, given: list, seen: list) -> dict[str, list[float]]:
    said = [value for value in seen if value is not None]
    missing = len(said) < len(seen)
    if not said or (min(said) == max(said) and not missing):
        return {}
    mean = math.fsum(said) / len(said)
    scale = math.sqrt(math.fsum((value - mean) ** 2 for value in said) / len(said))
    if scale <= 1e-12 * max(map(abs, said)):
        if not missing:
            return {}
        scale = 1.0
    made = {name: [0.0 if value is None else (value - mean) / scale for value in given]}
    return made | marked(name, [value is None for value in given], missing)


def category(name: str, given: list, seen: list, most: int) -> dict[str, list[float]]:
    said = Counter(value for value in seen if value is not None)
    missing = said.total() < len(seen)
    many = len(said) > most
    if not said or (many and len(said) > said.total() / 2) or (len(said) == 1 and not missing):
        return {}
    top = sorted(value for value, _ in sorted(said.items(), key=lambda item: (-item[1], item[0]))[:most])
    made = {f"{name}={value}": [float(v == value) for v in given] for value in top}
    if many:
        made[f"{name}=(other)"] = [float(v is not None and v not in top) for v in given]
    return made | marked(name, [v is None for v in given], missing)


def marked(name: str, gaps: list[bool], missing: bool) -> dict[str, list[float]]:
    return {f"{name} is missing": [float(gap) for gap in gaps]} if missing else {}
