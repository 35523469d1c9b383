"""What runs of the fuzzer reached, as JSON: counts that add up over processes, runs, seeds and machines."""

from __future__ import annotations

import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from polyfuse.expr import Map, Reduce, Scan, Scatter, topological
from polyfuse.fuzz.check import Report
from polyfuse.fuzz.program import RandomProgram
from polyfuse.fuzz.ways import ALIKE_WAY
from polyfuse.plan import Plan
from polyfuse.scalars import CASCADES
from polyfuse.strategies.catalogue import FALLBACKS, STRATEGIES

ENOUGH = 100
NODES = "Input Constant Iota Map Reduce Scan View Region Gather Scatter Opaque".split()
CASCADE, ALIKE = "sums in one pass", "rows alike in every batch"
CELLS, RING = "registers and shared memory", "ring of copies"
ATOMICS = "combine by atomics"
SCOPES = (
    *("register", "shared", "global", "combine over the grid", "beside others in a launch"),
    *(CASCADE, ALIKE, CELLS, RING, ATOMICS),
)
NOT_ON = {
    "cpu": ("windows", "tiles", "held", "contraction", "in_thread", "pairs", "row_tiles"),
    "cuda": ("tiles_cpu",),
}
"""Strategies that propose nothing for a kind of machine."""
NAMES = {
    "tiles": ("tiles", "stencil"),
    "tiles_cpu": ("tiles",),
    "held": ("held_rows", "planes", "panels"),
    "reduction": ("rows", "columns"),
    "prefix": (),
    "framed_elements": (),
}
"""What schedules are called, where a strategy proposes several kinds, or one that has the name of another's."""


@dataclass
class Record:
    """Counts.  `runs`: per command its seeds, commit and outcome.  `mended`: failures of those runs that a later commit
    does not have, with that commit.  `unfinished`: seeds whose programs came to no end."""

    programs: int = 0
    seconds: float = 0.0
    known: float = 0.0
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
    slow: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    mended: list[dict[str, Any]] = field(default_factory=list)
    unfinished: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)

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
        self.scopes.update([ALIKE] * any(name == ALIKE_WAY for name, _ in report.plans))
        for name, plan in report.plans:
            self._add_plan(name, plan)
        if report.plans:
            self.nodes.update(_nodes(report.plans[0][1]))

    def absorb(self, other: Record) -> None:
        """Add another record.  A failure with ``replaces`` takes the place of the one of that seed."""
        for name, value in vars(other).items():
            own = getattr(self, name)
            if isinstance(own, Counter):
                own.update(value)
            elif isinstance(own, list):
                own.extend(value)
            else:
                setattr(self, name, own + value)
        for entry in [e for e in self.failures if "replaces" in e]:
            seed = entry.pop("replaces")
            self.failures = [e for e in self.failures if e is entry or e["seed"] != seed]

    def _add_plan(self, name: str, plan: Plan) -> None:
        self.ways[f"{name} on {plan.target.name}"] += 1
        self.kernels[f"{name}: {min(len(plan.steps), 12)}"] += 1
        beside = sum(len(launch.schedules) for launch in plan.launches if len(launch.schedules) > 1)
        self.scopes.update(["beside others in a launch"] * beside)
        reductions = [n for n in topological(plan.program.outputs) if isinstance(n, Reduce)]
        self.scopes.update([CASCADE] * any(n.monoid in CASCADES for n in reductions))
        for schedule in plan.schedules:
            self.strategies[f"{plan.target.kind} {schedule.strategy}"] += 1
            self.scopes.update([CELLS] * (schedule.cells is not None) + [RING] * len(schedule.rings))
            shared = {box.value for box in schedule.shared}
            for value in schedule.body:
                self.scopes["global" if value in schedule.roots else "shared" if value in shared else "register"] += 1
            merged = len(schedule.filled)
            self.scopes.update([ATOMICS] * merged)
            self.scopes.update(["combine over the grid"] * (len(schedule.grid_combine) - merged))


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
                if node.run:
                    yield "scan in runs"
            case Scatter():
                yield f"scatter {node.monoid}"
            case _:
                pass


def merged(records: Iterable[Record]) -> Record:
    """The sum of records."""
    total = Record()
    for record in records:
        total.absorb(record)
    return total


# ---------------------------------------------------------------------------------------------- JSON


def to_json(record: Record) -> dict[str, Any]:
    """The record as data; `from_json` takes it back."""
    reached = {**record.nodes, **record.strategies, **record.dtypes, **record.scopes}
    kinds = sorted({name.split()[0] for name in record.strategies})
    wanted = [*NODES, *SCOPES, *(f"{kind} {name}" for kind in kinds for name in strategies_on(kind))]
    return {
        "what": "random programs against NumPy in float64, with propagated error bounds",
        "counted": "programs of at least 4 operations, at least one of them not pointwise",
        "programs": record.programs,
        "failures": record.failures,
        "mended": record.mended,
        "unfinished": record.unfinished,
        "runs": record.runs,
        "seconds": round(record.seconds, 1),
        "programs per second": round(record.programs / max(record.seconds, 1e-9), 3),
        "share of elements with a known bound": round(record.known / max(1, record.programs), 4),
        f"reached fewer than {ENOUGH} times": dict(sorted((k, n) for k, n in reached.items() if n < ENOUGH)),
        "never reached": [name for name in wanted if not reached.get(name)],
        **{name: dict(getattr(record, name).most_common()) for name in _COUNTERS},
        "slow": record.slow,
    }


_COUNTERS = "kernels strategies scopes ways nodes dtypes arguments ops wishes refused".split()


def from_json(data: Mapping[str, Any]) -> Record:
    """A record that `to_json` wrote."""
    known = data["share of elements with a known bound"] * data["programs"]
    found = Record(data["programs"], data["seconds"], known)
    for name in _COUNTERS:
        getattr(found, name).update(data[name])
    for name in ("slow", "failures", "mended", "unfinished", "runs"):
        getattr(found, name).extend(data.get(name, ()))
    return found


def strategies_on(kind: str) -> list[str]:
    """Names of the strategies for a kind of machine, as schedules carry them."""
    own = [f.__name__ for f in (*STRATEGIES, *FALLBACKS) if f.__name__ not in NOT_ON[kind]]
    return [name for strategy in own for name in NAMES.get(strategy, (strategy,))]


def described(options: Mapping[str, Any], seeds: tuple[int, int], record: Record, seconds: float) -> dict[str, Any]:
    """One run: how to repeat it and what came of it.  `seeds`: first and behind the last."""
    given = {k: v for k, v in options.items() if k in ("seconds", "seed", "backend", "processes", "programs") and v}
    return {
        "command": " ".join(["python -m polyfuse.fuzz", *(f"--{k} {v:g}" if k == "seconds" else f"--{k} {v}"
                             for k, v in given.items())]),
        "seeds": list(seeds),
        "programs": record.programs,
        "failures": len(record.failures),
        "seconds": round(seconds, 1),
        "commit": commit(),
        "date": date.today().isoformat(),
        "versions": {"python": platform.python_version(), **versions("numpy", "islpy", "numba", "numba-cuda")},
    }  # fmt: skip


def commit() -> str:
    """The commit of the checkout that runs, with ``+`` where files differ from it; empty outside of one."""
    here = Path(__file__).parent
    try:
        told = [
            subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told[0] + ("+" if told[1] else "")


def versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
