"""When slots that lie close together in memory, in whatever order, are a few wide accesses.

The three bytes of four pixels a thread, ``x[12*t + 3*v + o]``, are three spans of four bytes; every second element of a
row, ``x[8*t + 2*v]``, is two spans of four elements, of which two are not wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyfuse.affine import Affine, FloorDiv
from polyfuse.lower.context import Context
from polyfuse.lower.vectors import divides, hoist_from_vector
from polyfuse.schedule import Digit, PlaceEntry
from polyfuse.spans import Spans, Step, spans

VECTOR_BYTES = 16
"""The widest access of one instruction."""


@dataclass(frozen=True, slots=True)
class Address:
    """Of an access: the elements from the beginning of the array to `start`, the first slot, as far as the dimensions
    have constant strides, and the steps of slots.  `unit`: elements that the strides of all other dimensions, and the
    array as a whole, are a multiple of.  `reaches`: along some other dimension, to other elements than the first."""

    start: Affine
    steps: tuple[Step, ...]
    unit: Affine
    reaches: bool

    def is_aligned(self, width: int, taken: Spans, context: Context) -> bool:
        """Whether spans begin at multiples of `width`, at each step of each digit, and end inside the array, as those
        do that have no gaps.  That some guard leaves a digit a single value is not for the kernel to know."""
        ends = taken.whole and not self.reaches
        stepping = [f for a, f in self.start.terms if not isinstance(a, str) or context.varies(a)]
        begins = not any(f % width for f in stepping)
        begins = begins and divides(width, self.start - self.start.constant % width, context)
        return begins and (ends or divides(width, self.unit, context))


def span_access(
    address: Address | None,
    slots: Sequence[Digit],
    where: Sequence[Affine],
    context: Context,
    itemsize: int,
    *,
    whole: bool,
) -> tuple[int, tuple[Affine, ...]]:
    """Elements of the aligned spans that take the fewest accesses, and conditions that do not vary within one; 1, and
    `where` as it is, where single elements are no more.  `whole`: spans may have no gaps, as for a store."""
    if address is None:
        return 1, tuple(where)
    single = spans(address.steps, 1)
    fewest, best = (len(single.numbers) if single else 0), (1, tuple(where))
    width = VECTOR_BYTES // itemsize
    found: list[tuple[int, int, tuple[Affine, ...]]] = []
    while single and width > 1:
        first = address.start.constant % width
        taken = spans(address.steps, width, first)
        if taken and len(taken.numbers) < fewest and (taken.whole or not whole):
            conditions = _uniform(where, taken, slots, context)
            fits = conditions is not None and address.is_aligned(width, taken, context)
            found += [(len(taken.numbers), width, conditions)] if conditions is not None and fits else []
        width //= 2
    if found:
        _, width, conditions = min(found, key=lambda f: f[:2])
        best = width, conditions
    return best


def _uniform(
    where: Sequence[Affine], taken: Spans, slots: Sequence[Digit], context: Context
) -> tuple[Affine, ...] | None:
    """`where` as conditions that do not vary within a span, or None."""
    conditions: tuple[Affine, ...] | None = tuple(where)
    for slot in slots:
        if slot.name in taken.varying and conditions is not None:
            conditions = hoist_from_vector(conditions, slot, context)
    return conditions


def address_in_array(index: Sequence[PlaceEntry], slots: Sequence[Digit], extents: Sequence[Affine]) -> Address | None:
    """None where data, or a division, choose what slots access."""
    start, unit = Affine.of(0), Affine.of(1)
    far, reaches = set[str](), False
    for entry, extent in zip(reversed(index), reversed(extents), strict=True):
        if not isinstance(entry, Affine) or not all(isinstance(atom, str) for atom, _ in entry.terms):
            return None
        if unit.is_constant:
            start += entry * unit.constant
            unit = extent * unit.constant
        else:
            far |= entry.names()
            reaches = reaches or entry != Affine.of(0)
    used = [s for s in slots if f"${s.name}" in start.names() or f"${s.name}" in far]
    steps = [Step(s.name, s.count, None if f"${s.name}" in far else start.coefficient(f"${s.name}")) for s in used]
    return Address(start.substitute({f"${s.name}": 0 for s in used}), tuple(steps), unit, reaches)


def address_in_box(index: Sequence[Affine], slots: Sequence[Digit], pitch: Sequence[int]) -> Address | None:
    """The same in shared memory, with the elements between neighbours; spans with gaps may reach beyond its end."""
    start = sum([entry * step for entry, step in zip(index, pitch, strict=True)], start=Affine.of(0))
    used = [s for s in slots if f"${s.name}" in start.names()]
    divided = {name for atom, _ in start.terms if isinstance(atom, FloorDiv) for name in atom.numerator.names()}
    if any(f"${s.name}" in divided for s in used):
        return None
    steps = tuple([Step(s.name, s.count, start.coefficient(f"${s.name}")) for s in used])
    return Address(start.substitute({f"${s.name}": 0 for s in used}), steps, Affine.of(1), reaches=False)
