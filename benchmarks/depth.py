"""Is depth free? Peak memory of a fit with 15 layers against one with 3.

Each fit runs in a process of its own on the graph shaped like ogbn-products' training part, with the
paper's settings but a few steps per layer (a step's memory does not depend on how many there are).
What is compared is the peak resident memory of the process (VmHWM), and what of it the fit added.

    python benchmarks/depth.py [--nodes 196615] [--updates 20] [--json benchmarks/results/depth.json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from lrgi.compute.machine import describe_machine


def main() -> None:
    """Measure every depth in its own process and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=196_615)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--depths", type=int, nargs="+", default=[3, 15])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.nodes, options.updates)))
        return
    rows = [_in_a_process(depth, options) for depth in options.depths]
    for row in rows:
        print(
            f"L {row['layers']:3d}: peak {row['peak_mb']:8.1f} MB, of which the fit added "
            f"{row['peak_mb'] - row['before_mb']:7.1f} MB; {row['seconds']:.1f} s"
        )
    ratio = rows[-1]["peak_mb"] / rows[0]["peak_mb"]
    print(f"peak at L {rows[-1]['layers']} / peak at L {rows[0]['layers']}: {ratio:.4f}; demanded: 1.05")
    if options.json:
        record = {"benchmark": "depth", "machine": describe_machine(), "nodes": options.nodes,
                  "updates_per_layer": options.updates, "rows": rows, "ratio": ratio}  # fmt: skip
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=2) + "\n")


def measure(depth: int, nodes: int, updates: int) -> dict[str, float]:
    """Fit `depth` layers here; peak resident memory before and after."""
    import time

    from lrgi.graph.synthetic import products_training
    from lrgi.training.fit import fit_encoder
    from lrgi.training.presets import preset

    graph = products_training(nodes=nodes)
    plan = preset("products").with_settings(layers=depth, epochs=0, updates=updates)
    Path("/proc/self/clear_refs").write_text("5")  # forget the generator's own peak
    before, start = _peak_mb(), time.perf_counter()
    fit_encoder(graph, plan)
    seconds = time.perf_counter() - start
    return {"layers": depth, "before_mb": before, "peak_mb": _peak_mb(), "seconds": seconds}


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _in_a_process(depth: int, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", str(depth), "--nodes", str(options.nodes)]
    done = subprocess.run(
        [*command, "--updates", str(options.updates)], check=True, capture_output=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    main()
