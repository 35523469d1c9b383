"""Searching in sorted vectors by halves: elementwise code, which fuses with what computes values and reads places.

    place = 0                                       fewer than 2**steps keys, of which `place` are smaller
    for half in 2**(steps - 1), ..., 4, 2, 1:
        place += half if keys[place + half - 1] < value else 0

Keys that are known while tracing, and lie about evenly, are not searched in.  Where one is follows from a line:

    guess = (value - keys[0]) * ((len(keys) - 1) / (keys[-1] - keys[0]))      in whole numbers, from 0 to len(keys) - 2
    place = guess + (keys[guess] < value) + (keys[guess + 1] < value)

The line rises with the value, and the place as well, so that both are tried at each key, and at the number below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import DType, f32, f64, i32, i64
from polyfuse.expr import DataIndex
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.elementwise import isnan, ufunc, where
from polyfuse.frontends.numpy_like.indexing import gather
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer

STEPS = (2, 4, 6, 8, 10, 12)
"""Halvings of which a program has some: for four times as many keys there is another.  Of more keys a step leaves the
first-level cache, and the array library searches as well."""
SLACK = 0.25
"""Of a key's distance, by how much a line may be off and still be used: whatever a compiler rounds differently is far
less, see `_line`."""

Keys = np.ndarray[Any, Any]


def steps_for(trace: Trace, size: Affine) -> int | None:
    """Halvings that find a place among so many keys, one at least, if they are few."""
    if not trace.decide(size - 1) or not trace.decide(Affine.of((1 << STEPS[-1]) - 1) - size):
        return None
    return next(steps for steps in STEPS if trace.decide(Affine.of((1 << steps) - 1) - size))


def places(keys: Tracer, values: Tracer, steps: int, *, right: bool, known: Keys | None = None) -> Tracer:
    """``np.searchsorted(keys, values)`` of one dtype; NaN is behind all numbers.  `known`: the values of the keys."""
    trace, count, dtype = keys.state, keys.sizes[0], values.element
    if known is not None and steps > STEPS[0] and (line := _line(known, dtype)) is not None:
        return _guessed(keys, values, line, right=right)
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


# ---------------------------------------------------------------------------------------------- keys on a line


def _guessed(keys: Tracer, values: Tracer, line: tuple[DType, float, float], *, right: bool) -> Tracer:
    """`places` among keys that lie on a line: how many of two keys a value passes, beyond those that it must pass."""
    trace, count, (dtype, low, scale) = keys.state, keys.sizes[0].constant, line
    guess = (Tracer(trace, nodes.cast(values.node, dtype)) - low) * scale
    guess = where(ufunc("greater", guess, 0.0), guess, 0.0)  # NaN has no whole number
    guess = Tracer(trace, nodes.cast(ufunc("minimum", guess, float(count - 2)).node, i32))
    place = guess
    for at in (guess, guess + 1):
        key = Tracer(trace, gather(keys.node, values.sizes, [at.node], [DataIndex(0)], "assume"))
        passes = ufunc("less_equal" if right else "less", key, values)
        place = where(passes, place + 1, place)
    if values.element.is_float:
        place = where(isnan(values), count, place)
    return Tracer(trace, nodes.cast(place.node, i64))


def _line(keys: Keys, dtype: DType) -> tuple[DType, float, float] | None:
    """(dtype, first key, keys per unit) of a line that is less than one key off at any value of `dtype`; None where
    there is none.  Between two keys the place does not change and the line only rises, whatever rounds it."""
    if not np.isfinite(keys).all() or not keys[0] < keys[-1]:
        return None
    line = f32 if dtype.itemsize <= (4 if dtype.is_float else 2) else f64
    kind, last = line.numpy.type, len(keys) - 1
    with np.errstate(over="ignore", invalid="ignore"):
        low = kind(keys[0])
        scale = kind(last / (float(keys[-1]) - float(keys[0])))
        largest = max(abs(float(keys[0])), abs(float(keys[-1])))
        if not np.isfinite(scale) or largest * float(scale) * float(np.spacing(kind(1))) > SLACK / 4:
            return None
        tried = np.concatenate([keys, _below(keys)])
        at = (tried.astype(kind) - low) * scale
    guesses = [np.clip(at + off, 0, last - 1).astype(np.int64) for off in (-SLACK, SLACK)]
    passed = [np.searchsorted(keys, tried, side) - guess for side in ("left", "right") for guess in guesses]
    return (line, float(low), float(scale)) if all(((n >= 0) & (n <= 2)).all() for n in passed) else None


def _below(keys: Keys) -> Keys:
    """The next smaller number of each, where there is one."""
    if keys.dtype.kind == "f":
        return np.nextafter(keys, -np.inf).astype(keys.dtype)
    return keys[keys > np.iinfo(keys.dtype).min] - 1
