"""Rows of measurements as lines, tables and records."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.gpu import Row


def best_peer(row: Row) -> tuple[str, float] | None:
    """The fastest of the others, and its microseconds."""
    others = {name: t for name, t in row.times.items() if name != "polyfuse"}
    return min(others.items(), key=lambda item: item[1]) if others else None


def floor(row: Row, speed: float) -> float:
    """Microseconds that moving inputs and outputs once takes at copy speed."""
    return 1e6 * row.bytes / speed


def line(row: Row, speed: float) -> str:
    times = "  ".join(f"{name} {t:.1f}" for name, t in row.times.items())
    failures = "  ".join(f"{name} FAILED {why}" for name, why in row.failures.items())
    if row.hosts:
        times += "  host " + "  ".join(f"{name} {t:.1f}" for name, t in row.hosts.items())
    return (
        f"{row.name:26s} floor {floor(row, speed):7.1f}  {times}  predicted {row.predicted:.1f}  "
        f"kernels {row.kernels}  cold {row.compile_seconds:.2f} s  error {row.error:.1e}  {failures}"
    )


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(rows: Sequence[Row], speed: float) -> str:
    ratios = [(row, best_peer(row)) for row in rows if "polyfuse" in row.times]
    wins = [best[1] / row.times["polyfuse"] for row, best in ratios if best]
    roofs = [floor(row, speed) / row.times["polyfuse"] for row, _ in ratios]
    return (
        f"copy {speed / 1e12:.2f} TB/s   best peer / ours: geometric mean {geometric_mean(wins):.3f}, "
        f"least {min(wins, default=math.nan):.3f}   of the roof: geometric mean {geometric_mean(roofs):.3f}"
    )


def table(rows: Sequence[Row], speed: float) -> dict[str, Any]:
    """`columns` and `rows` of a results file."""
    cells: list[list[Any]] = []
    for row in rows:
        if "polyfuse" not in row.times:
            cells.append([row.name, row.kernels, "", "failed", "", "", ""])
            continue
        best, ours = best_peer(row), row.times["polyfuse"]
        share = f"{100 * floor(row, speed) / ours:.0f} %"
        peer = [f"{best[1]:.1f} ({best[0]})", f"{best[1] / ours:.2f}x"] if best else ["", ""]
        cells.append([row.name, row.kernels, floor(row, speed), ours, share, *peer])
    return {
        "columns": ["program", "kernels", "floor, us", "polyfuse, us", "of the roof", "best peer, us", "speed-up"],
        "rows": cells,
    }


def figures(row: Row) -> dict[str, Any]:
    """Every figure of a row, rounded to what was measured."""

    def rounded(value: Any) -> Any:
        match value:
            case float():
                return float(f"{value:.4g}")
            case dict():
                return {k: rounded(v) for k, v in value.items()}
            case _:
                return value

    return {name: rounded(value) for name, value in dataclasses.asdict(row).items()}
