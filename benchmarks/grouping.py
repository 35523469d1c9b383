"""How the time of the grouping search grows with the program: `python -m benchmarks.grouping [--write]`.

Programs of 10, 100 and 1,000 statements (residual blocks, normalisations, softmaxes, column sums; one chain; many
small independent updates) with the model of the tests for price and legality.  The table shows processor time, since
other work on the machine must not count.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from polyfuse.grouping import search
from tests.grouping.model import Model, Program
from tests.grouping.programs import blocks, chain, optimizer

RESULTS = Path(__file__).parent / "results" / "grouping.json"
SIZES = (10, 100, 1000)
FAMILIES: dict[str, Callable[[int], Program]] = {
    "blocks": blocks,
    "chain": chain,
    "updates": lambda statements: optimizer(max(1, statements // 3)),
}
COLUMNS = ["program", "statements", "kernels", "ms", "ms per statement", "prices", "legality questions"]


def measure(name: str, size: int, repeats: int = 3) -> list[object]:
    """One row: the best of `repeats` runs, each with a fresh model, so that nothing is remembered."""
    program = FAMILIES[name](size)
    best, kernels, asked = float("inf"), 0, dict[str, int]()
    for _ in range(repeats):
        model = Model(program)
        start = time.process_time()
        grouping = search(model)
        best = min(best, time.process_time() - start)
        kernels, asked = len(grouping.kernels), model.asked
    statements = sum(op.kind != "input" for op in program.ops)
    each = f"{best / statements * 1e3:.2f}"
    return [name, statements, kernels, f"{best * 1e3:.1f}", each, asked["price"], asked["legal"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    write = parser.parse_args().write
    rows = [measure(name, size) for name in FAMILIES for size in SIZES]
    for row in [COLUMNS, *rows]:
        print("  ".join(f"{cell!s:>18}" for cell in row))
    if write:
        versions = f"Python {platform.python_version()}"
        command = "python -m benchmarks.grouping --write"
        machine = f"one core of {platform.machine()} {sys.platform}"
        source = dict(machine=machine, versions=versions, date=str(date.today()), command=command)
        table = dict(**source, columns=COLUMNS, rows=rows)
        RESULTS.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
