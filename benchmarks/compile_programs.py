"""What a cold first call of every benchmark program costs: `python -m benchmarks.compile_programs [--only REGEX]`.

Each program is planned and compiled ahead of time for an H200, as the first call plans it (for arrays, whose sizes are
symbols of a plan; not for one shape), behind the first compilation of a process, without the disk cache; no device is
needed.  Figures are processor time of this process and those that it starts, as in
`benchmarks.compile`, and what a user waits on the clock, which is less where several kernels are compiled on threads;
the smallest of several processes, each of which does all programs.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import polyfuse as pf
from benchmarks.__main__ import SETS
from benchmarks.compile import Figures, smallest, stopwatch, versions
from benchmarks.peers import polyfuse_function
from benchmarks.programs import Program
from polyfuse.explain.kernels import KernelView

RESULTS = Path(__file__).parent / "results" / "compile_programs.json"
ROUNDS = 3
COLUMNS = ["set", "program", "plan, ms", "compile, ms", "cold, ms", "waited, ms", "limit, ms"]
WHAT = ("plan", "compile", "wait", "limit")

LIMIT, LIMIT_OF_TILES = 0.3, 0.8
"""Seconds that a cold call may take; and where some kernel is of a stencil or a contraction."""
TILES = frozenset(
    ("stencil", "windows", "window_sums", "tiles", "pixel_tiles", "contraction", "few_results", "row_tiles", "pairs")
)
"""Strategies of stencils, of transposed reads, and of contractions: each thread has a tile of results."""
NEIGHBOURS = 5
"""Places from which on a kernel that loads one array at each of them is of a stencil, whatever its strategy."""


def limit(plan: pf.Plan) -> float:
    """Seconds that a cold call of a program with this plan may take."""
    return LIMIT_OF_TILES if any(kernel.strategy in TILES or _is_stencil(kernel) for kernel in plan.kernels) else LIMIT


def _is_stencil(kernel: KernelView) -> bool:
    loads = Counter((p.value, p.component) for p in kernel.schedule.placed if p.role == "load")
    return max(loads.values(), default=0) >= NEIGHBOURS


def programs(only: str = "") -> Iterator[tuple[str, Program]]:
    """Each program, under the first set that has it."""
    seen = set[str]()
    for name, members in SETS.items():
        for program in members:
            if program.name not in seen and re.search(only, program.name):
                seen.add(program.name)
                yield name, program


def cold(only: str = "") -> Figures:
    """Seconds of every program in this process, by ``set: program``, and its limit."""
    pf.jit(lambda x: x + 1).compile(pf.spec("f32[N]"), target="h200")
    found: Figures = {}
    for name, program in programs(only):
        arrays = [np.empty(i.shape, pf.spec(f"{i.dtype}[]").dtype.numpy) for i in program.inputs]  # touches no memory
        function, key = polyfuse_function(program), f"{name}: {program.name}"
        gc.collect()
        gc.freeze()  # a look through what hundreds of other programs left takes longer than most of them
        start = time.perf_counter()
        with stopwatch(found, f"{key} plan"):
            lowered = function.lower(*arrays, target="h200")
        with stopwatch(found, f"{key} compile"):
            lowered.compile()
        found[f"{key} wait"] = time.perf_counter() - start
        found[f"{key} limit"] = limit(lowered.plan)
    return found


def measure(rounds: int, only: str = "") -> Figures:
    """The same, the smallest of several processes."""
    command = [sys.executable, "-m", "benchmarks.compile_programs", "--child", "--only", only]
    environment = {**os.environ, "POLYFUSE_CACHE": "off"}
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(rounds)]
    return smallest([json.loads(run.stdout.splitlines()[-1]) for run in runs])


def record(found: Figures, only: str = "") -> Figures:
    """Milliseconds per program."""
    rows = []
    for name, program in programs(only):
        plan, compile, wait, most = [found[f"{name}: {program.name} {what}"] for what in WHAT]
        rows.append([name, program.name, *(round(1e3 * s, 1) for s in (plan, compile, plan + compile, wait, most))])
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} threads, load {os.getloadavg()[0]:.1f}",
        "versions": versions(),
        "date": str(datetime.date.today()),
        "command": "python -m benchmarks.compile_programs",
        "unit": "milliseconds of processor time, and on the clock; the smallest of several processes",
        "columns": COLUMNS,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="programs whose name this regular expression finds; none is written")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(cold(chosen.only)))
        return
    made = record(measure(chosen.rounds, chosen.only), chosen.only)
    if not chosen.only:
        RESULTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in made["rows"]]
    slow = [row for row in rows if row["cold, ms"] > row["limit, ms"]]
    for cells in [COLUMNS, *[row.values() for row in sorted(slow, key=lambda row: row["limit, ms"] - row["cold, ms"])]]:
        print("  ".join(f"{cell!s:>14s}" for cell in cells))
    waited = [row for row in rows if row["waited, ms"] > row["limit, ms"]]
    print(f"{len(slow)} of {len(rows)} programs take longer than their limit, {len(waited)} on the clock")


if __name__ == "__main__":
    main()
