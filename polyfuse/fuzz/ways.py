"""The ways in which one program runs: unfused, fused, and fused with other decisions that are legal.

A way is data, so that a failure can be written down.  `prices` is the seed of a pricer that gives every schedule a
random price: grouping, strategies and tiles are then whatever is legal, not what is cheap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from polyfuse.bindings import Layout
from polyfuse.cost.counts import Cost
from polyfuse.cost.prices import price
from polyfuse.expr import Program
from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.fuzz.program import WrittenProgram
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.choose import Pricer
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services
from polyfuse.scalars import CASCADES
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target

FAVOURED = ("contraction", "contraction", "stencil", "one_pass", "tiles", "planes", "in_thread", *("",) * 7)
STEERED = "serial serial rows columns tiles tiles pointwise contraction contraction stencil one_pass held_rows".split()
"""Strategies by name, those that few programs reach more than once."""
HEAVY = 3e-5
"""Seconds over which a random price is no longer blind: a reduction that every element computes again takes the
interpreter minutes."""
IN_LINE = 1e-6
"""Seconds for each element of a prefix in a random price that favours scans in parts."""
ALIKE_WAY = "alike"
IN_PASSES = 3e-5
"""Seconds for each kernel with a reduction of its own in a random price that favours sums in one pass."""
EFFORT, SHAKES = 4, 12  # of so many programs one is fused with so many rounds of shake
INTERPRETED = {"cpu": 3.5, "sm_90": 4.5, "sm_80": 1.2, "generic": 0.8}


@dataclass(frozen=True, slots=True)
class Way:
    """`options`: of `jit`.  `prices`: seed of random prices, or None.  `out`: where results go: ``new``, ``strided``
    memory of the caller's, or ``onto`` an argument's.  `effort`: rounds in which the search starts again, which take
    half of the time of a run and add no kind of plan; None: as many as users get."""

    name: str
    options: tuple[tuple[str, Any], ...]
    prices: int | None = None
    out: str = "new"
    effort: int | None = None

    @property
    def is_alike(self) -> bool:
        """Whether rows are to have the same bits in every batch."""
        return dict(self.options).get("batch_invariant") is True


@dataclass(slots=True)
class Planned:
    """The plans that a jitted function made."""

    plans: list[Plan] = field(default_factory=list)


def jitted(written: WrittenProgram, way: Way) -> tuple[Jitted, Planned]:
    """The program as a jitted function of its own, without a disk cache, and where its plans will appear.

    Kernels are verified, a fiftieth of the time of a program: no back end sees all that another one would refuse.
    """
    planned = Planned()
    pricer = price if way.prices is None else random_pricer(way.prices)

    def plan(program: Program, target: Target, options: Options, layouts: tuple[Layout, ...]) -> Plan:
        if way.prices is not None and way.prices % 2:  # as where there is much to do
            target = replace(target, busy_bytes=0)
        made = plan_program(program, target, options, layouts, pricer, way.effort)
        planned.plans.append(made)
        return made

    options = Options().updated({**dict(way.options), "donate": written.donated_names, "verify": True})
    services = Services(NumPyFrontend(), plan, backend, target_of)
    return Jitted(written.function(), options, services), planned


def random_pricer(seed: int) -> Pricer:
    """Prices that depend on nothing but the seed and the decisions of a schedule, with the launch cost drawn too: some
    seeds fuse much, some little.  Half of the seeds favour one strategy, wherever it is legal; all of them atomic
    updates, where these are allowed."""
    dice = Random(seed)
    launch, spread = dice.choice([0.0, 1e-6, 1e-5]), 1e-5
    favoured = dice.choice(FAVOURED)
    element = 0.0 if seed % 3 else IN_LINE
    passes = IN_PASSES if seed % 4 == 1 else 0.0

    def pricer(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> Cost:
        key = repr((seed, schedule.strategy, schedule.parameters, schedule.body, schedule.roots))
        number = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest())
        drawn, last = number / 2**48, target.evict_last and number % 2 == 1
        drawn *= 0.01 if schedule.strategy == favoured or schedule.filled else 1
        own = price(scop, schedule, target, hints)
        line = element * _longest_prefix(scop, schedule, hints) + passes * _has_plain_sums(scop, schedule)
        seconds = launch + spread * drawn + 10 * max(0.0, own.seconds - HEAVY) + line
        return replace(own, seconds=seconds, evict_last=last)

    return pricer


def _longest_prefix(scop: Scop, schedule: KernelSchedule, hints: Mapping[str, int]) -> int:
    statements = [scop.statements[value] for value in schedule.body]
    scans = [s for s in statements if isinstance(s, Statement) and s.scanned is not None]
    return max((s.run or s.extents[s.scanned or 0].evaluate(hints) for s in scans), default=0)


def _has_plain_sums(scop: Scop, schedule: KernelSchedule) -> bool:
    statements = [scop.statements[value] for value in schedule.body]
    return any(isinstance(s, Statement) and s.is_reduction and s.monoid not in CASCADES for s in statements)


def basic_ways(seed: int, name: str) -> tuple[Way, Way]:
    """Unfused and fused, for one target."""
    common = _common(Random(seed), name)
    out = Random(seed + 1).choices(["new", "strided", "onto"], [8, 1, 1])[0]
    effort = SHAKES if seed % EFFORT == 0 else 0
    return Way("unfused", (*common, ("fuse", False))), Way("fused", common, out=out, effort=effort)


def _common(dice: Random, name: str) -> tuple[tuple[str, Any], ...]:
    if name != "interpreter":
        return (("backend", name),)
    return ("backend", name), ("target", dice.choices(list(INTERPRETED), list(INTERPRETED.values()))[0])


def alike_way(seed: int, name: str) -> Way:
    """For a program of rows that are apart: with results that do not depend on their number."""
    return Way(ALIKE_WAY, (*_common(Random(seed), name), ("batch_invariant", True)), effort=0)


def other_way(seed: int, name: str, fused: Plan) -> Way:
    """Fused with decisions that the planner would not have made; `fused` is the plan of its own decisions."""
    dice = Random(seed)
    common = _common(dice, name)
    stored = _stored_elsewhere(dice, fused)
    if stored is not None and dice.random() < 0.6:
        return Way("held", (*fused_options(common, fused), *stored), effort=0)
    kind = dice.choices(
        ["prices", "pointwise", "size", "apart", "together", "strategy", "tiles", "invariant", "atomics"],
        [7, 0.8, 0.8, 0.8, 0.8, 2, 1.2, 0.6, 0.8],
    )
    match kind[0]:
        case "pointwise":
            return Way("pointwise", (*common, ("fuse", "pointwise")), effort=0)
        case "invariant":
            return Way("invariant", (*common, ("batch_invariant", True)), effort=0)
        case "atomics" if fused.target.kind == "cuda":
            options = (*fused_options(common, fused), ("atomics", True))
            return Way("atomics", options, prices=dice.randrange(10**6), effort=0)
        case "size":
            return Way("limited", (*common, ("max_fusion_size", dice.randint(1, 4))), effort=0)
        case "apart" | "together":
            names = value_names(fused)
            if len(names) >= 2:
                return Way(kind[0], (*common, (kind[0], (tuple(dice.sample(names, 2)),))), effort=0)
        case "strategy" | "tiles":
            steered = _steered(dice, fused.schedules and dice.choice(fused.schedules), fused, kind[0])
            if steered is not None:
                return Way(kind[0], (*fused_options(common, fused), steered), effort=0)
    return Way("prices", common, prices=dice.randrange(10**6), effort=0)


def fused_options(common: Sequence[tuple[str, Any]], fused: Plan) -> tuple[tuple[str, Any], ...]:
    """The options of the plan that is steered: the same target."""
    found = dict(common)
    if "target" in found:
        found["target"] = fused.options.target
    return tuple(found.items())


def _steered(dice: Random, schedule: Any, plan: Plan, kind: str) -> tuple[str, Any] | None:
    if not schedule:
        return None
    name = plan.scop.statements[schedule.roots[0]].name
    if kind == "strategy":
        return "strategies", {name: dice.choice(STEERED)}
    if not schedule.parameters:
        return None
    parameter, size = dice.choice(schedule.parameters)
    return "tiles", {name: {parameter: max(1, dice.choice([size * 2, size // 2, size]))}}


HELD: tuple[Mapping[str, int], ...] = (
    {"cluster": 2},
    {"cluster": 4},
    {"chunks": 1, "shared": 1},
    {"chunks": 2, "shared": 2},
    {"chunks": 4, "shared": 4},
    {"cluster": 2, "chunks": 1, "shared": 1},
)
"""Where rows of a few thousand elements may be held: in the registers of several blocks, or half in shared memory."""


def _stored_elsewhere(dice: Random, plan: Plan) -> tuple[tuple[str, Any], ...] | None:
    """A long row held by several blocks, or in shared memory besides; rows of a matrix on their way in a ring: what the
    planner has for much longer rows, and many more, only."""
    found: list[tuple[str, str, Mapping[str, int]]] = []
    for schedule in plan.schedules:
        name = plan.scop.statements[schedule.roots[0]].name
        if schedule.strategy == "rows" and dict(schedule.parameters).get("lanes", 0) >= 64:
            found.append((name, "held_rows", dice.choice(HELD)))
        if schedule.strategy == "one_pass" and plan.target.kind == "cuda":
            ring = {"ring": dice.randint(2, 4), "lanes": dice.choice((32, 32, 64)), "share": dice.choice((8, 16, 32))}
            found.append((name, "one_pass", ring))
    if not found:
        return None
    name, strategy, tiles = dice.choice(found)
    return ("strategies", {name: strategy}), ("tiles", {name: dict(tiles)})


def value_names(plan: Plan) -> list[str]:
    """Values that a user may name in options."""
    computed = {v for schedule in plan.schedules for v in schedule.body}
    return [s.name for s in plan.scop.statements if s.id in computed]
