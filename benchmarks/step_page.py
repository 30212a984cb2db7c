"""A record of benchmarks/step.py as a person reads it: on the terminal and in docs/scale.md.

python benchmarks/step_page.py      # the page's tables again, from the committed record
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COLUMNS = ("sample", "forward", "backward", "update", "step", "fit")
NAMES = {
    "float32": "networks (8D)",
    "bf16": "networks, bf16 products",
    "closed": "closed predictors",
    "ordinary": "networks, the ordinary way (PyG)",
}
RATIOS = {
    "step_to_floor": "networks: step / floor",
    "fit_to_floor": "networks: step in a fit / floor",
    "step_to_mkl_floor": "networks: step / floor at torch.mm's rate",
    "ordinary_to_step": "the ordinary way / networks",
    "float32_to_bf16": "networks: float32 / bf16",
    "closed_to_floor": "closed: step / its own floor",
    "closed_fit_to_floor": "closed: step in a fit / its own floor",
    "closed_to_mkl_floor": "closed: step / its own floor at torch.mm's rate",
    "ppi_network_to_closed": "PPI's size: networks / closed",
    "minutes_float32": "100 epochs, 3 layers, networks: minutes",
    "minutes_bf16": "100 epochs, 3 layers, networks, bf16: minutes",
    "minutes_closed": "100 epochs, 3 layers, closed: minutes",
}
BEGIN, END = "<!-- step: begin -->\n", "<!-- step: end -->\n"
ROOT = Path(__file__).resolve().parents[1]


def show(r: dict[str, Any]) -> str:
    """Plain text; every figure as median and, in brackets, best decile."""
    s, batch, machine = r["settings"], r["batch"], r["machine"]
    lines = [
        f"{machine['cpu']}, {s['threads']} threads; malloc keeps freed memory (for all): "
        f"{r['freed_memory_kept']}",
        f"graph of {s['nodes']:,} nodes; D {s['width']}, {s['heads']} heads, B {s['batch']}, "
        f"fan-outs {s['fan_outs']}; seed {s['seed']}",
        f"per batch: {batch['nodes']:,.0f} nodes (paper {batch['paper']['nodes']:,}), "
        f"{batch['edges']:,.0f} edges (paper {batch['paper']['edges']:,}), "
        f"{batch['rows']:,.0f} rows computed",
        "",
        f"{'ms':<34}" + "".join(f"{part:>15}" for part in COLUMNS),
    ]
    for who, name in NAMES.items():
        parts = r["seconds"][who]
        lines.append(f"{name:<34}" + "".join(f"{_both(parts.get(part)):>15}" for part in COLUMNS))
    for who, parts in r["ppi"].items():
        cells = "".join(f"{_both(parts.get(part)):>15}" for part in COLUMNS)
        lines.append(f"{'of PPI size, ' + who:<34}" + cells)
    lines += ["", _rates(r), *(f"{NAMES[kind]}: {_floor(r, kind)}" for kind in ("float32", "closed")), ""]
    of = r["ratios"]
    for key, name in RATIOS.items():
        lines.append(f"{name:<52} {of['median'][key]:.2f} ({of['best_decile'][key]:.2f})")
    return "\n".join(lines)


def tables(r: dict[str, Any]) -> str:
    """Markdown, of medians; nothing of a record from before there were bf16 and closed predictors in it."""
    if "floors" not in r:
        return "Not measured yet.\n"
    rows = [*((NAMES[who], r["seconds"][who]) for who in NAMES)]
    rows += [(f"of PPI's size, {who}", parts) for who, parts in r["ppi"].items()]
    head = "| ms | " + " | ".join((*COLUMNS[:-1], "in a fit")) + " |\n| :--- |" + " ---: |" * len(COLUMNS)
    lines = [
        f"| {name} | " + " | ".join(_milliseconds(parts.get(part)) for part in COLUMNS) + " |"
        for name, parts in rows
    ]
    ratio = ["| ratio | median | best decile |\n| :--- | ---: | ---: |"]
    for key, name in RATIOS.items():
        ratio.append(f"| {name} | {r['ratios']['median'][key]:.2f} | {r['ratios']['best_decile'][key]:.2f} |")
    told = "\n".join([_rates(r) + ".", *(f"{NAMES[k]}: {_floor(r, k)}." for k in ("float32", "closed"))])
    where = f"Measured on: {r['machine']['cpu']}, {r['settings']['threads']} threads. Medians."
    return "\n".join([head, *lines, "", where, told, "", *ratio]) + "\n"


def write_page(page: Path, record: dict[str, Any]) -> None:
    """Put the tables between the page's marks."""
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + tables(record) + END + rest.split(END)[1])


def _rates(r: dict[str, Any]) -> str:
    rate = {name: value / 1e9 for name, value in r["rates"].items()}
    return (
        f"machine: products {rate['onednn']:.0f} GFLOP/s (oneDNN), {rate['tiles']:.0f} (our tiles), "
        f"{rate['mkl']:.0f} (torch.mm); random rows {rate['gather']:.1f} GB/s; "
        f"stream {rate['stream']:.1f} GB/s"
    )


def _floor(r: dict[str, Any], kind: str) -> str:
    floor = r["floors"][kind]
    work, traffic = sum(floor["flops"].values()), sum(floor["bytes"].values())
    return (
        f"floor {work / 1e9:.2f} GFLOP and {traffic / 1e6:.1f} MB in "
        f"{1e3 * floor['seconds']['fastest']:.2f} ms "
        f"({1e3 * floor['seconds']['mkl']:.2f} ms at torch.mm's rate)"
    )


def _both(seconds: dict[str, float] | None) -> str:
    if seconds is None:
        return "-"
    return f"{1e3 * seconds['median']:.2f} ({1e3 * seconds['best_decile']:.2f})"


def _milliseconds(seconds: dict[str, float] | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds['median']:.2f}"


if __name__ == "__main__":
    write_page(
        ROOT / "docs" / "scale.md", json.loads((ROOT / "benchmarks" / "results" / "step.json").read_text())
    )
