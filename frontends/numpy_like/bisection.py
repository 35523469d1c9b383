"""Searching in sorted vectors by halves: elementwise code, which fuses with what computes values and reads places.

    place = 0                                       fewer than 2**steps keys, of which `place` are smaller
    for half in 2**(steps - 1), ..., 4, 2, 1:
        place += half if keys[place + half - 1] < value else 0
"""

from __future__ import annotations

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import i32, i64
from polyfuse.expr import DataIndex
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.elementwise import isnan, ufunc, where
from polyfuse.frontends.numpy_like.indexing import gather
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer

STEPS = (2, 4, 6, 8, 10, 12)
"""Halvings of which a program has some: for four times as many keys there is another.  Of more keys a step leaves the
first-level cache, and the array library searches as well."""


def steps_for(trace: Trace, size: Affine) -> int | None:
    """Halvings that find a place among so many keys, one at least, if they are few."""
    if not trace.decide(size - 1) or not trace.decide(Affine.of((1 << STEPS[-1]) - 1) - size):
        return None
    return next(steps for steps in STEPS if trace.decide(Affine.of((1 << steps) - 1) - size))


def places(keys: Tracer, values: Tracer, steps: int, *, right: bool) -> Tracer:
    """``np.searchsorted(keys, values)`` of one dtype; NaN is behind all numbers."""
    trace, count, dtype = keys.state, keys.sizes[0], values.element
    is_none = isnan(values) if dtype.is_float else None
    last = Tracer(trace, nodes.cast(nodes.iota((), count - 1), i32))
    place = Tracer(trace, nodes.broadcast(expr.constant(0, i32), values.sizes))
    for step in reversed(range(steps)):
        at = place + ((1 << step) - 1)
        bounded = ufunc("minimum", at, last)
        key = Tracer(trace, gather(keys.node, values.sizes, [bounded.node], [DataIndex(0)], "assume"))
        passes = ufunc("less_equal" if right else "less", key, values)
        if is_none is not None:
            passes = passes | (is_none if right else is_none & ~isnan(key))
        if not trace.known(count - (1 << steps) + 1):
            passes = passes & ufunc("less_equal", at, last)
        place = where(passes, place + (1 << step), place)
    return Tracer(trace, nodes.cast(place.node, i64))
