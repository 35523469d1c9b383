"""Cut vectors of which nobody sees what lies beside the row: nothing has to replace it.

    x = load x[i, 8*t + v - s] where j >= 0, j < n, else 0          x = load ..., else anything
    y = x * 2                                               ->      y = x * 2
    store y[i, 8*t + v - s] = y where j >= 0, j < n                 store ...

Replacing it is a branch that every row takes twice, and what is loaded next waits behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine, names_of
from polyfuse.lower.inspect import flatten, parts
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Inside, Ref

Conditions = frozenset[Affine]
NONE: Conditions = frozenset()


def with_open_ends(body: tuple[ir.Op, ...], threads: Sequence[Digit]) -> tuple[ir.Op, ...]:
    """The body whose cut loads get anything where their conditions do not hold and only what is dropped again depends
    on it: no index of memory.  `threads`: the digits of the thread index."""
    last = body[-1] if body else None
    if isinstance(last, ir.If):  # nothing behind reads what a branch binds, which the other one may bind as well
        branches = [with_open_ends(part, threads) for part in (last.body, last.orelse)]
        body = (*body[:-1], replace(last, body=branches[0], orelse=branches[1]))
    every = list(flatten(body))
    outside = every if not isinstance(last, ir.If) else list(flatten(body[:-1]))
    cut = [op for op in outside if isinstance(op, ir.Load) and (op.cut or op.across)]
    zeros = [op for op in cut if op.other is not None and op.other.value == 0]  # not what is divided by
    unseen = {id(op) for op in zeros if not is_seen(every, {op.name: frozenset(op.where)}, threads)}
    return with_others(body, dict.fromkeys(unseen)) if unseen else body


def with_others(body: Sequence[ir.Op], others: Mapping[int, Const | None]) -> tuple[ir.Op, ...]:
    """The operations with `others`, by the identity of a load, in place of what it leaves out."""
    found: list[ir.Op] = []
    for op in body:
        match op:
            case ir.Load() if id(op) in others:
                found.append(replace(op, other=others[id(op)]))
            case ir.For():
                found.append(replace(op, body=with_others(op.body, others)))
            case ir.If():
                found.append(replace(op, body=with_others(op.body, others), orelse=with_others(op.orelse, others)))
            case _:
                found.append(op)
    return tuple(found)


def is_seen(ops: Sequence[ir.Op], unsure: Mapping[str, Conditions], threads: Sequence[Digit]) -> bool:
    """Whether something that is kept depends on what values are where their conditions do not hold."""
    open_, every = _Open(dict(unsure)), list(flatten(ops))
    for _ in range(2):  # a loop carries values around
        for op in every:
            match op:
                case ir.Let(name, value):
                    open_.add((name,), open_.of(value))
                case ir.Store(_, index, value, where, mask):
                    others = [part for part in (*index, mask) if isinstance(part, Ref | Apply)]
                    if _beyond(open_.of(value), where) or any(open_.of(part) for part in others):
                        return True
                case ir.Reduce(names, _, values, slots):
                    if not open_.carry(names, values, frozenset(f"${slot}" for slot in slots)):
                        return True
                case ir.Combine(names, _, values, bits):
                    met = {f"${d.name}" for d in threads if (d.count - 1) * d.stride & bits}
                    if not open_.carry(names, values, frozenset(met)):
                        return True
                case _:
                    if any(open_.of(part) for part in parts(op) if not isinstance(part, Affine)):
                        return True
    return False


def _beyond(conditions: Conditions, where: Sequence[Affine]) -> Conditions:
    """Those of `conditions` that `where` does not imply: one of the same terms is as strict."""
    return frozenset([c for c in conditions if not any(w.terms == c.terms and w.constant <= c.constant for w in where)])


@dataclass(frozen=True, slots=True)
class _Open:
    """Per value the conditions that have to hold for it to be anything in particular."""

    known: dict[str, Conditions]

    def of(self, term: Expr) -> Conditions:
        match term:
            case Ref(name):
                return self.known.get(name, NONE)
            case Apply("where", (Inside(condition), value, other)):
                elsewhere = [-condition[0] - 1] if len(condition) == 1 else []
                return _beyond(self.of(value), condition) | _beyond(self.of(other), elsewhere)
            case Apply(_, operands):
                return NONE.union(*[self.of(operand) for operand in operands])
            case _:
                return NONE

    def add(self, names: Sequence[str], conditions: Conditions) -> None:
        if conditions:
            self.known.update({name: self.known.get(name, NONE) | conditions for name in names})

    def carry(self, names: Sequence[str], values: Sequence[Expr], over: frozenset[str]) -> bool:
        """What values that meet along the digits `over` become; False where a condition tells some from others."""
        conditions = NONE.union(*[self.of(value) for value in values])
        self.add(names, conditions)
        return not over & names_of(conditions)
