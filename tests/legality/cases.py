"""Random small programs with random schedules, legal and not: what the proof is checked on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from polyfuse.affine import Affine, digit
from polyfuse.expr import Program
from polyfuse.places.builder import Refused, build_schedule
from polyfuse.places.proposal import Combination, Group, Proposal, Staging, Windows
from polyfuse.schedule import Digit, DigitKind, KernelSchedule
from polyfuse.scop import Scop
from polyfuse.strategies.classes import AxisClass, classify
from tests.legality import programs
from tests.legality.tamper import tampered

SYMBOLS = ("M", "N")
NEIGHBOURS = ("stencil", "five points", "two stencils")
"""Programs that read neighbours, which windows of registers hold: drawn twice as often."""

REDUCING = ("summed", "summed all", "summed all", "argmax", "product")
"""Drawn more often: most others cannot be dealt to blocks that meet."""
ATOMIC = {True: 0.8, False: 0.1}
"""Share of the proposals that merge what blocks reduce, by whether that is what the kernel stores."""
MOST = 6000  # assignments of digits per case: a tenth of a second of enumeration


@dataclass(frozen=True)
class Case:
    """`sizes`: the assignments of its size symbols to enumerate."""

    kind: str
    scop: Scop
    schedule: KernelSchedule
    sizes: tuple[Mapping[str, int], ...]
    faults: tuple[str, ...]  # what was tampered with


def random_case(random: Random, kind: str = "") -> Case | None:
    """Of the kind of program named, if one is.  None where the proposal could not be placed at all."""
    kind, traced = _program(random, kind)
    scop, group = programs.whole(traced)
    hints = dict.fromkeys(traced.symbols, 4)
    try:
        schedule = build_schedule("k", group, _proposal(random, group, hints))
    except Refused:
        return None
    applied: list[str] = []
    for _ in range(random.choice((0, 0, 0, 1, 1, 1, 2))):
        done = tampered(random, scop, schedule)
        if done is not None:
            schedule = done[0]
            applied.append(done[1])
    case = Case(kind, scop, schedule, _sizes(random, traced), tuple(applied))
    return case if all(_executions(case, s) <= MOST for s in case.sizes) else None


def _executions(case: Case, sizes: Mapping[str, int]) -> int:
    """Assignments of digits: what an enumeration goes through."""
    count = 1
    for d in case.schedule.digits:
        count *= max(1, d.extent.evaluate(sizes))
    return count


def _sizes(random: Random, traced: Program) -> tuple[Mapping[str, int], ...]:
    if not traced.symbols:
        return ({},)
    return tuple({s: random.randint(1, 5) for s in traced.symbols} for _ in range(2))


# ---------------------------------------------------------------------------------------------- programs


def _program(random: Random, kind: str) -> tuple[str, Program]:
    sizes = iter(random.sample(SYMBOLS, 2))

    def size() -> Affine:
        return Affine.symbol(next(sizes)) if random.random() < 0.2 else Affine.of(random.randint(1, 5))

    makers: dict[str, Callable[[], Program]] = {
        "chain": lambda: programs.chain(size()),
        "bias": lambda: programs.bias(size(), size()),
        "softmax": lambda: programs.softmax(size(), size()),
        "normalised": lambda: programs.normalised(size(), size(), random.randint(0, 1)),
        "summed": lambda: programs.summed(size(), size(), random.randint(0, 1)),
        "summed all": lambda: programs.summed(size(), size(), 0, 1, monoid="max"),
        "sums": lambda: programs.sums(size(), size(), random.randint(0, 1)),
        "stencil": lambda: programs.stencil(size()),
        "five points": lambda: programs.five_points(size(), size()),
        "two stencils": lambda: programs.two_stencils(size()),
        "transposed": lambda: programs.symmetric(size()),
        "scan": lambda: _scan(random, size(), size()),
        "every second": lambda: programs.every_second_prefix(random.randint(1, 4)),
        "gather": lambda: programs.gather(size(), size()),
        "gather rows": lambda: programs.gather_rows(3, size(), size()),
        "concatenated": lambda: programs.concatenated(size(), size()),
        "argmax": lambda: programs.largest(size(), size()),
        "product": lambda: programs.product_sum(size(), size(), random.randint(1, 4)),
        "shared": lambda: programs.twice_used(size()),
    }
    kind = kind or random.choice((*makers, *REDUCING, *NEIGHBOURS))
    return kind, makers[kind]()


def _scan(random: Random, m: Affine, n: Affine) -> Program:
    exclusive, reverse = random.random() < 0.3, random.random() < 0.3
    run = random.choice((0, 2, 3, 4, 8)) if not reverse else 0
    return programs.prefix(m, n, random.randint(0, 1), exclusive=exclusive, reverse=reverse, run=run)


# ---------------------------------------------------------------------------------------------- schedules


class _Splitter:
    """Writes dimensions in random digits; thread digits share one thread index."""

    def __init__(self, random: Random, hints: Mapping[str, int], windowed: bool) -> None:
        self.random, self.hints, self.windowed = random, hints, windowed
        self.digits: list[Digit] = []
        self.threads = self.count = 1
        self.lanes = 1
        self.dealt: set[str] = set()  # block digits along which something is reduced
        self.onwards: dict[str, tuple[int, int]] = {}  # and along which prefixes go on

    def fresh(self, kind: DigitKind, extent: Affine) -> Digit:
        stride = 0
        if kind == "thread":
            stride, self.threads = self.threads, self.threads * extent.constant
        if kind in ("thread", "slot"):
            self.lanes *= extent.constant
        prefix = {"block": "b", "thread": "t", "loop": "r", "slot": "v"}[kind]
        number = sum(d.kind == kind for d in self.digits)
        self.digits.append(Digit(f"{prefix}{number}", kind, extent, stride))
        return self.digits[-1]

    def split(self, axis: AxisClass) -> Affine:
        """A mixed-radix form of the axis, from the fastest digit to the slowest; usually it covers the axis."""
        random, size = self.random, axis.size(self.hints)
        reduced = bool(axis.reduced_by or axis.scanned_by)
        kinds: list[DigitKind] = ["thread", "slot", "loop"] if reduced else ["thread", "slot", "loop", "block"]
        total, weight = Affine.of(0), 1
        for _ in range(random.randint(0, 3)):
            kind = "slot" if self.windowed and random.random() < 0.5 else random.choice(kinds)
            extent = random.choice((2, 2, 2, 3, 4) if kind != "thread" else (2, 2, 4, 2, 3))
            if kind in ("thread", "slot") and self.lanes * extent > 32:
                continue
            total += digit(self.fresh(kind, Affine.of(extent)).name) * weight
            weight *= extent
        enough = random.random() < 0.95
        if (weight < size or not axis.extent.is_constant) and enough:
            kind = random.choice(("loop", "block") if axis.reduced_by else ("loop", "loop", "block"))
            top = self.fresh(kind, axis.extent.ceildiv(weight))
            self.dealt |= {top.name} if kind == "block" and axis.reduced_by else set()
            if kind == "block" and axis.scanned_by and random.random() < 0.7:
                self.onwards[top.name] = random.choice((1, 2, 3)), random.choice((0, 0, 2))
            total += digit(top.name) * weight
        return total


def _proposal(random: Random, group: Group, hints: Mapping[str, int]) -> Proposal:
    windowed = random.random() < 0.4
    splitter = _Splitter(random, hints, windowed)
    classes = classify(group, hints)
    splits = {axis.number: splitter.split(axis) for axis in classes.axes}
    anchors = {
        (s.id, d): splits[axis.number] for s in group.statements() for d, axis in enumerate(classes.statement(s))
    }
    if random.random() < 0.15 and anchors:  # one dimension goes its own way
        key = random.choice(tuple(anchors))
        anchors[key] = splitter.split(classes.of[key])
    loops = [d.name for d in splitter.digits if d.kind == "loop"]
    random.shuffle(loops)
    staged = [v for v in sorted(group.body | group.loads) if random.random() < (0.1 if windowed else 0.3)]
    staging = {v: Staging(tuple(n for n in loops if random.random() < 0.5)) for v in staged}
    combines = _combines(random, splitter)
    stored = all(s.id in group.roots for s in group.statements() if s.is_reduction)
    atomic = bool(combines) and random.random() < ATOMIC[stored]
    windows = _windows(random, splitter, [v for v in sorted(group.body | group.loads) if v not in staged])
    return Proposal(
        "random", (), tuple(splitter.digits), anchors, tuple(loops), staging, combines=combines, windows=windows,
        atomic=atomic, in_order=splitter.onwards,
    )


def _windows(random: Random, splitter: _Splitter, values: list[int]) -> Windows:
    """Some values that are not staged are kept in windows of registers along the slots."""
    slots = tuple(d.name for d in splitter.digits if d.kind == "slot")
    if not slots or not splitter.windowed:
        return Windows((), {})
    return Windows(slots, {value: random.choice((1, 1, 2)) for value in values if random.random() < 0.8})


def _combines(random: Random, splitter: _Splitter) -> dict[str, Combination]:
    """Block digits along which reductions lie are combined, most of them, and by some of the threads."""
    names = [d.name for d in splitter.digits if d.name in splitter.dealt and random.random() < 0.9]
    threads = tuple(d.name for d in splitter.digits if d.kind == "thread" and random.random() < 0.3)
    return {name: Combination(threads, random.choice((1, 1, 2))) for name in names}
