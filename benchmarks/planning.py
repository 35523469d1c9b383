"""How planning grows with the program: `python -m benchmarks.planning [--write] [--sizes 10 100] [--families adam]`.

Programs of about 10, 100 and 1,000 statements of every kind in `benchmarks.planning_programs`, planned for an H200,
each in a process of its own after a small plan that imports everything.  Processor seconds are ours; wall seconds and
the load of the machine are beside them.  `placed` and `isl` count work, the same on every machine: statements placed to
learn prices, and questions to isl that had to be answered anew.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import date
from pathlib import Path

import polyfuse as pf
from benchmarks.planning_programs import FAMILIES, Case, pointwise_chain
from polyfuse import sets

RESULTS = Path(__file__).parent / "results" / "planning.json"
SIZES = (10, 100, 1000)


@dataclass(frozen=True, slots=True)
class Measured:
    """One plan: its statements and kernels, what it took to make, and the load of the machine meanwhile."""

    statements: int
    kernels: int
    seconds: float
    wall: float
    placed: int
    isl: int
    load: float

    def line(self, family: str) -> str:
        return (
            f"{family:20s} {self.statements:5d} statements {self.kernels:4d} kernels {self.seconds:7.2f} s"
            f" (wall {self.wall:.2f} s, load {self.load:.1f})  placed {self.placed:7d}  isl {self.isl:6d}"
        )


def planned(case: Case) -> tuple[pf.Plan, Measured]:
    """The plan of a program for an H200, and what it took."""
    questions, wall, start = sets.queries(), time.perf_counter(), time.process_time()
    plan = case.plan()
    seconds, elapsed = round(time.process_time() - start, 3), round(time.perf_counter() - wall, 3)
    load, asked = round(os.getloadavg()[0], 1), sets.queries() - questions
    return plan, Measured(len(plan.scop.statements), len(plan.launches), seconds, elapsed, plan.work, asked, load)


def measured(family: str, operations: int) -> Measured:
    return planned(FAMILIES[family].of(operations))[1]


def in_processes(families: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, int, Measured]]:
    """One process each, one after another, forked from one that has planned something small: nothing else is remembered
    from plan to plan."""
    planned(pointwise_chain(3))
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        for operations in sizes:
            for family in families:
                yield family, operations, pool.apply(measured, (family, operations))


def record(rows: Sequence[tuple[str, int, Measured]]) -> dict[str, object]:
    columns = ["program", "operations", *(f.name for f in fields(Measured))]
    return {
        "machine": f"{os.cpu_count()} cores of {platform.machine()} {sys.platform}, shared (see the load of each row)",
        "versions": f"Python {platform.python_version()}",
        "date": str(date.today()),
        "command": "python -m benchmarks.planning --write",
        "columns": columns,
        "rows": [[family, operations, *astuple(row)] for family, operations, row in rows],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--write", action="store_true", help=f"keep the rows in {RESULTS.name}")
    given = parser.parse_args()
    rows = []
    for family, operations, row in in_processes(given.families, given.sizes):
        rows.append((family, operations, row))
        print(row.line(family), flush=True)
        if given.write:
            RESULTS.write_text(json.dumps(record(rows), indent=1) + "\n")


if __name__ == "__main__":
    main()
