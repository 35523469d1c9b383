"""What a run of the fuzzer reached, as JSON."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from polyfuse.expr import Map, Reduce, Scan, Scatter, topological
from polyfuse.fuzz.check import Report
from polyfuse.fuzz.program import RandomProgram
from polyfuse.plan import Plan

ENOUGH = 100
NODES = "Input Constant Iota Map Reduce Scan View Region Gather Scatter Opaque".split()
STRATEGIES = {
    "cpu": "pointwise tiles rows columns contraction serial".split(),
    "cuda": "pointwise tiles rows columns contraction serial".split(),
}


@dataclass
class Record:
    """Counts of one process."""

    programs: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wishes: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    nodes: Counter[str] = field(default_factory=Counter)
    strategies: Counter[str] = field(default_factory=Counter)
    scopes: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    arguments: Counter[str] = field(default_factory=Counter)
    known: float = 0.0
    slow: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, program: RandomProgram, report: Report, seconds: float, seed: int) -> None:
        """Count a program; of one that polyfuse refuses only the reason."""
        if report.refused:
            self.refused[report.refused[:120]] += 1
            return
        self.programs += 1
        self.known += report.known
        self.wishes.update(report.wishes)
        self.ops.update(line.op for line in program.lines)
        for array in program.arrays:
            self.dtypes[array.dtype] += 1
            self.arguments[f"fill {array.fill}"] += 1
            self.arguments["C order" if array.is_plain else "strided or offset"] += 1
        self.arguments["donated"] += len(program.donate)
        if seconds > 20:
            self.slow.append({"seed": seed, "seconds": round(seconds, 1)})
        for name, plan in report.plans:
            self._add_plan(name, plan)
        if report.plans:
            self.nodes.update(_nodes(report.plans[0][1]))

    def _add_plan(self, name: str, plan: Plan) -> None:
        self.ways[f"{name} on {plan.target.name}"] += 1
        self.kernels[f"{name}: {min(len(plan.steps), 12)}"] += 1
        for launch in plan.launches:
            schedule = launch.schedule
            self.strategies[f"{plan.target.kind} {schedule.strategy}"] += 1
            shared = {box.value for box in schedule.shared}
            for value in schedule.body:
                self.scopes["global" if value in schedule.roots else "shared" if value in shared else "register"] += 1
            self.scopes["combine over the grid"] += len(schedule.grid_combine)


def _nodes(plan: Plan) -> Iterable[str]:
    for node in topological(plan.program.outputs):
        yield type(node).__name__
        match node:
            case Map():
                yield f"map {node.function}"
            case Reduce():
                yield f"reduce {node.monoid}"
            case Scan():
                yield f"scan {node.monoid}"
            case Scatter():
                yield f"scatter {node.monoid}"
            case _:
                pass


def merged(records: Iterable[Record]) -> Record:
    """The sum of the records of several processes."""
    total = Record()
    for record in records:
        for name, value in vars(record).items():
            own = getattr(total, name)
            if isinstance(own, Counter):
                own.update(value)
            elif isinstance(own, list):
                own.extend(value)
            else:
                setattr(total, name, own + value)
    return total


def finished(record: Record, options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The record as data, with the command that repeats it."""
    given = {k: v for k, v in options.items() if k not in ("out", "save") and v}
    command = " ".join(["python -m polyfuse.fuzz", *(f"--{k} {v}" for k, v in given.items())])
    reached = {**record.nodes, **record.strategies, **record.dtypes}
    return {
        "what": "random programs against NumPy in float64, with propagated error bounds",
        "command": command,
        "date": date.today().isoformat(),
        "versions": {"python": platform.python_version(), **_versions("numpy", "islpy", "numba", "numba-cuda")},
        "seconds": round(seconds, 1),
        "programs": record.programs,
        "programs per second": round(record.programs / max(seconds, 1e-9), 3),
        "share of elements with a known bound": round(record.known / max(1, record.programs), 4),
        "failures": record.failures,
        "reached fewer than 100 times": dict(sorted((k, n) for k, n in reached.items() if n < ENOUGH)),
        "never reached": [n for n in NODES if n not in record.nodes],
        **{
            name: dict(getattr(record, name).most_common())
            for name in "kernels strategies scopes ways nodes dtypes arguments ops wishes refused".split()
        },
        "slow": record.slow,
    }


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
