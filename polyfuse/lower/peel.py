"""Split the last trip off a loop when only it needs masks: a masked access costs a core several plain ones.

for r < ceil(n/32):  x = load(32*r + v, where 32*r + v < n)
becomes
for r < n//32:       x = load(32*r + v)
if n % 32:           x = load(32*(n//32) + v, where ...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.border import masks
from polyfuse.lower.inspect import flatten, value_references
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Expr, Inside, Ref, conditions, with_affines


def whole_trips(ops: Sequence[ir.Op], loop: str, digits: Sequence[Digit]) -> Affine | None:
    """How many trips of `loop` need no mask of `ops` that speaks of it; None where blocks disagree, or masks by more
    than a number of elements."""
    inner = {f"${d.name}": d for d in digits if d.kind != "block" and d.name != loop and d.extent.is_constant}
    name = f"${loop}"
    least: dict[tuple[object, int], Affine] = {}
    for condition in masks(ops):
        step = -condition.coefficient(name)
        if step <= 0:
            continue
        worst = condition.substitute({name: 0})
        for atom, factor in condition.terms:
            if isinstance(atom, str) and atom in inner:
                worst = worst.substitute({atom: inner[atom].count - 1 if factor < 0 else 0})
        if any(n.startswith("$") for n in worst.names()):
            return None
        known = least.setdefault((worst.terms, step), worst)
        least[worst.terms, step] = min(known, worst, key=lambda w: w.constant)
    if len(least) != 1:
        return None
    ((_, step), worst) = least.popitem()
    return worst // step + 1


def between_ends(ops: Sequence[ir.Op], loop: str, digits: Sequence[Digit]) -> tuple[int, tuple[Affine, ...]] | None:
    """From which trip of `loop` on, and in front of which ones, no mask of `ops` that speaks of it is needed, wherever
    the rows of a block begin in memory; None where masks say more than that something has begun and not ended.

    j = 1024*r + 8*t + v - s >= 0     from trip 1 on, where t < 128 and s, v < 8
    n - 1 - j >= 0                    in front of trip n // 1024
    """
    inner = {f"${d.name}": d for d in digits if d.name != loop and d.extent.is_constant}
    name, begin, ends = f"${loop}", 0, dict[Affine, None]()
    for condition in dict.fromkeys(masks(ops)):
        if name not in condition.names():
            continue
        step, worst = condition.coefficient(name), _least(condition.substitute({name: 0}), inner)
        if not step or any(n.startswith("$") for n in worst.names()) or step > 0 and not worst.is_constant:
            return None
        if step > 0:
            begin = max(begin, -(worst.constant // step))
        else:
            ends[worst // -step + 1] = None
    return (begin, tuple(ends)) if ends else None


def _least(condition: Affine, inner: Mapping[str, Digit]) -> Affine:
    """A bound of what a condition is at least over digits, of remainders whatever they are."""
    rest, remainders = condition.remainders()
    rest += sum([min(0, times * (atom.denominator - 1)) for atom, times in remainders])
    steps = {a: inner[a].count - 1 if f < 0 else 0 for a, f in rest.terms if isinstance(a, str) and a in inner}
    return rest.substitute(steps)


PREDICATES = 7
"""Registers of a thread for truths.  Loads whose masks are more wait for each other: prefixes along the middle of 512 x
512 x 513 float32 in single elements take an H200 455 us in trips of four rows, each with a mask, 633 in trips of 16."""
TRIPS = 4
"""How many trips of a short loop a compiler runs together."""


def disagree(ops: Sequence[ir.Op], loop: str, digits: Sequence[Digit]) -> bool:
    """Whether masks of `ops` that speak of the loop are of several places, as those of neighbours, or more than there
    are registers for: those of what is computed from loads are needed until the loads are there, of all trips that run
    together."""
    found = {condition for condition in masks(ops) if condition.coefficient(f"${loop}")}
    slots = {f"${d.name}": d.count for d in digits if d.kind == "slot"}
    each = {c: prod([slots[name] for name in c.names() & slots.keys()]) for c in found}
    kept = sum(each[c] for c in found & set(_kept(ops)))
    return len(found) > 1 or sum(each.values()) >= PREDICATES or kept * TRIPS >= PREDICATES


def _kept(ops: Sequence[ir.Op]) -> Iterator[Affine]:
    """Conditions of what is reduced, but of loads that nothing else takes: those are loaded with neutral elements
    (`polyfuse.lower.masked`)."""
    loads = {op.name for op in flatten(ops) if isinstance(op, ir.Load) and op.mask is None and not op.cut}
    uses = Counter(ref.name for ref in value_references(ops))
    for op in flatten(ops):
        match op:
            case ir.Reduce(values=(Apply("where", (Inside(), Ref(name), _)),)) if name in loads and uses[name] == 1:
                pass
            case ir.Reduce(values=values):
                yield from [c for value in values for where in conditions(value) for c in where]
            case _:
                pass


def at_trip(ops: Sequence[ir.Op], loop: str, trip: Affine) -> tuple[ir.Op, ...]:
    """`ops` with the digit of `loop` replaced by the number of one trip."""
    return with_values(ops, {f"${loop}": trip})


def with_values(ops: Sequence[ir.Op], values: Mapping[str, Affine]) -> tuple[ir.Op, ...]:
    """`ops` with names in affine expressions replaced."""
    return changed(ops, lambda expression: expression.substitute(values))


def changed(ops: Sequence[ir.Op], change: Callable[[Affine], Affine]) -> tuple[ir.Op, ...]:
    """`ops` with every affine expression replaced."""
    return tuple(_changed(op, change) for op in ops)


def _changed(op: ir.Op, change: Callable[[Affine], Affine]) -> ir.Op:
    def term(expression: Expr) -> Expr:
        return with_affines(expression, change)

    def index(entries: tuple[Affine | Ref, ...]) -> tuple[Affine | Ref, ...]:
        return tuple(change(e) if isinstance(e, Affine) else e for e in entries)

    def where(conditions: tuple[Affine, ...]) -> tuple[Affine, ...]:
        return tuple(map(change, conditions))

    def load(op: ir.Load) -> ir.Load:
        mask = None if op.mask is None else term(op.mask)
        return replace(op, index=index(op.index), where=where(op.where), mask=mask, some=where(op.some))

    match op:
        case ir.Let() | ir.Scan() | ir.Keep():
            return replace(op, value=term(op.value))
        case ir.Load():
            return load(op)
        case ir.Neighbours():
            return ir.Neighbours(tuple(map(load, op.loads)))
        case ir.Store() | ir.AtomicUpdate():
            mask = None if op.mask is None else term(op.mask)
            return replace(op, index=index(op.index), value=term(op.value), where=where(op.where), mask=mask)
        case ir.Reduce() | ir.Combine() | ir.Exchange():
            return replace(op, values=tuple(term(v) for v in op.values))
        case ir.Contract():
            return replace(op, left=term(op.left), right=term(op.right))
        case ir.For():
            body = tuple(_changed(o, change) for o in op.body)
            until = None if op.until is None else change(op.until)
            return replace(op, extent=change(op.extent), body=body, until=until)
        case ir.If():
            body, orelse = (tuple(_changed(o, change) for o in part) for part in (op.body, op.orelse))
            return replace(op, condition=term(op.condition), body=body, orelse=orelse)
        case ir.Leave() | ir.Carry():
            return replace(
                op,
                value=term(op.value),
                line=tuple(change(e) for e in op.line),
                number=change(op.number),
                count=change(op.count),
            )
        case ir.Elect():
            group = tuple(change(e) for e in op.group)
            return replace(op, group=group, count=change(op.count))
        case ir.AsyncCopy():
            into = tuple(change(e) for e in op.into)
            at = tuple(change(e) for e in op.index)
            return replace(op, into=into, index=at, where=where(op.where))
        case ir.Take() | ir.Kept() | ir.Barrier() | ir.CommitCopies() | ir.WaitCopies():  # speaks of slots only
            return op
