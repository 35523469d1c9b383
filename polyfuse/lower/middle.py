"""Trips of a core's loop for which no mask has to be asked: a masked access costs a core several plain ones.

    for r < 16384:                       a share of 262144 elements, of which the last block has fewer
      x = load(x, j, where j < n)        j = 262144*b + 16*r + v
      m = max(m, where(j < n, x, -inf))
becomes
    for r < min(16384, end):             end = (n - 262144*b) // 16, of the block
      x = load(x, j);  m = max(m, x)
    for r < min(16384, done) - end:      done = ceil((n - 262144*b) / 16): from there on nothing is left to do
      ... with masks, at r + end

Where masks say that something has begun, as inside of a frame of padding, the first trips are a loop of their own too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.expr import Program
from polyfuse.lower.border import masks, middle_block
from polyfuse.lower.context import Context
from polyfuse.lower.idle_trips import are_idle
from polyfuse.lower.inspect import flatten
from polyfuse.lower.peel import whole_trips
from polyfuse.schedule import Digit, KernelSchedule

FEW = 8
"""Trips at the beginning of a loop of unknown length that may have masks."""


@dataclass(frozen=True, slots=True)
class Middle:
    """The trips of a loop from `begin` on and before `end` need none of the masks `decided`; those from `done` on have
    nothing to do, where that is known.  `end` may lie outside of the loop."""

    begin: int
    end: Affine
    done: Affine | None
    decided: frozenset[Affine]

    @property
    def is_all(self) -> bool:
        """Whether there is nothing to do outside."""
        return not self.begin and self.end == self.done


def middles(
    ops: Sequence[ir.Op], schedule: KernelSchedule, program: Program, initial: Set[str], context: Context
) -> dict[str, Middle]:
    """The middles of the loops of `ops`, in which every loop is one.  `initial`: values that loops hand on."""
    found: dict[str, Middle] = {}
    for loop, outer in _loops(ops, frozenset()):
        inner = [d for d in schedule.digits if d.name not in outer | {loop.digit} and d.kind != "block"]
        middle = _middle(loop, inner, initial, context, middle_block(schedule, program))
        if middle is not None and not _is_peeled(loop, middle, schedule.digits, context):
            found[loop.digit] = middle
    return found


def _is_peeled(loop: ir.For, middle: Middle, digits: Sequence[Digit], context: Context) -> bool:
    """Whether the last trip alone stands apart, in all blocks."""
    whole = None if middle.begin else whole_trips(loop.body, loop.digit, digits)
    return whole is not None and context.implies(whole + 1 - loop.extent)


def _loops(ops: Sequence[ir.Op], outer: frozenset[str]) -> Iterator[tuple[ir.For, frozenset[str]]]:
    for op in ops:
        if isinstance(op, ir.For):
            yield op, outer
            yield from _loops(op.body, outer | {op.digit})
        elif isinstance(op, ir.If):
            yield from _loops((*op.body, *op.orelse), outer)


def _middle(
    loop: ir.For, digits: Sequence[Digit], initial: Set[str], context: Context, block: Mapping[str, int] | None
) -> Middle | None:
    """`digits`: those inside of the loop.  `block`: one of the many, in which most of a loop is to be its middle.

    None where that would not do without masks.  A loop around others has no trips before and behind, which would be as
    many loops again: there, what is not decided is left to interiors.
    """
    sides = _sides(loop, {f"${d.name}": d for d in digits})
    failing = {side.condition: side.fails for side in sides if side.fails is not None}
    done, is_outer = _done(loop, failing, initial, context), any(isinstance(op, ir.For) for op in flatten(loop.body))
    if is_outer:
        sides = [side for side in sides if side.end == side.fails == done]
    begins = {side.condition: side.first for side in sides if side.first is not None and not is_outer}
    ends = {side.condition: side.end for side in sides if side.condition not in begins}
    begin, end = max(begins.values(), default=0), _first(dict.fromkeys(ends.values()), loop.extent, context)
    decided = frozenset((*begins, *(c for c, until in ends.items() if context.implies(until - end))))
    if not decided or len(decided) < len(sides) or not begin and end == loop.extent:
        return None
    if not context.implies(loop.extent - begin) or not _is_most(begin, end, loop.extent, block):
        return None
    return Middle(begin, end, done, decided)


@dataclass(frozen=True, slots=True)
class _Side:
    """Where a condition is decided: from trip `first` on, None where that is not known or not near the beginning; until
    `end`; from `fails` on it does not hold, None where it does from somewhere on."""

    condition: Affine
    first: int | None
    end: Affine
    fails: Affine | None


def _sides(loop: ir.For, inner: Mapping[str, Digit]) -> list[_Side]:
    """Of all conditions that change in a loop; of one that is none of a number of trips, an end that is in front."""
    name, found = f"${loop.digit}", list[_Side]()
    for condition in dict.fromkeys(masks(loop.body)):
        if name not in condition.names():
            continue
        step, both = condition.coefficient(name), _range(condition.substitute({name: 0}), inner)
        if not step or both is None or name in both[0].names():
            found.append(_Side(condition, None, Affine.of(0), None))
            continue
        least, most = both
        if step > 0:
            first, end, fails = -(_at_least(least) // step), (-most - 1) // step + 1, None
        else:
            first, end, fails = -_at_least(-most) // -step + 1, least // -step + 1, most // -step + 1
        is_near = first.is_constant and first.constant <= _half(loop.extent)
        found.append(_Side(condition, max(0, first.constant) if is_near else None, end, fails))
    return found


def _half(extent: Affine) -> int:
    return extent.constant // 2 if extent.is_constant else FEW


def _range(condition: Affine, inner: Mapping[str, Digit]) -> tuple[Affine, Affine] | None:
    """The least and the greatest value of a condition over digits inside; None where it divides one, or the length of
    its loop is a symbol."""
    least = most = condition
    for atom, factor in condition.terms:
        if not isinstance(atom, str):
            if atom.numerator.names() & inner.keys():
                return None
        elif (digit := inner.get(atom)) is not None:
            if not digit.extent.is_constant:
                return None
            last = digit.count - 1
            least = least.substitute({atom: last if factor < 0 else 0})
            most = most.substitute({atom: last if factor > 0 else 0})
    return least, most


def _at_least(value: Affine) -> Affine:
    """A lower bound: no digit is negative."""
    return value.substitute({a: 0 for a, f in value.terms if isinstance(a, str) and a.startswith("$") and f > 0})


def _is_most(begin: int, end: Affine, extent: Affine, block: Mapping[str, int] | None) -> bool:
    """Whether most of a loop lies between two trips, in the block that stands for many."""
    names = end.names() | extent.names()
    if block is None or not names <= block.keys():
        return not any(name.startswith("$") for name in names)
    trips = extent.evaluate(block)
    return 2 * (min(end.evaluate(block), trips) - begin) >= trips


def _first(ends: Mapping[Affine, None], extent: Affine, context: Context) -> Affine:
    """The one that is never behind others; of those that are neither, the first."""
    found = next(iter(ends), extent)
    for end in ends:
        if not context.implies(end - found) and context.implies(found - end):
            found = end
    return extent if found.is_constant and extent.is_constant and found.constant >= extent.constant else found


def _done(loop: ir.For, failing: Mapping[Affine, Affine], initial: Set[str], context: Context) -> Affine | None:
    """From which trip on there is nothing to do.  `failing`: from which trip on conditions fail."""
    for done in dict.fromkeys(failing.values()):
        if context.implies(done - loop.extent):
            continue
        if are_idle(loop.body, {c for c, first in failing.items() if context.implies(done - first)}, initial):
            return done
    return None
