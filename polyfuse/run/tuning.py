"""`autotune=True`: the planner's next best plans are measured beside its best, and the fastest stays.

    best by price      rows threads=256 chunks=4    131 us
    its neighbours     rows threads=128 chunks=8    118 us   <- kept, and stored like any other plan
                       rows threads=512 chunks=2    140 us

Every candidate is a whole plan, proved as all are: only prices were bent, or parameters asked for.  One kernel is
varied at a time, and the search goes on from the fastest.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from polyfuse.errors import PolyfuseError
from polyfuse.plan import Plan
from polyfuse.run.prepare import Ready
from polyfuse.run.services import PlanKey
from polyfuse.run.sizes import hold
from polyfuse.schedule import KernelSchedule

SECONDS = 10.0  # for planning, compiling and measuring all candidates of one plan
CANDIDATES = 12  # plans beside the first
GAIN = 0.98  # below which share of the best time another plan takes its place; what is left is noise of the clock
DEAR = 1e6  # times the price: chosen only where nothing else is left

Signature = tuple[frozenset[str], str, tuple[tuple[str, int], ...]]
Measure = Callable[[Ready], float]
"""Seconds of one run of a compiled plan, on the arrays of the call."""

_log = logging.getLogger("polyfuse.tune")


def signature(schedule: KernelSchedule) -> Signature:
    """What tells one schedule of a kernel from another: the statements, the strategy and its parameters."""
    computed = frozenset(p.name for p in schedule.placed if p.role == "compute")
    return computed, schedule.strategy, schedule.parameters


def replanned(key: PlanKey, bent: Callable[[Signature, float], float]) -> Plan:
    """The plan of `key` where the seconds of every schedule are what `bent` makes of the predicted ones."""
    from polyfuse.cost.counts import Cost
    from polyfuse.cost.prices import price
    from polyfuse.planning.planner import plan_program
    from polyfuse.scop import Scop
    from polyfuse.target import Target

    def pricer(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> Cost:
        cost = price(scop, schedule, target, hints)
        return replace(cost, seconds=bent(signature(schedule), cost.seconds))

    return plan_program(key.program, key.target, key.options, key.layouts, pricer)


def value_names(key: PlanKey) -> frozenset[str]:
    """What the values of a program are called in options."""
    from polyfuse.planning.steering import value_ids
    from polyfuse.scop_builder import build_scop

    return frozenset(value_ids(build_scop(key.program)))


@dataclass(frozen=True, slots=True)
class Point:
    """How a plan is asked for: `dear` schedules are chosen only where nothing else is left, `tiles` as in `Options`."""

    dear: frozenset[Signature] = frozenset()
    tiles: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def without(self, schedule: Signature) -> Point:
        return replace(self, dear=self.dear | {schedule})

    def with_tile(self, value: str, name: str, size: int) -> Point:
        return replace(self, tiles={**self.tiles, value: {**self.tiles.get(value, {}), name: size}})


def neighbours(point: Point, plan: Plan, values: frozenset[str]) -> Iterator[Point]:
    """Per kernel: the next best schedule, then each parameter of this one halved and doubled.

    `values`: the names that parameters can be asked for by; passes of the planner add others.
    """
    for schedule in plan.schedules:
        found = signature(schedule)
        yield point.without(found)
        for value in sorted(found[0] & values)[:1]:
            for name, size in found[2]:
                for other in (size // 2, 2 * size):
                    if other:
                        yield point.with_tile(value, name, other)


@dataclass(slots=True)
class Tuner:
    """One search.  `compile` makes a plan ready to run; `clock` counts seconds."""

    key: PlanKey
    compile: Callable[[Plan], Ready]
    measure: Measure
    clock: Callable[[], float] = time.perf_counter
    seen: set[frozenset[Signature]] = field(default_factory=set)

    def best(self, first: Ready, sizes: Mapping[str, int]) -> Ready:
        """The fastest plan found by going from the best so far to its neighbours, within the budget.  Raises what
        running a plan raises."""
        start, best, least = self.clock(), first, self.measure(first)
        point = Point(tiles={value: dict(named) for value, named in self.key.options.tiles})
        self.seen.add(frozenset(map(signature, first.plan.schedules)))
        self._told(0, first.plan, least, least)
        values = value_names(self.key)
        points, count = deque(neighbours(point, first.plan, values)), 0
        while points and count < CANDIDATES and self.clock() - start < SECONDS:
            point = points.popleft()
            candidate = self._candidate(point, sizes)
            if candidate is None:
                continue
            count += 1
            seconds = self.measure(candidate)
            if seconds < GAIN * least:
                best, least = candidate, seconds
                points = deque(neighbours(point, candidate.plan, values))
            self._told(count, candidate.plan, seconds, least)
        return best

    def _candidate(self, point: Point, sizes: Mapping[str, int]) -> Ready | None:
        """The plan of a point, compiled; None where there is none or it was measured before."""
        try:
            plan = self._planned(point)
            found = frozenset(map(signature, plan.schedules))
            if found in self.seen or found & point.dear or not hold(plan.guards, sizes):
                return None
            self.seen.add(found)
            return self.compile(plan)
        except PolyfuseError as error:  # no schedule has this parameter; the first plan stands in any case
            _log.debug("%s: no candidate: %s", self.key.program.name, error)
            return None

    def _planned(self, point: Point) -> Plan:
        options = self.key.options.updated({"tiles": point.tiles})
        return replanned(
            replace(self.key, options=options), lambda name, seconds: seconds * (DEAR if name in point.dear else 1.0)
        )

    def _told(self, number: int, plan: Plan, seconds: float, least: float) -> None:
        """Progress: in the log ``polyfuse.tune``, and on a terminal as it goes."""
        parts = (f"{s} {' '.join(f'{n}={v}' for n, v in p)}".strip() for _, s, p in map(signature, plan.schedules))
        times = f"{1e6 * seconds:.1f} us, best {1e6 * least:.1f} us"
        text = f"{number} of at most {CANDIDATES}: {times}: {', '.join(parts)}"
        _log.info("%s %s", self.key.program.name, text)
        if sys.stderr.isatty():
            print(f"tuning {self.key.program.name} {text}", file=sys.stderr)


def timed(run: Callable[[], object], wait: Callable[[], None]) -> float:
    """Seconds of one `run`, back to back: the least of five rounds of some milliseconds, after two that warm up."""
    run()
    run()
    wait()
    start = time.perf_counter()
    run()
    wait()
    count = min(200, max(1, int(3e-3 / max(time.perf_counter() - start, 1e-7))))
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        rounds.append((time.perf_counter() - start) / count)
    return min(rounds)
