"""The model card of an encoder: what a stranger should know of it, made of its config.json alone.

The first lines are YAML as the Hugging Face hub reads it. Whoever shares the encoder may add to the card and
name a licence; `missing_line` says whether what was written still stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

CARD, WORDING = "README.md", 1
_MOST_COLUMNS = 40  # of a table of nodes that are listed; config.json has all
_METRICS = {"accuracy": "accuracy", "micro_f1": "f1"}  # by the hub's names
_METRIC_WORDS = {"accuracy": "accuracy", "micro_f1": "micro-F1"}
_LICENCE = "license: unknown"


def card_text(config: Mapping[str, Any]) -> str:
    """The whole card of an encoder with this config.json."""
    extra = _known(config.get("extra") or {})
    parts = [
        _front_matter(extra),
        _title(config, extra),
        _use(config, extra),
        _data(extra),
        _settings(config, extra),
        _scores(extra),
        _warnings(extra),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def missing_line(config: Mapping[str, Any], text: str) -> str | None:
    """The first line that `card_text` wrote and that is not there any more; the licence may be another."""
    found = set(text.splitlines())
    lines = (line for line in card_text(config).splitlines() if line != _LICENCE)
    return next((line for line in lines if line not in found), None)


def _known(extra: Mapping[str, Any]) -> dict[str, Any]:
    """What a run put there; entries of somebody else's, which may be anything, are left out."""
    shapes = {
        "graph": ("nodes", "edges", "graphs", "columns"),
        "fitted_graph": ("nodes", "edges", "graphs", "columns"),
        "table": ("rows", "metric", "protocol", "splits", "seeds"),
        "versions": ("lrgi",),
        "encoding": ("columns", "made"),
        "plan": (),
    }
    kept = {key: extra[key] for key in ("method", "fit_on") if isinstance(extra.get(key), str)}
    kept |= {"alarms": extra["alarms"]} if isinstance(extra.get("alarms"), list) else {}
    for key, needed in shapes.items():
        given = extra.get(key)
        if isinstance(given, Mapping) and all(name in given for name in needed):
            kept[key] = given
    return kept


def _front_matter(extra: Mapping[str, Any]) -> list[str]:
    lines = ["---", "library_name: lrgi", "pipeline_tag: graph-ml", _LICENCE, "tags:"]
    lines += [f"- {tag}" for tag in ("graph-ml", "node-embeddings", "self-supervised", "safetensors")]
    table, row = extra.get("table") or {}, _last_row(extra)
    if row is not None:
        name = json.dumps(_graph_name(extra))
        metric = _METRICS.get(table["metric"], table["metric"])
        lines += [
            "model-index:", f"- name: {name}", "  results:", "  - task:",
            "      type: node-classification", "    dataset:", f"      type: {name}", f"      name: {name}",
            "    metrics:", f"    - type: {metric}", f"      value: {row['test_mean']:.4f}",
            f"      name: {json.dumps('test, linear probe, ' + table['protocol'] + ', ' + row['name'])}",
        ]  # fmt: skip
    return [*lines, "---"]


def _title(config: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
    layers = config["layers"]
    widths = " -> ".join(str(width) for width in (config["columns"], *(layer["out_dim"] for layer in layers)))
    kinds = " and ".join(sorted({layer["kind"] for layer in layers})) or "no"
    what = f"{len(layers)} {kinds} layers" if len(layers) != 1 else f"1 {kinds} layer"
    method = extra.get("method", "lrgi")
    return [
        f"# {_plain(_graph_name(extra))}",
        "",
        f"An encoder of graph nodes with {what} (columns {widths}), fitted without labels by the method "
        f"`{method}` of [LRGI](https://arxiv.org/abs/2309.01503) and written by lrgi"
        f"{' ' + extra['versions']['lrgi'] if 'versions' in extra else ''}.",
    ]


def _use(config: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
    lines = [
        "## Use", "", "```python", "from lrgi import Encoder", "",
        'encoder = Encoder.load("FOLDER")  # this folder; nothing is downloaded, nothing is unpickled',
        f"table = encoder.embed(graph)  # a Graph with {config['columns']} columns; table.array is [N, D]",
        "```", "",
        "Or `lrgi embed FOLDER GRAPH --out EMB`.",
    ]  # fmt: skip
    if extra.get("encoding"):
        lines += [
            "",
            "Tables are prepared as for the fit with `lrgi import --edges E --nodes N --like FOLDER`.",
        ]
    return lines


def _data(extra: Mapping[str, Any]) -> list[str]:
    lines = ["## Data", ""]
    if "graph" not in extra:
        return [*lines, "Nothing is on record."]
    graph, seen = extra["graph"], extra.get("fitted_graph", extra["graph"])
    lines += ["| | the graph | what the fit saw of it |", "|---|---|---|"]
    for key in ("nodes", "edges", "graphs", "columns"):
        lines.append(f"| {key} | {graph[key]:,} | {seen[key]:,} |")
    degrees = [f"{part['edges'] / max(1, part['nodes']):,.2f}" for part in (graph, seen)]
    lines.append(f"| edges per node | {degrees[0]} | {degrees[1]} |")
    lines += ["", f"Fitted on: {extra.get('fit_on', 'all')} nodes. An undirected edge counts twice."]
    return lines + list(_columns(extra.get("encoding") or {}))


def _columns(encoding: Mapping[str, Any]) -> Iterator[str]:
    columns, made = encoding.get("columns") or [], encoding.get("made")
    if columns:
        yield from ("", "| column | kind | statistics of the training nodes |", "|---|---|---|")
        for column in columns[:_MOST_COLUMNS]:
            yield f"| {_plain(column['name'])} | {column['kind']} | {_statistics(column)} |"
        if len(columns) > _MOST_COLUMNS:
            yield f"| ... | | {len(columns) - _MOST_COLUMNS:,} more are in config.json |"
    if made:
        yield from ("", f"Features made of the structure: {_plain(made['from'])}.")


def _statistics(column: Mapping[str, Any]) -> str:
    what = {
        "category": f"{len(column['values']):,} values" + (" and all others" if column["other"] else ""),
        "list": f"{column['width']:,} numbers, as they are",
    }.get(column["kind"], f"mean {column['mean']:g}, deviation {column['scale']:g}")
    return what + (", gaps marked" if column["missing"] else "")


def _settings(config: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
    plan = extra.get("plan")
    lines = ["## Settings", ""]
    if not plan:
        return [*lines, "Nothing is on record beside the layers in config.json."]
    lines += ["| setting | value |", "|---|---|"]
    return lines + [f"| {name} | {_plain(json.dumps(value))} |" for name, value in plan.items()]


def _scores(extra: Mapping[str, Any]) -> list[str]:
    table = extra.get("table")
    lines = ["## Scores", ""]
    if not table:
        return [*lines, "None were measured."]
    lines += ["| | validation | test | spread | MAD | effective rank |", "|---|---|---|---|---|---|"]
    for row in table["rows"]:
        cells = [row[key] for key in ("validation_mean", "test_mean", "test_spread", "mad", "effective_rank")]
        numbers = " | ".join("" if value is None else f"{value:.4f}" for value in cells)
        lines.append(f"| {_plain(row['name'])} | {numbers} |")
    if table.get("metric") is None:
        how = f"Nothing was probed: {table.get('problem')}."
    else:
        metric = _METRIC_WORDS.get(table["metric"], table["metric"])
        how = (
            f"validation, test: {metric} of a linear probe, {table['protocol']}, mean over "
            f"{len(table['seeds'])} seeds; splits: {table['splits']}."
        )
    return [
        *lines, "", _plain(how),
        "MAD: mean distance between neighbours (0: all alike). Effective rank: dimensions in use.",
    ]  # fmt: skip


def _warnings(extra: Mapping[str, Any]) -> list[str]:
    alarms: Iterable[str] = extra.get("alarms") or []
    lines = ["## Warnings", "", *(f"- {_plain(alarm)}" for alarm in alarms)]
    if extra.get("alarms") == []:
        lines.append("- The collapse alarm was silent during the fit.")
    if extra.get("encoding"):
        lines.append(
            "- config.json holds the names, means, deviations and frequent values of the columns above: "
            "look at them before you share this folder."
        )
    return [
        *lines,
        "- Only graphs with these columns, prepared in this way, can be embedded; scores are of this one.",
        "- It was made for graphs in which neighbours are alike.",
    ]


def _last_row(extra: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The last layer's row of the final table, where something was probed."""
    rows = (extra.get("table") or {}).get("rows") or []
    return rows[-1] if rows and rows[-1].get("test_mean") is not None else None


def _graph_name(extra: Mapping[str, Any]) -> str:
    return str((extra.get("graph") or {}).get("name") or "encoder")


def _plain(text: Any) -> str:
    """On one line of a table, and no markup."""
    cleaned = " ".join(str(text).split())
    for mark in "\\|<[`":
        cleaned = cleaned.replace(mark, f"\\{mark}" if mark != "<" else "&lt;")
    return cleaned
