"""Arrays that nothing a call passes has a say in: they follow from constants, positions, sizes and numbers alone.

    np.arange(len(x)) % 2 == 0        np.repeat(np.arange(3), 2)        np.tri(n).sum(axis=0)

Where Python or a shape needs their values, they are computed while the function is traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.expr import Node, Program
from polyfuse.reference import evaluate

if TYPE_CHECKING:
    from polyfuse.frontends.numpy_like.state import Trace

Array = np.ndarray[Any, Any]
_MANY = 1 << 16  # elements of an array that is computed while tracing


def known(node: Node) -> Array | None:
    """The values of an array that follows from constants and positions alone; None of any other, and of large ones."""
    below = list(expr.topological([node]))
    if any(isinstance(n, (expr.Input, expr.Scalar, expr.Opaque)) or any(_letters(n)) for n in below):
        return None
    if max(np.prod([float(size.constant) for size in n.shape]) for n in below) > _MANY:
        return None
    (values,) = evaluate(Program("known", (), (node,), ("known",)), ())
    return np.asarray(values)


def settled(trace: Trace, node: Node) -> Array | None:
    """`known` of an array that follows from sizes and from numbers as well, which are fixed for it by a retrace.
    Raises TraceError for declared letters."""
    below = []
    for n in expr.topological([node]):  # one after the other: most arrays begin with data
        if isinstance(n, (expr.Input, expr.Opaque)):
            return None
        below.append(n)
    for n in below:
        if isinstance(n, expr.Scalar) and not trace.settle(n):
            return None
        for letter in _letters(n):
            trace.fixed(Affine.symbol(letter))
    return known(node)


def _letters(node: Node) -> Iterator[str]:
    """The sizes that a node itself mentions, in its shape or in an index."""
    for found in fields(node):
        yield from (name for name in _names(getattr(node, found.name)) if not name.startswith("%"))


def _names(value: Any) -> Iterator[str]:
    match value:
        case Affine():
            yield from sorted(value.names())
        case tuple():
            for part in value:
                yield from _names(part)
        case expr.Piece():
            yield from _names((*value.where, *value.index))
