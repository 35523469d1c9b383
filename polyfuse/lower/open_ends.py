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


def with_open_ends(
    body: tuple[ir.Op, ...], threads: Sequence[Digit], behind: tuple[ir.Op, ...] = ()
) -> tuple[ir.Op, ...]:
    """The body whose cut loads get anything where their conditions do not hold and only what is dropped again depends
    on it: no index of memory.  `threads`: the digits of the thread index.  `behind`: what follows the body, where that
    is a branch: the other one may bind the same names, and is not asked."""
    found: list[ir.Op] = []
    for k, op in enumerate(body):
        if isinstance(op, ir.If):
            rest = (*body[k + 1 :], *behind)
            parts = [with_open_ends(part, threads, rest) for part in (op.body, op.orelse)]
            op = replace(op, body=parts[0], orelse=parts[1])
        found.append(op)
    every = (*found, *behind)
    outside = flatten([op for op in found if not isinstance(op, ir.If)])
    cut = [op for op in outside if isinstance(op, ir.Load) and (op.cut or op.across)]
    zeros = [op for op in cut if op.other is not None and op.other.value == 0]  # not what is divided by
    unseen = {id(op) for op in zeros if not is_load_seen(every, op, threads)}
    return with_others(found, dict.fromkeys(unseen)) if unseen else tuple(found)


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


def left_open(
    ops: Sequence[ir.Op], unsure: Mapping[str, Conditions], threads: Sequence[Digit]
) -> frozenset[str] | None:
    """The values that, behind the operations, depend on what others are where their conditions do not hold; None where
    something that is kept does.  `unsure`: the conditions of values that are bound in front."""
    found = _Open(dict(unsure), threads)
    return None if found.is_seen(ops) else frozenset(found.known)


def is_load_seen(
    ops: Sequence[ir.Op], load: ir.Load, threads: Sequence[Digit], where: Sequence[Affine] | None = None
) -> bool:
    """The same of a load among the operations, until its name is bound again.  `where`: less than its conditions, where
    the others are known to make no difference."""
    return _Open({}, threads, load, frozenset(load.where if where is None else where)).is_seen(ops)


def _beyond(conditions: Conditions, where: Sequence[Affine]) -> Conditions:
    """Those of `conditions` that `where` does not imply: one of the same terms is as strict."""
    return frozenset([c for c in conditions if not any(w.terms == c.terms and w.constant <= c.constant for w in where)])


@dataclass(slots=True)
class _Open:
    """Per value the conditions that have to hold for it to be anything in particular, at one place of a kernel: of
    branches those of either.  `load`: one that begins to be open where it stands, and its `conditions`."""

    known: dict[str, Conditions]
    threads: Sequence[Digit]
    load: ir.Load | None = None
    conditions: Conditions = NONE

    def is_seen(self, ops: Sequence[ir.Op]) -> bool:
        return any(self._sees(op) for op in ops)

    def _sees(self, op: ir.Op) -> bool:
        match op:
            case ir.For(body=body):
                return self._sees_loop(body)
            case ir.If(condition, body, orelse):
                return bool(self.of(condition)) or self._sees_branches(body, orelse)
            case ir.Neighbours(loads):
                return self.is_seen(loads)
            case ir.Let(name, value):
                self._bind(name, self.of(value))
                return False
            case ir.Load(name=name):
                is_index = self._is_open(op)
                self._bind(name, self.conditions if op is self.load else NONE)
                return is_index
            case ir.Store(_, index, value, where, mask):
                others = [part for part in (*index, mask) if isinstance(part, Ref | Apply)]
                return bool(_beyond(self.of(value), where) or any(self.of(part) for part in others))
            case ir.Reduce(names, _, values, slots):
                return not self._carry(names, values, frozenset(f"${slot}" for slot in slots))
            case ir.Combine(names, _, values, bits):
                met = {f"${d.name}" for d in self.threads if (d.count - 1) * d.stride & bits}
                return not self._carry(names, values, frozenset(met))
            case _:
                return self._is_open(op)

    def _sees_loop(self, body: Sequence[ir.Op]) -> bool:
        while True:  # a loop carries values around, and may have no trip
            before = dict(self.known)
            if self.is_seen(body):
                return True
            self._meet(before)
            if self.known == before:
                return False

    def _sees_branches(self, body: Sequence[ir.Op], orelse: Sequence[ir.Op]) -> bool:
        before = dict(self.known)
        if self.is_seen(body):
            return True
        after, self.known = self.known, before
        if self.is_seen(orelse):
            return True
        self._meet(after)
        return False

    def _is_open(self, op: ir.Op) -> bool:
        return any(self.of(part) for part in parts(op) if not isinstance(part, Affine))

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

    def _bind(self, name: str, conditions: Conditions) -> None:
        self.known.pop(name, None)
        if conditions:
            self.known[name] = conditions

    def _meet(self, others: Mapping[str, Conditions]) -> None:
        for name, conditions in others.items():
            self.known[name] = self.known.get(name, NONE) | conditions

    def _carry(self, names: Sequence[str], values: Sequence[Expr], over: frozenset[str]) -> bool:
        """What values that meet along the digits `over` become; False where a condition tells some from others."""
        conditions = NONE.union(*[self.of(value) for value in values])
        if conditions:
            self._meet(dict.fromkeys(names, conditions))
        return not over & names_of(conditions)
