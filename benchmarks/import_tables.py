"""How long `lrgi import` takes for random edges with string ids, and how much memory, beside pandas.

    python benchmarks/import_tables.py --record benchmarks/results/import_tables.json

Edges and a node table (id, a number with gaps, a category) are written as Parquet; each import runs in a
process of its own, whose peak of resident memory is what the kernel says (VmHWM: mapped files and shared
pages included). pandas does the same on a tenth: read, number the ids, drop loops, merge repeats, sort into
CSR, standardise, one-hot, write .npy files.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

MEMORY, THREADS = "2GB", 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/lrgi-import-benchmark"))
    parser.add_argument("--record", type=Path)
    parser.add_argument("--shared", action="store_true", help="the machine had other work to do: say so")
    parser.add_argument("--only", choices=("lrgi", "pandas"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measured(given.only, given.scratch)))
        return
    rows = []
    try:
        for who, share in (("lrgi", 1), ("lrgi", 10), ("pandas", 10)):
            edges, nodes = given.edges // share, given.nodes // share
            make_tables(given.scratch, edges, nodes)
            row = {"who": who, "edges": edges, "nodes": nodes, **in_own_process(who, given.scratch)}
            row["edges_per_second"] = round(edges / row["seconds"])
            rows.append(row)
            print(f"{who:6} {edges:>12,} edges {row['seconds']:8.1f} s {row['peak_gb']:6.2f} GB", flush=True)
    finally:
        shutil.rmtree(given.scratch, ignore_errors=True)
    if given.record:
        keep(given.record, rows, given.shared)


def make_tables(folder: Path, edges: int, nodes: int) -> None:
    """edges.parquet (src, dst) and nodes.parquet (id, age, kind); ends are uniform, by a hash of the row."""
    import duckdb

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    name = "'user-' || lpad(({})::VARCHAR, 9, '0')"
    with duckdb.connect(config={"memory_limit": MEMORY, "threads": THREADS}) as db:
        ends = [name.format(f"hash(range * 2 + {end}) % {nodes}") for end in (0, 1)]
        db.execute(
            f"COPY (SELECT {ends[0]} AS src, {ends[1]} AS dst FROM range({edges})) "
            f"TO '{folder}/edges.parquet' (FORMAT parquet)"
        )
        db.execute(
            f"COPY (SELECT {name.format('range')} AS id, "
            "CASE WHEN hash(range + 7) % 10 > 0 THEN (hash(range) % 1000) / 10.0 END AS age, "
            f"'kind ' || (hash(range + 3) % 12) AS kind FROM range({nodes})) "
            f"TO '{folder}/nodes.parquet' (FORMAT parquet)"
        )


def in_own_process(who: str, folder: Path) -> dict[str, Any]:
    words = [sys.executable, __file__, "--only", who, "--scratch", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(who: str, folder: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    counts = with_lrgi(folder) if who == "lrgi" else with_pandas(folder)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": round(seconds, 1), "peak_gb": round(peak / 1e9, 2), "kept_edges": counts}


def with_lrgi(folder: Path) -> int:
    """As the command does it, torch and all."""
    from lrgi.interop.tables.read import Wishes, import_tables

    done = import_tables(
        f"{folder}/edges.parquet",
        folder / "graph",
        nodes=f"{folder}/nodes.parquet",
        wishes=Wishes(memory=MEMORY, threads=THREADS),
    )
    return done.edges.kept


def with_pandas(folder: Path) -> int:
    """The ordinary way, written with care for its memory."""
    import pandas as pd

    nodes = pd.read_parquet(folder / "nodes.parquet")
    edges = pd.read_parquet(folder / "edges.parquet")
    place = pd.Index(nodes["id"])
    src, dst = place.get_indexer(edges["src"]), place.get_indexer(edges["dst"])
    del edges
    keep = (src >= 0) & (dst >= 0) & (src != dst)
    src, dst, count = src[keep], dst[keep], len(nodes)
    keys = np.unique(np.concatenate([dst * count + src, src * count + dst]))
    indptr = np.searchsorted(keys, np.arange(count + 1) * count)
    age = nodes["age"]
    parts = [((age - age.mean()) / age.std(ddof=0)).fillna(0), age.isna(), pd.get_dummies(nodes["kind"])]
    out = folder / "pandas"
    out.mkdir()
    np.save(out / "indptr.npy", indptr)
    np.save(out / "indices.npy", (keys % count).astype(np.int32))
    np.save(out / "features.npy", pd.concat(parts, axis=1).to_numpy(np.float32))
    np.save(out / "ids.npy", nodes["id"].to_numpy(dtype=np.str_))
    return len(keys) // 2


def keep(path: Path, rows: list[dict[str, Any]], shared: bool) -> None:
    import duckdb
    import pandas as pd

    from lrgi.compute.machine import hardware, versions

    record = {
        "benchmark": "import_tables",
        "command": f"python benchmarks/import_tables.py --record {path}" + (" --shared" if shared else ""),
        "machine_was_shared": shared,
        "settings": {"memory": MEMORY, "threads": THREADS},
        "hardware": hardware(),
        "load_average_at_end": [round(x, 1) for x in os.getloadavg()],
        "versions": {**versions(), "duckdb": duckdb.__version__, "pandas": pd.__version__},
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
