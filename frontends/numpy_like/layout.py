"""How an array lies in memory, which decides whether lining up its elements is a view or a copy."""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse.affine import Affine
from polyfuse.frontends.numpy_like import strides
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.strides import Polynomial, Strides
from polyfuse.frontends.numpy_like.tracer import Tracer


def strides_of(x: Tracer) -> Strides | None:
    """The strides of all axes, None where they are not even."""
    return strides.of_shape(x.sizes) if x.path is None else x.path.strides


def is_contiguous(x: Tracer) -> bool:
    """Whether the elements lie one after the other, in C order."""
    found = strides_of(x)
    if found is None or found == strides.of_shape(x.sizes):
        return found is not None
    long = _long(x, range(x.ndim))
    return is_run(x, long) and (not long or _equal(x.state, found[long[-1]], strides.UNIT))


def in_order(x: Tracer, order: object) -> Tracer:
    """`x` if its elements lie in the order ``C`` or ``F`` that is asked for, otherwise a copy."""
    if order not in ("C", "F") or is_contiguous(x.T if order == "F" else x):
        return x
    return Tracer(x.state, x.node)


def is_run(x: Tracer, group: Sequence[int]) -> bool:
    """Whether axes are one axis of memory: each steps over all of the next, as NumPy asks of a reshape without copy."""
    found = strides_of(x)
    if found is None or len(group) < 2:
        return len(group) < 2
    if found == strides.split(found[group[-1]], x.sizes):
        return True
    long = _long(x, group)
    steps = zip(long, long[1:], strict=False)
    return all(_equal(x.state, found[a], strides.times(found[b], x.sizes[b])) for a, b in steps)


def _long(x: Tracer, group: Sequence[int]) -> list[int]:
    """The axes that say how elements lie: those of size 1 lie anywhere."""
    return [k for k in group if not x.state.is_one(x.sizes[k])]


def _equal(trace: Trace, a: Polynomial, b: Polynomial) -> bool:
    """Whether two strides are equal: for all sizes, or by hint with a guard where it is about one of them."""
    difference = strides.difference(a, b)
    if difference is None:
        return False
    if trace.equal(difference, Affine.of(0)):
        return True
    if typical := trace.hint(difference):  # the trace stands for sizes that differ
        trace.decide(difference - 1 if typical > 0 else -difference - 1)
    return False
