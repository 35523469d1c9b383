"""Elements that data choose and data throw away again are not loaded.

    u = load u[k, c]                              u = load u[k, c] where m
    g = u                                    ->   g = u
    y = where(m, g, z)                            y = where(m, g, z)

Only loads at data indices: what is thrown away there is often most of it, such as the rows that a table does not name.
Elsewhere a plain load is one access of a whole tile, and is free to move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_
from polyfuse.lower.inspect import bound, flatten, parts
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref


def guarded(body: tuple[ir.Op, ...], slots: Sequence[str]) -> tuple[ir.Op, ...]:
    """The body whose gathers are masked by the condition under which alone they are used.  `slots`: of the kernel."""
    if not any(_is_plain_gather(op) for op in flatten(body)):
        return body
    facts = _Facts.of(body, frozenset(f"${slot}" for slot in slots))
    return _guarded(body, facts, frozenset())


@dataclass(frozen=True, slots=True)
class _Facts:
    """Of values by name: how often they are assigned on one way through the body, the slots over which they vary, and
    their guards: one condition per use, None for a use without."""

    assigned: dict[str, int]
    axes: dict[str, frozenset[str]]
    guards: dict[str, list[str | None]]

    @staticmethod
    def of(body: Sequence[ir.Op], slots: frozenset[str]) -> _Facts:
        facts = _Facts(_assigned(body), {}, {})
        aliases: list[tuple[str, str]] = []
        for op in flatten(body):
            varies = slots
            if isinstance(op, (ir.Let, ir.Load)):
                varies = frozenset().union(*(_axes(part, slots, facts.axes) for part in parts(op)))
            for name in bound(op):
                if facts.axes.setdefault(name, varies) != varies:
                    facts.assigned[name] += 1  # the branches have values of different shapes
            if isinstance(op, ir.Let) and isinstance(op.value, Ref):
                aliases.append((op.name, op.value.name))
                continue
            for part in parts(op):
                if not isinstance(part, Affine):
                    for name, guard in _uses(part):
                        facts.guards.setdefault(name, []).append(guard)
        for name, source in reversed(aliases):
            once = facts.assigned[name] == 1
            facts.guards.setdefault(source, []).extend(facts.guards.get(name, []) if once else [None])
        return facts


def _guarded(body: tuple[ir.Op, ...], facts: _Facts, known: frozenset[str]) -> tuple[ir.Op, ...]:
    found: list[ir.Op] = []
    for op in body:
        match op:
            case ir.For():
                found.append(replace(op, body=_guarded(op.body, facts, known)))
            case ir.If():
                inner, other = _guarded(op.body, facts, known), _guarded(op.orelse, facts, known)
                found.append(replace(op, body=inner, orelse=other))
            case ir.Load() if _is_plain_gather(op) and (guard := _guard(op, facts, known)) is not None:
                found.append(replace(op, mask=Ref(guard, bool_)))
            case _:
                found.append(op)
        known |= frozenset(bound(op))
    return tuple(found)


def _is_plain_gather(op: ir.Op) -> bool:
    is_gather = isinstance(op, ir.Load) and any(isinstance(at, Ref) for at in op.index)
    return is_gather and isinstance(op, ir.Load) and op.mask is None and op.other is not None


def _guard(load: ir.Load, facts: _Facts, known: frozenset[str]) -> str | None:
    """The condition that all uses of the load share, where it is known before and varies no more than one access."""
    guards = set(facts.guards.get(load.name, [None]))
    (guard,) = guards if len(guards) == 1 else (None,)
    if guard is None or guard not in known or facts.assigned[guard] > 1 or facts.assigned[load.name] > 1:
        return None
    last = load.index[-1]
    within = isinstance(last, Affine) and not facts.axes[guard] & last.names()
    return guard if facts.axes[guard] <= facts.axes[load.name] and (load.vector == 1 or within) else None


def _assigned(body: Sequence[ir.Op]) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in body:
        counts = dict.fromkeys(bound(op), 1)
        match op:
            case ir.For(body=inner):
                counts = _assigned(inner)
            case ir.If(body=inner, orelse=orelse):
                counts, other = _assigned(inner), _assigned(orelse)
                counts |= {name: max(count, counts.get(name, 0)) for name, count in other.items()}
        for name, count in counts.items():
            found[name] = found.get(name, 0) + count
    return found


def _axes(part: Affine | Expr, slots: frozenset[str], axes: dict[str, frozenset[str]]) -> frozenset[str]:
    match part:
        case Affine():
            return part.names() & slots
        case Ref(name=name):
            return axes.get(name, slots)
        case Const():
            return frozenset()
        case Index(affine=affine):
            return affine.names() & slots
        case Inside(where=where):
            return frozenset().union(*(w.names() for w in where)) & slots
        case Apply(operands=operands):
            return frozenset().union(*(_axes(o, slots, axes) for o in operands))


def _uses(term: Expr) -> Iterator[tuple[str, str | None]]:
    """Values used, each with the condition of the `where` that picks it."""
    match term:
        case Ref(name=name):
            yield name, None
        case Apply(function="where", operands=(Ref(name=condition), Ref(name=picked), otherwise)):
            yield condition, None
            yield picked, condition
            yield from _uses(otherwise)
        case Apply(operands=operands):
            for operand in operands:
                yield from _uses(operand)
        case _:
            return
