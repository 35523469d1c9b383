"""A results file of `python -m benchmarks run` as a roofline: operations per second over operations per byte.

    python -m benchmarks roofline benchmarks/results/h200_table.json benchmarks/results/h200_roofline.svg

Bytes are those that a program must move (inputs and outputs once), operations those that its kernels execute; the roof
is the copy speed measured in the same run and the float32 rate of the target.  Needs matplotlib (the extra ``viz``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from polyfuse.target import named


def points(record: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Per program: name, operations per byte, operations per second."""
    found = []
    for figure in record["figures"]:
        microseconds = figure["times"].get("polyfuse")
        if microseconds and figure["flops"]:
            found.append((figure["name"], figure["flops"] / figure["bytes"], figure["flops"] / microseconds * 1e6))
    return found


def draw(record: dict[str, Any], target: str, path: Path) -> None:
    """Write the plot; the ending of `path` names the format."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "polyfuse"  # the same record gives the same file
    from matplotlib import pyplot

    bandwidth, flops = record["copy_bytes_per_second"], named(target).flops
    figure, axes = pyplot.subplots(figsize=(9, 6))
    found = points(record)
    low = min(x for _, x, _ in found) / 2
    high = 2 * max(flops / bandwidth, max(x for _, x, _ in found))
    axes.plot([low, flops / bandwidth, high], [low * bandwidth, flops, flops], color="0.3")
    for name, x, y in found:
        axes.plot(x, y, "o", color="tab:blue", markersize=4)
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(4, -8), fontsize=6)
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="operations per second")
    axes.set_title(f"{record['machine']}, {record['date']}: {bandwidth / 1e12:.2f} TB/s copied", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main(source: str, output: str, target: str) -> int:
    draw(json.loads(Path(source).read_text()), target, Path(output))
    return 0
