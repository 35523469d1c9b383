"""What rounds of shake win of the benchmark programs, and cost: `python -m benchmarks.rounds [--write]`.

Every program is planned for an H200 without them, as users have it by default, and with all of them, which only those
get who grant a search its time.  Predicted times are compared; processor time is that of the planning.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

import polyfuse as pf
from benchmarks.compile import versions
from benchmarks.compile_programs import programs
from benchmarks.peers import bound
from benchmarks.programs import Program
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services

RESULTS = Path(__file__).parent / "results" / "rounds.json"
ROUNDS = 12
COLUMNS = ["set", "program", "us without", "us with", "plan without, ms", "plan with, ms"]


def planned(program: Program, effort: int) -> tuple[float, float]:
    """Predicted microseconds of a plan with so many rounds, and milliseconds that it took."""
    planner = functools.partial(plan_program, effort=effort)
    services = Services(NumPyFrontend(), planner, backend, target_of)
    function = Jitted(bound(program, np), Options().updated(dict(program.options)), services)
    specs = [pf.spec(f"{i.dtype}[{', '.join(map(str, i.shape))}]") for i in program.inputs]
    start = time.process_time()
    plan = function.plan(*specs, target="h200")
    spent = time.process_time() - start
    return 1e6 * plan.cost_analysis().seconds, 1e3 * spent


def measure() -> dict[str, Any]:
    pf.jit(lambda x: x + 1).plan(pf.spec("f32[N]"), target="h200")
    rows: list[tuple[str, str, float, float, float, float]] = []
    for name, program in programs():
        planned(program, 0)  # what is remembered within a process, for both
        (plain, quick), (shaken, slow) = planned(program, 0), planned(program, ROUNDS)
        rows.append((name, program.name, round(plain, 3), round(shaken, 3), round(quick, 1), round(slow, 1)))
    ratios = [plain / shaken for _, _, plain, shaken, _, _ in rows]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}",
        "versions": versions(),
        "date": str(datetime.date.today()),
        "command": "python -m benchmarks.rounds --write",
        "faster with rounds by the geometric mean": round(mean, 6),
        "at most": round(max(ratios), 5),
        "planning without, ms": round(sum(row[4] for row in rows)),
        "planning with, ms": round(sum(row[5] for row in rows)),
        "columns": COLUMNS,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    write = parser.parse_args().write
    found = measure()
    for what, value in found.items():
        if what not in ("rows", "columns"):
            print(f"{what}: {value}")
    for row in found["rows"]:
        if row[2] > row[3]:
            print("  ".join(f"{cell!s:>14s}" for cell in row))
    if write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
