"""At the border: what is one element of an array or another, wherever the instance is, is one load at a chosen index.

x2 = load(x, 1 - i, where i < 2)                                i' = where(i < 2, 1 - i, where(i < n, i - 1, n - 1))
x1 = load(x, i - 1, where 2 <= i < n)                     ->    p = load(x, i')
x0 = load(x, n - 1, where i >= n)
p = where(i < 2, x2, where(i < n, x1, x0))

A padded image has nine such pieces.  A thread that loads a window of each has no registers for them: one of a Gaussian
pyramid spilled 3 KB.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import i64
from polyfuse.lower.environment import Environment, affine_entry
from polyfuse.schedule import Placed
from polyfuse.scop import Read, Statement
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref

PIECES = 3
"""Loads from which one takes their place: of two the vectors are worth more."""


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of a loaded array, and how many reads say which."""

    value: int
    component: int
    index: tuple[Expr, ...]
    reads: int


def chosen_load(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op] | None:
    """The load that takes the place of a choice between elements of one array; None for other statements."""
    if statement.monoid is not None or len(statement.body) != 1:
        return None
    point = [affine_entry(entry) for entry in placed.place]
    found = _element(env, statement, point, statement.body[0])
    if found is None or found.reads < PIECES:
        return None
    use = env.arrays[found.value, found.component, True]
    if any(extent == Affine.of(0) for extent in use.shape):
        return None
    ops: list[ir.Op] = []
    index: list[Affine | Ref] = []
    for k, (entry, extent) in enumerate(zip(found.index, use.shape, strict=True)):
        if isinstance(entry, Index) and not env.context.inside([entry.affine], [extent]):
            index.append(entry.affine)
            continue
        at = Ref(f"{placed.name}.at{k}", i64)  # instances that do not exist read something all the same
        inside = Apply("minimum", (Apply("maximum", (entry, Const(0, i64)), i64), Index(extent - 1, i64)), i64)
        ops.append(ir.Let(at.name, inside))
        index.append(at)
    return [*ops, ir.Load(placed.name, use.name, tuple(index))]


def _element(env: Environment, statement: Statement, point: list[Affine], term: Expr) -> _Element | None:
    """The element that `term` is at `point` of the domain of `statement`."""
    match term:
        case Ref(name) if name.startswith("r"):
            return _read(env, statement.reads[int(name[1:])], point)
        case Apply("where", (Inside(where), first, second)):
            a, b = _element(env, statement, point, first), _element(env, statement, point, second)
            if a is None or b is None or (a.value, a.component) != (b.value, b.component):
                return None
            condition = Inside(tuple(w.substitute(_at(point)) for w in where))
            pairs = zip(a.index, b.index, strict=True)
            index = tuple(x if x == y else Apply("where", (condition, x, y), i64) for x, y in pairs)
            return _Element(a.value, a.component, index, a.reads + b.reads)
    return None


def _read(env: Environment, read: Read, point: list[Affine]) -> _Element | None:
    if not read.affine:
        return None
    index = [affine_entry(entry).substitute(_at(point)) for entry in read.index if isinstance(entry, Affine)]
    if read.source in env.schedule.body:
        source = env.scop.statements[read.source]
        if isinstance(source, Statement) and source.monoid is None and len(source.body) == 1:
            return _element(env, source, index, source.body[0])
        return None
    if (read.source, read.component, True) not in env.arrays:
        return None
    return _Element(read.source, read.component, tuple(Index(entry, i64) for entry in index), 1)


def _at(point: list[Affine]) -> dict[str, Affine]:
    return {f"%{d}": entry for d, entry in enumerate(point)}
