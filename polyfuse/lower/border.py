"""Interior and border: one test per block instead of a mask per access and a choice per region.

if 1024*b0 + 1023 < N:   whole body without masks, full vectors
else:                    masked body

The interior are the blocks that agree with the middle one.  A mask that holds for all of the middle block, or for
none of it, is decided there; what it decides (whether a padded image is read or reflected, say) is not computed.
Where blocks half way from the middle to an end agree on something else, they are one more interior: of the halves of a
concatenation each has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import prod

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, with_products
from polyfuse.expr import Program
from polyfuse.lower.context import Context
from polyfuse.lower.inspect import flatten, parts
from polyfuse.schedule import IN_PIECES, Digit, KernelSchedule
from polyfuse.sets import at_least_zero
from polyfuse.terms import conditions

LARGE = 1 << 20
"""Where hints are missing or small: an interior is for arrays of many blocks."""


MOST = 3
"""Interiors of a kernel on a device: each is a body of its own to compile."""
PIECES, MANY_PIECES = 2, 48
"""Kinds of blocks up to which a CPU core is as fast with one interior, and that have interiors where they are more: of
20 arrays that are joined a core would read all under masks, 3.5 ms for 2 million float32, 0.26 so
(benchmarks/results/cpu_positions.json)."""


@dataclass(frozen=True, slots=True)
class Interior:
    """Blocks where `inside`, affine expressions of their digits, are all >= 0; no condition of `never` holds there."""

    inside: tuple[Affine, ...]
    never: frozenset[Affine]


def interiors(
    ops: Sequence[ir.Op],
    schedule: KernelSchedule,
    program: Program,
    context: Context,
    decided: Set[Affine] = frozenset(),
) -> list[Interior]:
    """The interiors of a kernel, in each of which every mask of `ops` is as in one of the blocks that stand for many:
    that of the middle one first, but behind those that lie in it.  `decided`: masks that loops ask for where they are
    open (`polyfuse.lower.middle`).

    None where the middle block decides nothing that the context leaves open.
    """
    in_pieces = IN_PIECES in dict(schedule.parameters)  # which ask once for each row whether it exists
    accesses = [op for op in flatten(ops) if not (in_pieces and isinstance(op, ir.If))]
    asked = dict.fromkeys(masks(accesses, nested=False))
    conditions = tuple([c for c in asked if _is_of_blocks(c) and c not in decided])
    found: dict[frozenset[Affine], Interior] = {}
    on_cpu = schedule.threads == 1
    for block in _blocks(schedule, program, min(len(conditions), MANY_PIECES) + 1 if on_cpu else 0):
        inside = _agreeing(conditions, block, schedule)
        if frozenset(inside) in found:
            continue
        needed = _without_implied(inside, context)
        if not needed:
            break  # all blocks agree
        never = [c for c in conditions if _is_never(c, block, schedule)] if on_cpu else []
        found[frozenset(inside)] = Interior(needed, frozenset(never))
    most = MOST if not on_cpu else MANY_PIECES if len(found) > PIECES else 1
    kept = list(found.items())[:most]
    kept.sort(key=lambda item: -len(item[0]))  # what is more particular is asked for first: else nothing gets there
    return [interior for _, interior in kept]


MANY = 32
"""Elements of a thread that are loaded for the border alone, from which their registers are the limit: with fewer all
loads are on their way at once, while one that ends a choice waits for the other (optical flow of 50 x 4001, one element
a thread: 4.0 us on an H100, 4.6 so; 16 elements a thread of energies of 4 MB 6.6, and 4.7 so)."""


def passed_by(ops: Sequence[ir.Op], schedule: KernelSchedule, program: Program) -> tuple[ir.Op, ...]:
    """`ops` of blocks at the border, where a block passes by what it has nothing to load of: of the four sides of an
    array that is rolled each has loads of its own, most of them far from a block."""
    middle = next(_blocks(schedule, program), None)
    if middle is None:
        return tuple(ops)
    inner = {f"${d.name}": d for d in schedule.digits if d.kind != "block"}
    some: dict[int, tuple[Affine, ...]] = {}
    elements = 0
    for op in flatten(ops):
        if isinstance(op, ir.Load) and not (op.cut or op.across):
            both = [ends(condition, inner) for condition in op.where]
            if found := _tightest(e.most for e in both if e is not None and e.most.evaluate(middle) < 0):
                some[id(op)] = tuple(found)
                elements += _elements(op, schedule)

    def changed(op: ir.Op) -> ir.Op:
        match op:
            case ir.Load():
                return replace(op, some=some.get(id(op), ()))
            case ir.For():
                return replace(op, body=tuple(map(changed, op.body)))
            case ir.If():
                return replace(op, body=tuple(map(changed, op.body)), orelse=tuple(map(changed, op.orelse)))
            case _:
                return op

    return tuple(map(changed, ops)) if elements >= MANY else tuple(ops)


def _elements(load: ir.Load, schedule: KernelSchedule) -> int:
    """That one thread loads."""
    names = {name for e in (*load.index, *load.where) if isinstance(e, Affine) for name in e.names()}
    return prod(d.count for d in schedule.of_kind("slot") if f"${d.name}" in names)


def _agreeing(conditions: Iterable[Affine], block: Mapping[str, int], schedule: KernelSchedule) -> list[Affine]:
    """What holds where all `conditions` are as in `block`."""
    inner = {f"${d.name}": d for d in schedule.digits if d.kind != "block"}
    found: dict[Affine, None] = {}
    for condition in conditions:
        both = ends(condition, inner)
        if both is None or not any(name.startswith("$b") for name in both.least.names()):
            continue  # without a block digit they hold or fail for all blocks alike: they stay masks
        if both.least.evaluate(block) >= 0:
            found[both.least] = None
        elif both.most.evaluate(block) < 0:
            found[-both.most - 1] = None
    return _tightest(found)


def _is_never(condition: Affine, block: Mapping[str, int], schedule: KernelSchedule) -> bool:
    """Whether a condition is one of those that fail in all of `block`."""
    both = ends(condition, {f"${d.name}": d for d in schedule.digits if d.kind != "block"})
    return both is not None and any(n.startswith("$b") for n in both.least.names()) and both.most.evaluate(block) < 0


@dataclass(frozen=True, slots=True)
class _Ends:
    """The least and the greatest value of an expression inside one block."""

    least: Affine
    most: Affine


def ends(condition: Affine, inner: Mapping[str, Digit]) -> _Ends | None:
    """None where it depends on a loop of symbolic length, or divides a digit of the block's inside, but for remainders
    of it, as those by which rows in frames begin: they may be any."""
    least = most = condition
    for divided, times in condition.remainders()[1]:
        if divided.numerator.names() & inner.keys():
            rest = (divided.numerator - Affine(((divided, divided.denominator),))) * times
            beyond = (divided.denominator - 1) * times
            least, most = least - rest + min(beyond, 0), most - rest + max(beyond, 0)
    condition = least
    for atom, factor in condition.terms:
        if not isinstance(atom, str):
            if atom.numerator.names() & inner.keys():
                return None
            continue
        digit = inner.get(atom)
        if digit is None:
            continue
        if not digit.extent.is_constant:
            return None
        last = digit.count - 1
        least = least.substitute({atom: last if factor < 0 else 0})
        most = most.substitute({atom: last if factor > 0 else 0})
    return _Ends(least, most)


def middle_block(schedule: KernelSchedule, program: Program) -> dict[str, int] | None:
    """The block in the middle, with typical large sizes; None where none are known."""
    return next(_blocks(schedule, program), None)


def _blocks(schedule: KernelSchedule, program: Program, parts: int = 0) -> Iterator[dict[str, int]]:
    """Blocks, with typical large sizes that obey the program's facts and the kernel's guards: the middle one, and those
    half way from there to the ends along one digit; also those in the middle of so many equal `parts` along it, as far
    as it has so many places at the hinted sizes."""
    known = _sizes(schedule, program)
    if known is None:
        return
    counts = {d.name: d.extent.evaluate(known) for d in schedule.of_kind("block")}
    dropped = dict.fromkeys(("$b0", "$b1", "$b2"), 0)  # digits of extent 1
    usual = with_products({name: max(1, program.hints.get(name, LARGE)) for name in program.symbols}, program.derived)
    hinted = {d.name: d.extent.evaluate(usual) for d in schedule.of_kind("block")}
    middle = {**known, **dropped, **{f"${name}": count // 2 for name, count in counts.items()}}
    yield middle
    for name, count in counts.items():
        places = min(parts, hinted[name])
        if parts and places <= PIECES:
            continue
        yield {**middle, f"${name}": count // 4}
        yield {**middle, f"${name}": (3 * count) // 4}
        yield from ({**middle, f"${name}": (2 * k + 1) * count // (2 * places)} for k in range(places))


def _sizes(schedule: KernelSchedule, program: Program) -> Mapping[str, int] | None:
    hints = {name: max(1, program.hints.get(name, LARGE)) for name in program.symbols}
    for sizes in (
        dict.fromkeys(hints, LARGE),
        {name: hint * LARGE for name, hint in hints.items()},
        hints,
    ):
        known = with_products(sizes, program.derived)
        if _are_possible(known, program.facts, schedule.guards):
            return known
    return None


def _are_possible(sizes: Mapping[str, int], facts: Iterable[Affine], guards: Iterable[AnyGuard]) -> bool:
    return all(f.evaluate(sizes) >= 0 for f in facts) and all(g.holds(sizes) for g in guards)


def _tightest(conditions: Iterable[Affine]) -> list[Affine]:
    """Of conditions that differ by a constant, the strongest."""
    least: dict[tuple[object, ...], Affine] = {}
    for condition in conditions:
        known = least.get(condition.terms)
        if known is None or condition.constant < known.constant:
            least[condition.terms] = condition
    return list(least.values())


def _without_implied(conditions: Sequence[Affine], context: Context) -> tuple[Affine, ...]:
    """Those that neither the context nor the other ones imply."""
    kept = list(conditions)
    for condition in conditions:
        others = [c for c in kept if c is not condition]
        if context.assuming(at_least_zero(others)).implies(condition):
            kept = others
    return tuple(kept)


def _is_of_blocks(condition: Affine) -> bool:
    return any(name.startswith("$b") for name in condition.names())


def masks(ops: Sequence[ir.Op], *, nested: bool = True) -> list[Affine]:
    """Every condition of an access or a value of `ops`, `nested` ones included."""
    found: list[Affine] = []
    for op in flatten(ops) if nested else ops:
        if isinstance(op, (ir.Load, ir.Store, ir.AtomicUpdate, ir.AsyncCopy)):
            found += op.where
        for part in parts(op):
            if not isinstance(part, Affine):
                found += [condition for where in conditions(part) for condition in where]
    return found
