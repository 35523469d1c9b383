"""When consecutive slots are one memory access, and the conditions rewritten so that they do not vary inside it."""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse import sets
from polyfuse.affine import Affine, digit, names_of
from polyfuse.lower.context import Context
from polyfuse.schedule import Digit, PlaceEntry, in_frame
from polyfuse.sets import Constraint


def vector_slot(index: Sequence[PlaceEntry], slots: Sequence[Digit]) -> Digit | None:
    """The innermost slot that the index uses, if it steps by one element along the last dimension only."""
    if not index or not isinstance(index[-1], Affine):
        return None
    affine = [e for e in index if isinstance(e, Affine)]
    used = [s for s in slots if any(f"${s.name}" in e.names() for e in affine)]
    if not used:
        return None
    slot = used[-1]
    name = f"${slot.name}"
    if index[-1].coefficient(name) != 1 or any(name in e.names() for e in affine[:-1]):
        return None
    if any(not isinstance(a, str) and name in a.numerator.names() for a, _ in index[-1].terms):
        return None
    return slot if slot.count > 1 and slot.count & (slot.count - 1) == 0 else None  # no access has three elements


def divides(width: int, expression: Affine, context: Context) -> bool:
    """True when `width` divides `expression` wherever the kernel runs."""
    rest = Affine(tuple((a, f % width) for a, f in expression.terms if f % width), expression.constant % width)
    if rest.is_constant:
        return rest.constant == 0
    if context.is_of_any_part(rest):
        return False
    constraints = context.around(rest)
    known = {c.expression for c in constraints if c.kind == "mod" and c.modulus % width == 0}
    if all((Affine(((a, 1),)) in known) for a, _ in rest.terms) and rest.constant == 0:
        return True
    if rest in known:
        return True
    names = tuple(sorted(rest.names() | names_of(c.expression for c in constraints)))
    odd = [Constraint(rest - 1 - r, "mod", width) for r in range(width - 1)]
    try:
        return all(sets.is_empty(sets.Relation(names, (*constraints, c))) for c in odd)
    except sets.BudgetExceeded:
        return False


def vector_width(
    index: Sequence[PlaceEntry], slots: Sequence[Digit], extents: Sequence[Affine], context: Context
) -> tuple[int, Digit | None]:
    """How many slots one access may take: the slot's extent where every first element of one is aligned, else 1."""
    slot = vector_slot(index, slots)
    if slot is None:
        return 1, None
    last = index[-1]
    assert isinstance(last, Affine)
    width = slot.count
    start = last - digit(slot.name)
    if divides(width, start, context):
        return (width, slot) if len(index) == 1 or divides(width, extents[-1], context) else (1, None)
    address = _address(width, (*index[:-1], start), extents, context) if in_frame(last) else None
    return (width, slot) if address is not None and divides(width, address, context) else (1, None)


def _address(
    width: int, index: Sequence[PlaceEntry], extents: Sequence[Affine], context: Context
) -> Affine | None:
    """The address of an element but for multiples of `width`; None where a size leaves it open.

    x[$b0, 8*$t - 7*$b0 mod 8] of rows of 8*k + 7 elements, 8:    7*$b0 + 8*$t - 7*$b0 mod 8
    """
    total, stride = Affine.of(0), 1
    for entry, extent in zip(reversed(index), reversed(extents), strict=True):
        if not isinstance(entry, Affine) or stride < 0:
            return None
        total += entry * stride
        rest = remainder(width, extent, context)
        stride = -1 if rest is None else stride * rest % width
    return total


def remainder(width: int, extent: Affine, context: Context) -> int | None:
    """What `width` leaves of a size, where the kernel's guards say."""
    stated = [c.expression for c in context.constraints if c.kind == "mod" and c.modulus % width == 0]
    for known in (Affine.of(0), *stated):
        rest = extent - known
        if all(factor % width == 0 for _, factor in rest.terms):
            return rest.constant % width
    return None


def hoist_from_vector(conditions: Sequence[Affine], slot: Digit, context: Context) -> tuple[Affine, ...] | None:
    """Conditions equivalent to `conditions` that do not mention `slot`, or None.

    ``N - 1 - (4*t + v) >= 0`` with 4 dividing N is ``N - 4 - 4*t >= 0``: all slots of a vector agree.
    """
    name, width = f"${slot.name}", slot.count
    out: list[Affine] = []
    for condition in conditions:
        factor = condition.coefficient(name)
        if factor == 0 and name not in condition.names():
            out.append(condition)
            continue
        if abs(factor) != 1:
            return None
        base = condition.substitute({name: 0})
        # all slots agree when the first and the last give the same answer: base + {0, f*(width-1)} straddles no zero
        aligned = base if factor > 0 else base + 1
        if not divides(width, aligned, context):
            return None
        out.append(base if factor > 0 else base - (width - 1))
    return tuple(out)
