"""On paper: papers100M on 8 to 64 machines. Memory, bytes per step, time per epoch, where it stops scaling.

`python benchmarks/many_machines.py [--page docs/many-machines.md]`. Nothing is run here: the numbers follow
from the graph's sizes, the formulas of `lrgi.training.traffic`, and the records of two benchmarks on one
machine (`world.py`: seconds of a step by its rows; `embed.py`: edges per second). The page has the same
tables, and a test holds them together.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lrgi.directory import write_file
from lrgi.experiments.pages import with_blocks
from lrgi.report.tables import Cell, Column, markdown_table
from lrgi.training.plan import FitPlan
from lrgi.training.traffic import Traffic, step_traffic

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "many-machines.md"

MACHINES = (1, 8, 16, 32, 64)
KINDS: dict[str, dict[str, Any]] = {
    "networks": {},
    "networks, bf16": {"reduction": "bf16"},
    "closed": {"predictors": "closed"},
}


@dataclass(frozen=True)
class Setting:
    """What is assumed. The graph is ogbn-papers100M's size, every edge stored both ways."""

    nodes: int = 111_059_956
    edges: int = 2 * 1_615_685_872
    columns: int = 128
    width: int = 128
    layers: int = 3
    batch: int = 4096
    cores: float = 16.0  # a machine takes a step so many times as fast as one thread of the record's
    latency: float = 30e-6  # seconds of one hop of a ring

    @property
    def degree(self) -> float:
        return self.edges / self.nodes

    @property
    def structure_bytes(self) -> int:
        return 8 * (self.nodes + 1) + 4 * self.edges

    @property
    def table_bytes(self) -> int:
        return 4 * self.nodes * self.width


def compute_seconds(record: dict[str, Any], predictors: str, rows: float, setting: Setting) -> float:
    """Of a step on so many rows: between the measured ones on straight lines, beyond them on the last."""
    kind = "closed" if predictors == "closed" else "network"
    found = sorted(
        (row["batch"], row["step_ms"])
        for row in record["rows"]
        if row["processes"] == 1 and row["predictors"] == kind
    )
    (b, y), (c, z) = found[-2:]
    if rows > c:
        return (z + (rows - c) * (z - y) / (c - b)) / 1e3 / setting.cores
    xs, ys = zip(*found, strict=True)
    return float(np.interp(rows, xs, ys)) / 1e3 / setting.cores


def traffic(kind: str, machines: int, setting: Setting) -> Traffic:
    how = {"predictors": "network", "inputs": "given", **KINDS[kind]}
    plan = FitPlan(layers=setting.layers, width=setting.width, batch_size=setting.batch, **how)
    return step_traffic(plan, setting.columns, 1, machines)


def network_seconds(sent: Traffic, machines: int, gbit: float, setting: Setting) -> float:
    """A sum is 2 (P - 1) hops around the ring; nothing of it happens while something is computed."""
    hops = 2 * (machines - 1) * sent.messages
    return 8 * sent.total / (gbit * 1e9) + hops * setting.latency


def embed_seconds(record: dict[str, Any], rate: float, machines: int, setting: Setting) -> float:
    """A layer of all nodes: edges are shared; what nodes offer their neighbours every machine computes."""
    rows = record["measures"]
    per_edge = rows["rows"]["gat"]["seconds"] / rows["edges"] * record["settings"]["threads"]
    offers = 2 * setting.nodes * setting.columns * setting.width / rate
    return (per_edge * setting.edges / machines + offers) / setting.cores


def held(machines: int, setting: Setting) -> tuple[float, float]:
    """Shares of the nodes whose rows and whose edges a part holds, if neighbours are anyone.

    A node is met with probability 1 - (1 - share)^degree by those who are in already.
    """
    own = 1 / machines
    first = 1 - (1 - own) ** (setting.degree + 1)
    second = 1 - (1 - first) ** (setting.degree + 1)
    return second, first


def step_rows(gbit: float, world: dict[str, Any], setting: Setting) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for kind in KINDS:
        alone = compute_seconds(world, kind, setting.batch, setting)
        for machines in MACHINES:
            sent = traffic(kind, machines, setting)
            work = compute_seconds(world, kind, setting.batch / machines, setting)
            wire = 0.0 if machines == 1 else network_seconds(sent, machines, gbit, setting)
            epoch = (work + wire) * math.ceil(setting.nodes / setting.batch) * setting.layers
            rows.append([
                kind, machines, sent.total / 1e6, 1e3 * work, 1e3 * wire, 1e3 * (work + wire),
                epoch / 60, alone / (work + wire),
            ])  # fmt: skip
    return rows


def memory_rows(setting: Setting) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for machines in MACHINES:
        nodes, edges = held(machines, setting)
        tables, whole = setting.table_bytes / 1e9, setting.structure_bytes / 1e9
        # indptr, names, owners and degrees of every node held; the edges of those whose rows are whole
        structure = (nodes * setting.nodes * (8 + 4 + 4 + 8) + edges * 4 * setting.edges) / 1e9
        part: list[Cell] = [structure + nodes * tables, structure + 2 * nodes * tables, 100 * nodes]
        rows.append([machines, whole + tables, whole + 2 * tables, *([None] * 3 if machines == 1 else part)])
    return rows


def layer_rows(setting: Setting, embed: dict[str, Any], step: dict[str, Any]) -> list[list[Cell]]:
    """Once per layer: seconds of embedding, and of sending everyone the rows that it has not made."""
    rows: list[list[Cell]] = []
    for machines in MACHINES:
        travels = (1 - 1 / machines) * setting.table_bytes
        work = embed_seconds(embed, product_rate(step), machines, setting)
        rows.append([machines, work, travels / 1e9, 8 * travels / 10e9, 8 * travels / 100e9])
    return rows


def product_rate(step: dict[str, Any]) -> float:
    """Multiply-adds, counted twice, per second and thread."""
    return float(step["rates"]["tiles"]) / int(step["settings"]["threads"])


def best_rows(world: dict[str, Any], setting: Setting) -> list[list[Cell]]:
    """For every batch the number of machines with the shortest step; one more is slower."""
    rows: list[list[Cell]] = []
    for batch in (512, 2048, 8192, 32768):
        own = replace(setting, batch=batch)
        for kind in KINDS:
            line: list[Cell] = [kind, batch]
            for gbit in (10.0, 100.0):
                seconds = {
                    machines: compute_seconds(world, kind, batch / machines, own)
                    + (
                        network_seconds(traffic(kind, machines, own), machines, gbit, own)
                        if machines > 1
                        else 0
                    )
                    for machines in range(1, 65)
                }
                best = min(seconds, key=seconds.__getitem__)
                line += [best, seconds[1] / seconds[best]]
            rows.append(line)
    return rows


def scaling_block(world: dict[str, Any]) -> str:
    head = columns(
        "predictors", "batch", "processes", "ms a step", "of it sending and waiting", "bytes sent a step"
    )
    rows = [
        [row[key] for key in ("predictors", "batch", "processes", "step_ms", "waited_ms", "sent")]
        for row in world["rows"]
        if row["batch"] in (512, 2048)
    ]
    on = world["hardware"]
    return (
        f"{markdown_table(head, rows)}\n\nD {world['width']}, one thread per process, {world['nodes']:,} "
        f"nodes, medians of {world['steps']} steps. Measured on: {on['cpu']}, {on['cores']} cores "
        f"(torch {world['versions']['torch']})."
    )


def columns(*titles: str, digits: int = 1) -> list[Column]:
    return [Column(title, digits, text=title == "predictors") for title in titles]


def blocks(setting: Setting | None = None) -> dict[str, str]:
    """The generated parts of the page."""
    setting = setting or Setting()
    world, embed, step = (
        json.loads((RESULTS / f"{name}.json").read_text()) for name in ("world", "embed", "step")
    )
    head = columns(
        "predictors", "machines", "MB sent a step", "ms computing", "ms network", "ms a step",
        "minutes an epoch, 3 layers", "times one machine", digits=2,
    )  # fmt: skip
    memory = columns(
        "machines", "whole: GB while fitting", "whole: GB while embedding", "parts: GB while fitting",
        "parts: GB while embedding", "parts: % of the nodes",
    )  # fmt: skip
    best = columns(
        "predictors", "batch", "10 Gbit/s: machines", "times one machine", "100 Gbit/s: machines",
        "times one machine",
    )  # fmt: skip
    layer = columns(
        "machines", "seconds embedding", "GB to each machine", "seconds at 10 Gbit/s", "seconds at 100 Gbit/s"
    )
    return {
        "scaling": scaling_block(world),
        "papers100M:10": markdown_table(head, step_rows(10, world, setting)),
        "papers100M:100": markdown_table(head, step_rows(100, world, setting)),
        "papers100M:memory": markdown_table(memory, memory_rows(setting)),
        "papers100M:best": markdown_table(best, best_rows(world, setting)),
        "papers100M:layer": markdown_table(layer, layer_rows(setting, embed, step)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", metavar="FILE", help="write the tables into this page")
    given = parser.parse_args()
    made = blocks()
    for name, text in made.items():
        print(f"{name}\n{text}\n")
    if given.page:
        page = Path(given.page)
        write_file(page, with_blocks(page.read_text(encoding="utf-8"), made))
