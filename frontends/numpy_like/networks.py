"""Sorting of short axes, as a network of minima and maxima.

    0 ─┬─────┬─────      which elements meet does not depend on what they are, so that a network is elementwise code:
    1 ─┴──┬──┴──┬──      it fuses with what reads it, and elements that nobody reads are not computed
    2 ─┬──┴──┬──┴──
    3 ─┴─────┴─────

Values meet in Batcher's order ("Sorting networks and their applications", 1968).  Positions do as neighbours, so that
equal elements never pass each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyfuse.affine import Affine
from polyfuse.dtypes import i32
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.elementwise import isnan, ufunc, where
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import unstack

ALL, FEW, PLACED = 16, 25, 8
"""Elements of an axis, up to which it is sorted so: where all of them may be read, where a few places are, as of a
median of 5 x 5, and where positions are sorted, which takes more of a program.  On an H100, of ten million rows of
eight float32: a trimmed mean 28250 us by a sort of torch, 121 so; np.sort 213, 6721 by torch.sort alone."""


def is_short(trace: Trace, size: Affine, most: int) -> bool:
    """Whether an axis has a known number of elements, 1 to `most`.  A size that is so small in this call is known: the
    trace is for it alone."""
    if not size.is_constant:
        if not size.names() <= trace.fresh or not trace.decide(size - 1) or trace.decide(size - most - 1):
            return False
        return 1 <= trace.fixed(size) <= most
    return 1 <= size.constant <= most


def ordered(x: Tracer, axis: int) -> list[Tracer]:
    """The elements along an axis of known size in rising order, NaN last."""
    found = list(unstack(x, axis))
    for low, high in exchanges(len(found)):
        a, b = found[low], found[high]
        found[low] = ufunc("fmin" if a.element.is_float else "minimum", a, b)
        found[high] = ufunc("maximum", a, b)  # of NaN and anything NaN
    return found


def exchanges(count: int) -> Iterator[tuple[int, int]]:
    """The places that meet, in order: merges of sorted pairs, then of fours, and so on."""
    size = 1
    while size < count:
        apart = size
        while apart:
            for first in range(apart % size, count - apart, 2 * apart):
                for low in range(first, min(first + apart, count - apart)):
                    if low // (2 * size) == (low + apart) // (2 * size):
                        yield low, low + apart
            apart //= 2
        size *= 2


def placed(x: Tracer, axis: int, *, largest: bool = False) -> tuple[list[Tracer], list[Tracer]]:
    """(elements, their positions as int32) along an axis of known size: rising with NaN last, or falling with NaN
    first; of equal ones the first comes first."""
    values = list(unstack(x, axis))
    places = [Tracer(x.state, nodes.full(v.sizes, k, i32)) for k, v in enumerate(values)]
    for first in range(len(values) - 1):
        for k in range(len(values) - 1, first, -1):
            passes = _is_before(values[k], values[k - 1], largest)
            values[k - 1 : k + 1] = _exchanged(passes, values[k - 1 : k + 1])
            places[k - 1 : k + 1] = _exchanged(passes, places[k - 1 : k + 1])
    return values, places


def _exchanged(condition: Tracer, pair: Sequence[Tracer]) -> list[Tracer]:
    a, b = pair
    return [where(condition, b, a), where(condition, a, b)]


def _is_before(a: Tracer, b: Tracer, largest: bool) -> Tracer:
    """Whether `a`, which is behind `b`, belongs in front of it."""
    passes = ufunc("greater" if largest else "less", a, b)
    if not a.element.is_float:
        return passes
    lone, other = (a, b) if largest else (b, a)  # one is NaN, and the other is none
    return passes | (isnan(lone) & ~isnan(other))
