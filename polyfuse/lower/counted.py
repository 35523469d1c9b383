"""Masks of values and of stores that share no predicate with the loads of them: how many elements a thread has, told
by a count.

    x = load x[i, t + 128*c] where t + 128*c < n      x = load x[i, t + 128*c] where t + 128*c < n
    z = x * w                                    ->   z = x * w
    m = max over c of where(t + 128*c < n, z, -inf)   m = max over c of where(c <= (n - 1 - t) // 128, z, -inf)

ptxas has seven predicates.  A mask that the load of an element and a choice behind it share holds one from the one to
the other, so that the eighth element is not loaded before the first one has arrived: of softmax over 16384 rows of
4001, times a number of each row, 7 of 32 loads were on their way at once, and an H200 took 154 us, 126 without them.
A count is one register, and its comparisons wait for the values.  Then registers are what loads lack, and the indices
of a block take but one division: softmax of rows of 513 in a batch took an H200 130 us with shared masks, and 196 with
counts and a remainder, in 80 registers, where 30 of 48 loads were on their way; without one, in 64 registers, all are:
137 us on an H100, where shared masks took 147.

A mask of two conditions that a load and a store share waits in a register from the one to the other, one bit for each
element, and costs four instructions to set and to ask for, where the store may count in one: columns of 512 over their
norm, 32 elements of a thread, 1,192 instructions of 62 registers, not 1,312 of 64 and 56 bytes spilled.  Those of one
condition are compared again, unless values between the two count, for then ptxas keeps what the load asked: decibels of
16384 rows of 4001 below their maximum, 5 of 32 loads on their way, took an H200 378 us so, and 136 where the store has
the count of the values.  Where values share a mask of two conditions, it waits in any case: batch normalisation of 1024
x 512 x 7 x 7 float32 took an H200 117 us so, 296 bytes of a thread in memory, and 90 with 88.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd, prod

from polyfuse import kernel as ir
from polyfuse.affine import Affine, Atom, FloorDiv, names_of
from polyfuse.lower.inspect import flatten, parts
from polyfuse.lower.masked import with_leaves
from polyfuse.terms import Expr, Inside, Leaf, leaves

PREDICATES = 7
USES = 3
"""Masks of values from which one that is kept is cheaper than as many comparisons: of moments, whose count, mean and
squares are masked one by one, covariance of columns took an H200 192 us, and 215 with counts."""
ELEMENTS = 64
"""Loaded with masks, at most.  All are on their way at once, and each has a register: autocorrelations of rows of 4001
at four lags, 128 of a thread, took 100 us, and 125 with counts."""

STORED = 16
"""Of a mask of two conditions, from which on stores count: eight elements are as cheap either way."""

BOUND = 1024
"""Threads that are to be on a processor, from which a kernel has no register for a count: softmax of rows of 262,144
and over the first two of three axes, with 64 registers, spilled 8 and 48 bytes."""


def with_counts(body: tuple[ir.Op, ...], slots: Sequence[ir.Slot], *, of_values: bool = True) -> tuple[ir.Op, ...]:
    """The body whose stores are masked by counts where more elements than there are predicates are loaded with the same
    masks, and whose values are where `of_values`.  `slots`: the register axes."""
    extents = {f"${s.name}": s.extent for s in slots}
    loads = [op for op in flatten(body) if isinstance(op, ir.Load) and op.where]
    many = {w: _elements((w,), extents) for op in loads for w in op.where}
    counts = {w: _counted(w, frozenset(extents)) for w, elements in many.items() if elements > PREDICATES}
    counts = {condition: count for condition, count in counts.items() if count != condition}
    if not counts:
        return body
    uses = Counter(condition for op in flatten(body) if not isinstance(op, ir.Load) for condition in _masks(op))
    sizes = [_elements(op.where, extents) for op in loads]
    few = of_values and sum(n for n in sizes if n > PREDICATES) <= ELEMENTS
    values = {w: count for w, count in counts.items() if few and 0 < uses[w] < USES}
    double = {w for op in loads if len(op.where) > 1 for w in op.where}
    stores = {w: count for w, count in counts.items() if w in double and (not uses[w] or w in values)}
    if sum(many[condition] for condition in stores) <= STORED:
        stores = {}
    stores |= values
    rewritten = tuple(_rewritten(op, stores, values) for op in body) if stores or values else body
    return body if rewritten == body else rewritten


def _elements(conditions: Sequence[Affine], extents: Mapping[str, int]) -> int:
    """Slots that differ in conditions."""
    return prod(extents.get(name, 1) for name in names_of(conditions))


def _masks(op: ir.Op) -> Iterator[Affine]:
    """The conditions of all masks in the terms of an operation."""
    for part in parts(op):
        if not isinstance(part, Affine):
            yield from (w for leaf in leaves(part) if isinstance(leaf, Inside) for w in leaf.where)


def _counted(condition: Affine, slots: frozenset[str]) -> Affine:
    """The same condition, with the slots on their own: ``128*c <= r`` is ``c <= floor(r / 128)``, where the normal form
    of quotients would take whole multiples of 128 out of every other term."""
    steps: dict[Atom, int] = {a: k for a, k in condition.terms if a in slots}
    step = gcd(*steps.values())
    if step < 2:
        return condition
    rest = Affine(tuple([(a, k) for a, k in condition.terms if a not in steps]), condition.constant)
    return Affine.build({FloorDiv(rest, step): 1, **{a: k // step for a, k in steps.items()}}, 0)


def _rewritten(op: ir.Op, stores: dict[Affine, Affine], values: dict[Affine, Affine]) -> ir.Op:
    def leaf(term: Leaf) -> Expr:
        return Inside(tuple([values.get(w, w) for w in term.where])) if isinstance(term, Inside) else term

    def inner(ops: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
        return tuple(_rewritten(o, stores, values) for o in ops)

    match op:
        case ir.Load():
            return op
        case ir.For():
            return replace(op, body=inner(op.body))
        case ir.If():
            return replace(op, body=inner(op.body), orelse=inner(op.orelse))
        case ir.Store():
            found = with_leaves(op, leaf)
            assert isinstance(found, ir.Store)
            return replace(found, where=tuple([stores.get(w, w) for w in op.where]))
        case _:
            return with_leaves(op, leaf)
