"""What share of the nodes a changed edge touches, layer by layer, and how much time that saves.

    python benchmarks/update.py --prepare
    python benchmarks/update.py --record benchmarks/results/update.json --page docs/update.md

A graph like ogbn-products' training part (196,615 nodes, some 11 million directed edges, 100 columns; the
first command draws it) and an encoder of 3 layers with weights as drawn: time does not depend on them. Of
the undirected edges 0.001 % to 1 % are changed: half of them removed, as many new ones between random
nodes. Then the tables of the changed graph are made out of the old ones and from scratch, one after the
other, by the same code: files, checksums and all. Every value is compared, bit for bit. `embed_seconds` is
embedding from scratch in memory alone, without keeping any table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrgi.compute.machine import hardware, versions
from lrgi.encoder import Encoder
from lrgi.graph.arrays import open_array
from lrgi.graph.change import EdgeChange, edge_change, write_changed_edges
from lrgi.graph.graph import Graph
from lrgi.graph.store import open_graph, save_graph
from lrgi.graph.synthetic import products_training
from lrgi.layers.make import make_layer
from lrgi.seed import stream
from lrgi.update.refresh import Reach, refresh_tables
from lrgi.update.tables import KeptTables, TablesWork, kept_tables

BEGIN, END = "<!-- update: begin -->\n", "<!-- update: end -->"
NOTHING = np.empty(0, np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=196_615)
    parser.add_argument("--degree", type=int, default=57)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--kinds", default="gat,gcn")
    parser.add_argument("--shares", default="0.00001,0.0001,0.001,0.01")
    parser.add_argument("--repeat", type=int, default=1, help="of which the least counts")
    parser.add_argument("--prepare", action="store_true", help="only draw the graph, into --scratch")
    parser.add_argument("--shared", action="store_true", help="the machine had other work to do: say so")
    parser.add_argument("--page", type=Path, help="whose table is to say what the record says")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/lrgi-update-benchmark"))
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    place = given.scratch / f"graph-{given.nodes}-{given.degree}"
    if not place.is_dir():
        save_graph(products_training(given.nodes, given.degree), place)
    if given.prepare:
        return
    graph, rows = open_graph(place), []
    for kind in given.kinds.split(","):
        encoder = drawn_encoder(kind, graph.num_features, given.width, given.layers)
        work = given.scratch / kind
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        old = tables(encoder, graph, work, "old")
        for share in map(float, given.shares.split(",")):
            row = {"layer": kind, "changed": share, **measured(encoder, graph, old, share, given.repeat)}
            rows.append(row)
            print(in_words(row), flush=True)
        shutil.rmtree(work)
    if given.record:
        if given.record.is_file():  # of other kinds of layers, measured before
            before = json.loads(given.record.read_text())["rows"]
            rows = [row for row in before if row["layer"] not in given.kinds.split(",")] + rows
        record = as_record(rows, graph, given)
        given.record.parent.mkdir(parents=True, exist_ok=True)
        given.record.write_text(json.dumps(record, indent=2) + "\n")
    if given.page and given.record:
        text = given.page.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        given.page.write_text(f"{before}{BEGIN}{table_of(json.loads(given.record.read_text()))}{END}{after}")


def drawn_encoder(kind: str, columns: int, width: int, count: int) -> Encoder:
    layers = []
    for number in range(count):
        layer = make_layer(kind, columns if number == 0 else width, width)
        layer.reset(torch.Generator().manual_seed(number))
        layers.append(layer)
    return Encoder(layers)


def changed_graph(graph: Graph, share: float, folder: Path) -> tuple[Graph, EdgeChange]:
    """A share of the undirected edges removed by half, and as many new ones."""
    random = stream(0, "benchmark", "update")
    many = max(1, int(graph.num_edges / 2 * share / 2))
    at = random.choice(graph.num_edges, many, replace=False)
    receivers = np.searchsorted(graph.indptr, at, side="right") - 1
    gone = once(np.stack([graph.indices[at].astype(np.int64), receivers]))
    ends = random.integers(0, graph.num_nodes, (2, many))
    new = once(ends[:, ends[0] != ends[1]])
    both = np.intersect1d(new[0] * graph.num_nodes + new[1], gone[0] * graph.num_nodes + gone[1])
    new = new[:, ~np.isin(new[0] * graph.num_nodes + new[1], both)]
    change = edge_change(graph, graph.num_nodes, new, gone, directed=False)
    folder.mkdir(parents=True)
    entries = write_changed_edges(graph, change, folder)
    indptr, indices = (np.array(open_array(folder, entries[key])) for key in ("indptr", "indices"))
    return Graph.trusted(indptr, indices, graph.features), change


def once(edges: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(edges, axis=0), axis=1)


def measured(encoder: Encoder, graph: Graph, old: KeptTables, share: float, repeat: int) -> dict[str, Any]:
    scratch_folder = old.directory.parents[1]
    new, change = changed_graph(graph, share, scratch_folder / f"edges {share}")
    reach = Reach(change.changed_rows(graph), NOTHING, False)
    update, scratch, embed = [], [], []
    for number in range(repeat):
        begun = time.perf_counter()
        work = TablesWork(scratch_folder, {"graph": f"new {number}"}, lambda text: None)
        layers = refresh_tables(encoder, new, old, reach, work)
        work.finish({})
        update.append((time.perf_counter() - begun, layers))
        begun = time.perf_counter()
        fresh = tables(encoder, new, scratch_folder, f"scratch {number}")
        scratch.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        encoder.embed(new)
        embed.append(time.perf_counter() - begun)
        made = kept_tables(scratch_folder, {"graph": f"new {number}"})
        assert made is not None
        for layer in range(1, len(encoder.layers) + 1):
            same = made.table(layer).array.view(np.int32) == fresh.table(layer).array.view(np.int32)
            if not same.all():
                raise SystemExit(f"layer {layer} differs in {np.count_nonzero(~same)} values")
        for place in (made.directory, fresh.directory):
            shutil.rmtree(place)
    seconds, layers = min(update, key=lambda one: one[0])
    return {
        "changed_edges": (len(change.receivers) + len(change.gone)) // 2,
        "rows_with_other_neighbours": len(reach.rows),
        "layers": [{**asdict(layer), "share": layer.rows / layer.nodes} for layer in layers],
        "update_seconds": round(seconds, 3),
        "scratch_seconds": round(min(scratch), 3),
        "embed_seconds": round(min(embed), 3),
        "bits": "equal",
    }


def tables(encoder: Encoder, graph: Graph, folder: Path, name: str) -> KeptTables:
    work = TablesWork(folder, {"graph": name}, lambda text: None)
    refresh_tables(encoder, graph, None, Reach(NOTHING, NOTHING, False), work)
    work.finish({})
    found = kept_tables(folder, {"graph": name})
    assert found is not None
    return found


def in_words(row: dict[str, Any]) -> str:
    shares = ", ".join(f"{layer['share']:.2%} ({layer['seconds']:.2f} s)" for layer in row["layers"])
    return (
        f"{row['layer']:4} {row['changed_edges']:,} edges: touched {shares}; update "
        f"{row['update_seconds']:.2f} s, from scratch {row['scratch_seconds']:.2f} s"
    )


def as_record(rows: list[dict[str, Any]], graph: Graph, given: argparse.Namespace) -> dict[str, Any]:
    return {
        "benchmark": "update",
        "command": f"python benchmarks/update.py --shares {given.shares} --record {given.record}",
        "machine_was_shared": given.shared,
        "settings": {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "columns": graph.num_features,
            "width": given.width,
            "layers": given.layers,
            "seed": 0,
            "threads": torch.get_num_threads(),
            "repeat": given.repeat,
        },
        "hardware": hardware(),
        "load_average_at_end": [round(x, 1) for x in os.getloadavg()],
        "versions": versions(),
        "rows": rows,
    }


def table_of(record: dict[str, Any]) -> str:
    """The rows of the page."""
    numbers = range(1, record["settings"]["layers"] + 1)
    titles = ["layers", "edges changed", *(f"layer {n} touched" for n in numbers)]
    titles += ["update", "from scratch", "embedding in memory alone"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in record["rows"]:
        shares = " | ".join(f"{layer['share']:.1%}" for layer in row["layers"])
        which = f"{row['layer']} | {row['changed_edges']:,} ({row['changed']:.3%})"
        seconds = (row[f"{what}_seconds"] for what in ("update", "scratch", "embed"))
        lines.append(f"| {which} | {shares} | {' | '.join(f'{one:.2f} s' for one in seconds)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
