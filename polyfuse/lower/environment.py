"""What every part of lowering looks up: the schedule by name, the arrays behind it, and what is known of the digits."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from polyfuse.affine import Affine, digit
from polyfuse.bindings import Layout
from polyfuse.dtypes import DType
from polyfuse.lower.context import Context
from polyfuse.lower.middle import Middle
from polyfuse.schedule import Digit, Finish, KernelSchedule, LoopNest, Placed, PlaceEntry, SharedBox
from polyfuse.scop import Scop, Statement


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """How a kernel sees one global array: its parameter name, and the layout it was promised."""

    name: str
    value: int
    component: int
    shape: tuple[Affine, ...]
    dtype: DType
    layout: Layout
    readonly: bool


@dataclass(frozen=True, slots=True)
class Environment:
    """One kernel while it is lowered; only `context` changes on the way, with what a branch or a loop adds.

    `arrays`: by (value, component, loaded); `shares`: what the blocks of a sum across blocks leave each other, by
    (value, component); `scalars`: dtypes of the scalar arguments; `folded`: multiplies that a contraction absorbs;
    `taken`: exponentials that a sum has taken, `parts`: those
    that are divided by it (`places.exponentials`);
    `sites`: numbers of the statements that check data indices; `rounds`: 16-bit floats round behind every operation,
    but for `wide`, by digest.  `bordering`: this is the body of the few blocks at a border; `leading`: of
    what is left for blocks behind; `unread`: what no statement of this body reads.  `index_bits`: of indices.
    `middles`: of loops of a core, by their digits; None where they are not known yet.
    """

    scop: Scop
    schedule: KernelSchedule
    context: Context
    by_name: Mapping[str, Placed]
    arrays: Mapping[tuple[int, int, bool], ArrayUse]
    shares: Mapping[tuple[int, int], ArrayUse]
    scalars: Mapping[str, DType]
    folded: Mapping[str, str]
    taken: Mapping[str, str]
    parts: Mapping[str, tuple[str, str]]
    slots: tuple[Digit, ...]
    sites: Mapping[int, int]
    rounds: bool
    wide: Set[bytes]
    bordering: bool = False
    leading: bool = False
    unread: Set[str] = frozenset()
    index_bits: int = 32
    middles: Mapping[str, Middle] | None = None

    def box(self, value: int) -> SharedBox:
        return next(box for box in self.schedule.shared if box.value == value)


def is_multiplied(env: Environment, value: int) -> bool:
    """Whether a box holds factors of a contraction: there are zeros in it for elements that do not exist."""
    gets = {p.name for p in env.schedule.placed if p.role == "get" and p.value == value}
    return any(not gets.isdisjoint(env.by_name[product].providers) for product in env.folded)


def affine_entry(entry: PlaceEntry) -> Affine:
    assert isinstance(entry, Affine)
    return entry


def component_name(env: Environment, name: str, component: int) -> str:
    """The register name of one component of a state; no statement has it."""
    if not component:
        return name
    found = f"{name}_{component}"
    while found in env.by_name:
        found += "_"
    return found


def held_name(env: Environment, provider: Placed, component: int) -> str:
    """The register that holds what `provider` provides."""
    whole = provider.role in ("compute", "total")
    return component_name(env, provider.name, component) if whole else provider.name


def result_names(env: Environment, placed: Placed) -> tuple[str, ...]:
    statement = env.scop.statements[placed.value]
    return tuple(component_name(env, placed.name, k) for k in range(len(statement.dtypes)))


def summed_over(env: Environment, placed: Placed) -> frozenset[str]:
    """Digits along which a reduction sums, or a scan runs; those of the number of the block for a total."""
    statement = env.scop.statements[placed.value]
    if placed.role == "total":
        return frozenset(n[1:] for n in affine_entry(placed.place[0]).names() if n.startswith("$"))
    if placed.role != "compute" or not isinstance(statement, Statement) or statement.monoid is None:
        return frozenset()
    dims = statement.reduced if statement.scanned is None else (statement.scanned,)
    return frozenset(n[1:] for d in dims for n in affine_entry(placed.place[d]).steps() if n.startswith("$"))


def reduced_loops(env: Environment, placed: Placed) -> tuple[str, ...]:
    over = summed_over(env, placed)
    return tuple(loop for loop, _ in placed.path if loop in over)


def reduced_slots(env: Environment, placed: Placed) -> tuple[str, ...]:
    over = summed_over(env, placed)
    return tuple(s.name for s in env.slots if s.name in over)


def summed_digit(schedule: KernelSchedule, partial: Placed) -> str:
    """The block digit over which the sum goes whose share `partial` stores."""
    return next(g.digit for g in schedule.grid_combine if g.reduction == partial.providers[0])


def once(env: Environment, placed: Placed) -> list[Affine]:
    """A replicated value is stored by the first thread (block) that holds it; what one elected block finishes, by
    that one."""
    used = placed.digits() | {env.schedule.finish_of(placed)}
    return [
        -digit(d.name)
        for d in env.schedule.digits
        if d.kind in ("thread", "block") and d.name not in used and d.extent != Affine.of(1)
    ]


def once_threads(env: Environment, placed: Placed) -> tuple[Affine, ...]:
    used = placed.digits()
    return tuple(-digit(d.name) for d in env.schedule.of_kind("thread") if d.name not in used and d.count > 1)


def counter_name(along: str) -> str:
    """The counter of the elections over a block digit."""
    return f"arrived_{along}"


TURNS = "turns"
"""The counter from which blocks that begin in order take their index."""


def words_name(scan: str) -> str:
    """What blocks leave of a prefix for those behind them."""
    return f"{scan}_words"


def arrived_name(scan: str) -> str:
    """The counters of the blocks that have read all that they need of it."""
    return f"{scan}_arrived"


def leaves(nest: LoopNest | Finish) -> list[str]:
    """What runs inside, in order."""
    found: list[str] = []
    for item in nest.items:
        found += [item] if isinstance(item, str) else leaves(item)
    return found
