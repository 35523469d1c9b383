"""What a list of operations mentions: names in affine expressions, and value references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.terms import Expr, Ref, affines, references


def parts(op: ir.Op) -> Iterator[Affine | Expr]:
    """Affine expressions and terms of one operation, without those of nested operations."""
    match op:
        case ir.Let(value=value) | ir.Keep(value=value):
            yield value
        case ir.Load(index=index, where=where, mask=mask, some=some, instead=instead):
            yield from (*index, *where, *some)
            if mask is not None:
                yield mask
            if instead is not None:
                yield instead
        case ir.Take(value=value, index=index):
            yield value
            yield from (at for _, at in index)
        case ir.Store(index=index, value=value, where=where, mask=mask):
            yield from (*index, value, *where)
            if mask is not None:
                yield mask
        case ir.AtomicUpdate(index=index, value=value, where=where, mask=mask):
            yield from (*index, value, *where)
            if mask is not None:
                yield mask
        case ir.Reduce(values=values) | ir.Combine(values=values) | ir.Exchange(values=values):
            yield from values
        case ir.Contract(left=left, right=right):
            yield from (left, right)
        case ir.Scan(value=value):
            yield value
        case ir.For(extent=extent, until=until):
            yield extent
            if until is not None:
                yield until
        case ir.If(condition=condition):
            yield condition
        case ir.Elect(group=group, count=count):
            yield from (*group, count)
        case ir.Leave(value=value, line=line, number=number, count=count):
            yield from (value, *line, number, count)
        case ir.Carry(value=value, line=line, number=number, count=count):
            yield from (value, *line, number, count)
        case ir.AsyncCopy(into=into, index=index, where=where):
            yield from (*into, *index, *where)
        case ir.Kept() | ir.Neighbours() | ir.Barrier() | ir.CommitCopies() | ir.WaitCopies():
            return


def bound(op: ir.Op) -> tuple[str, ...]:
    """The names of the values that an operation binds, without those of nested operations."""
    match op:
        case ir.Let(name=name) | ir.Load(name=name) | ir.Take(name=name) | ir.Kept(name=name):
            return (name,)
        case ir.Contract(name=name) | ir.Carry(name=name) | ir.Elect(name=name):
            return (name,)
        case ir.Reduce(names=names) | ir.Combine(names=names) | ir.Exchange(names=names):
            return names
        case ir.Scan(name=name, total=total):
            return (name, total)
        case _:
            return ()


def flatten(ops: Sequence[ir.Op]) -> Iterator[ir.Op]:
    """Every operation, nested ones included, in order."""
    for op in ops:
        yield op
        match op:
            case ir.For(body=body):
                yield from flatten(body)
            case ir.If(body=body, orelse=orelse):
                yield from flatten(body)
                yield from flatten(orelse)
            case ir.Neighbours(loads=loads):
                yield from loads
            case _:
                pass


def affine_names(ops: Sequence[ir.Op]) -> frozenset[str]:
    """Every name in every affine expression."""
    found: set[str] = set()
    for op in flatten(ops):
        for part in parts(op):
            for affine in [part] if isinstance(part, Affine) else affines(part):
                found |= affine.names()
    return frozenset(found)


def value_references(ops: Sequence[ir.Op]) -> list[Ref]:
    """Every reference to a value, in order, with repetitions."""
    terms = (part for op in flatten(ops) for part in parts(op) if not isinstance(part, Affine))
    return [reference for term in terms for reference in references(term)]
