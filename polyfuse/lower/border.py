"""Interior and border: one test per block instead of a mask per access and a choice per region.

if 1024*b0 + 1023 < N:   whole body without masks, full vectors
else:                    masked body

The interior are the blocks that agree with the middle one.  A mask that holds for all of the middle block, or for
none of it, is decided there; what it decides (whether a padded image is read or reflected, say) is not computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, with_products
from polyfuse.expr import Program
from polyfuse.lower.context import Context
from polyfuse.lower.inspect import flatten, parts
from polyfuse.schedule import Digit, KernelSchedule
from polyfuse.sets import at_least_zero
from polyfuse.terms import conditions

LARGE = 1 << 20
"""Where hints are missing or small: an interior is for arrays of many blocks."""


def interior(ops: Sequence[ir.Op], schedule: KernelSchedule, program: Program, context: Context) -> tuple[Affine, ...]:
    """Affine expressions of the block's digits, all >= 0 where every mask of `ops` is as in the middle block.

    Empty where the middle block decides nothing that the context leaves open.
    """
    middle = _middle_block(schedule, program)
    if middle is None:
        return ()
    inner = {f"${d.name}": d for d in schedule.digits if d.kind != "block"}
    found: dict[Affine, None] = {}
    for condition in dict.fromkeys(masks(ops)):
        ends = _ends(condition, inner)
        if ends is None or not any(name.startswith("$b") for name in ends.least.names()):
            continue  # without a block digit they hold or fail for all blocks alike: they stay masks
        if ends.least.evaluate(middle) >= 0:
            found[ends.least] = None
        elif ends.most.evaluate(middle) < 0:
            found[-ends.most - 1] = None
    return _without_implied(_tightest(found), context)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The least and the greatest value of an expression inside one block."""

    least: Affine
    most: Affine


def _ends(condition: Affine, inner: Mapping[str, Digit]) -> _Ends | None:
    """None where it depends on a loop of symbolic length, or divides a digit of the block's inside."""
    least = most = condition
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


def _middle_block(schedule: KernelSchedule, program: Program) -> dict[str, int] | None:
    """Typical large sizes that obey the program's facts and the kernel's guards, and the middle block for them."""
    hints = {name: max(1, program.hints.get(name, LARGE)) for name in program.symbols}
    for sizes in (
        dict.fromkeys(hints, LARGE),
        {name: hint * LARGE for name, hint in hints.items()},
        hints,
    ):
        known = dict(with_products(sizes, program.derived))
        if _are_possible(known, program.facts, schedule.guards):
            blocks = {f"${d.name}": d.extent.evaluate(known) // 2 for d in schedule.of_kind("block")}
            return {**known, **dict.fromkeys(("$b0", "$b1", "$b2"), 0), **blocks}  # a digit of extent 1 is dropped
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


def masks(ops: Sequence[ir.Op]) -> list[Affine]:
    """Every condition of an access or a value of `ops`, nested ones included."""
    found: list[Affine] = []
    for op in flatten(ops):
        if isinstance(op, (ir.Load, ir.Store, ir.AtomicUpdate, ir.AsyncCopy)):
            found += op.where
        for part in parts(op):
            if not isinstance(part, Affine):
                found += [condition for where in conditions(part) for condition in where]
    return found
