"""Combinations of the same threads that one call makes: ``s, t = threads_sum((s, t), 255, 256)``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from polyfuse.dtypes import DType
from polyfuse.kernel import Combine, Op, meets
from polyfuse.terms import Expr, references


def at_once(body: Sequence[Op], dtype_of: Callable[[Expr], DType]) -> Iterator[list[Op]]:
    """The operations of a body, those together that are combinations of values of one element type, none of which is
    made of another."""
    found: list[Op] = []
    for op in body:
        if found and not _joins(found, op, dtype_of):
            yield found
            found = []
        found.append(op)
    if found:
        yield found


def _joins(found: Sequence[Op], op: Op, dtype_of: Callable[[Expr], DType]) -> bool:
    first = found[0]
    if not isinstance(first, Combine) or not isinstance(op, Combine) or not meets(first, op):
        return False
    made = {name for other in found if isinstance(other, Combine) for name in other.names}
    read = {reference.name for value in op.values for reference in references(value)}
    return made.isdisjoint({*read, *op.names}) and dtype_of(first.values[0]) == dtype_of(op.values[0])
