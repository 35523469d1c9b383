"""Random arrays: distributions over the words of Philox, one counter per element, so that each is one expression.

The counter is the row-major index of the element; shape, schedule, back end and device do not enter, only the key does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import DType, f32, f64, i64, u32, u64
from polyfuse.errors import ArgumentError, DTypeError, TraceError
from polyfuse.expr import Node, Shape
from polyfuse.frontends.numpy_like import nodes, philox
from polyfuse.frontends.numpy_like.elementwise import ufunc, where
from polyfuse.frontends.numpy_like.lifting import as_dtype, lift
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import shape_argument

ArrayLike = object


@dataclass(frozen=True, slots=True)
class Key:
    """A key of random numbers: 64 bits as an int64.  An argument of this type is a runtime scalar: another seed never
    recompiles."""

    seed: Any


def key(trace: Trace, seed: Any) -> Key:
    """The key of an integer, which may be an array of rank 0."""
    tracer = lift(trace, seed)
    if tracer.ndim or tracer.element.kind not in "iu":
        raise TraceError("a seed is one integer", advice="Write pf.random.key(seed), and one key per kind of number.")
    return Key(Tracer(trace, as_dtype(tracer, i64)))


def fold_in(trace: Trace, key_: Key, data: Any) -> Key:
    """A new key of a key and an integer, such as the number of a step or of a layer."""
    number = lift(trace, data)
    low, high = philox.split(as_dtype(number, i64))
    zero, one = expr.constant(0, u32), expr.constant(1, u32)
    words = philox.philox((low, high, zero, one), _words(trace, key_))  # counters of elements end in 0, 0
    return Key(Tracer(trace, _wide(words[0], words[1], i64)))


def _words(trace: Trace, key_: Key) -> philox.Key:
    if not isinstance(key_, Key):
        raise TraceError(
            f"random numbers need a key, not {type(key_).__name__}", advice="Make one with pf.random.key(seed)."
        )
    return philox.split(as_dtype(lift(trace, key_.seed), i64))


def _wide(low: Node, high: Node, dtype: DType) -> Node:
    """Two words as one 64-bit integer."""
    upper = nodes.apply("left_shift", [nodes.cast(high, u64), expr.constant(32, u64)])
    return nodes.cast(nodes.apply("bitwise_or", [nodes.cast(low, u64), upper]), dtype)


def _draw(trace: Trace, key_: Key, shape: Shape) -> philox.Words:
    return philox.philox(philox.element_counter(shape), _words(trace, key_))


def bits(trace: Trace, key_: Key, shape: Any = (), dtype: Any = np.uint32) -> Tracer:
    """Uniform unsigned integers of every width: the low bits of the first word, or the first two words."""
    wanted, sizes = numpy_dtype(dtype), shape_argument(trace, shape)
    if wanted.kind != "u":
        raise DTypeError(f"random bits are unsigned integers, not {wanted.numpy}", advice="Use randint or uniform.")
    words = _draw(trace, key_, sizes)
    node = _wide(words[0], words[1], u64) if wanted == u64 else nodes.cast(words[0], wanted)
    return Tracer(trace, nodes.broadcast(node, sizes))


_DIGITS = {"f16": 11, "bf16": 8, "f32": 24}  # of a significand: a number below 1 never rounds up to 1


def _unit(words: tuple[Node, Node], dtype: DType, above_zero: bool = False) -> Node:
    """Uniform in [0, 1), or in (0, 1], with as many bits as the type has."""
    if dtype == f64:
        whole, count = nodes.apply("right_shift", [_wide(words[0], words[1], u64), expr.constant(11, u64)]), 53
    else:
        count = _DIGITS[dtype.name]
        whole = nodes.apply("right_shift", [words[0], expr.constant(32 - count, u32)])
    if above_zero:
        whole = nodes.apply("add", [whole, expr.constant(1, whole.dtype)])
    return nodes.apply("multiply", [nodes.cast(whole, dtype), expr.constant(2.0**-count, dtype)])


def _float(dtype: Any) -> DType:
    wanted = numpy_dtype(dtype)
    if not wanted.is_float:
        raise DTypeError(f"these random numbers are floats, not {wanted.numpy}", advice="Use randint or bits.")
    return wanted


def _uniform(trace: Trace, key_: Key, sizes: Shape, dtype: DType) -> Tracer:
    words = _draw(trace, key_, sizes)
    return Tracer(trace, nodes.broadcast(_unit(words[:2], dtype), sizes))


def uniform(
    trace: Trace, key_: Key, shape: Any = (), dtype: Any = np.float32, low: ArrayLike = 0.0, high: ArrayLike = 1.0
) -> Tracer:
    """Uniform in [low, high)."""
    wanted = _float(dtype)
    unit = _uniform(trace, key_, shape_argument(trace, shape), wanted)
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return unit
    first, last = lift(trace, low), lift(trace, high)
    return (unit * (last - first) + first).astype(wanted.numpy)


def normal(trace: Trace, key_: Key, shape: Any = (), dtype: Any = np.float32) -> Tracer:
    """Standard normal, by Box and Muller (1958); 16-bit floats are drawn in float32."""
    wanted, sizes = _float(dtype), shape_argument(trace, shape)
    compute = wanted.compute
    words = _draw(trace, key_, sizes)
    pairs = (words[:2], words[2:]) if compute == f64 else ((words[0], words[1]), (words[1], words[0]))
    first = Tracer(trace, _unit(pairs[0], compute, above_zero=True))
    second = Tracer(trace, _unit(pairs[1], compute))
    drawn = ufunc("sqrt", ufunc("log", first) * -2.0) * ufunc("cos", second * (2 * pi))
    return Tracer(trace, nodes.broadcast(nodes.cast(drawn.node, wanted), sizes))


def bernoulli(trace: Trace, key_: Key, p: ArrayLike = 0.5, shape: Any = None) -> Tracer:
    """True with probability `p`, of the shape of `p` unless one is given."""
    probability = lift(trace, p)
    sizes = probability.sizes if shape is None else shape_argument(trace, shape)
    dtype = probability.element if probability.weak is None and probability.element.is_float else f32
    return _uniform(trace, key_, sizes, dtype) < probability


def randint(trace: Trace, key_: Key, shape: Any = (), low: Any = 0, high: Any = None, dtype: Any = np.int64) -> Tracer:
    """Integers in [low, high) by the upper half of a 128-bit product (Lemire, 2019, without rejection: a bias of
    at most range / 2**64)."""
    wanted, sizes = numpy_dtype(dtype), shape_argument(trace, shape)
    if wanted.kind not in "iu":
        raise DTypeError(f"random integers are not {wanted.numpy}", advice="Use uniform or bernoulli.")
    low, high = (0, low) if high is None else (low, high)
    if all(isinstance(v, (int, np.integer)) for v in (low, high)) and not low < high:
        raise ArgumentError(f"there is no integer from {low} on and below {high}")
    first, last = (as_dtype(lift(trace, v), i64) for v in (low, high))
    span = nodes.cast(nodes.apply("subtract", [last, first]), u64)
    words = _draw(trace, key_, sizes)
    steps = nodes.apply("multiply_high", [_wide(words[0], words[1], u64), span])
    drawn = nodes.apply("add", [nodes.cast(steps, i64), first])
    return Tracer(trace, nodes.broadcast(nodes.cast(drawn, wanted), sizes))


def dropout(trace: Trace, key_: Key, x: ArrayLike, rate: ArrayLike = 0.5) -> Tracer:
    """`x` with each element zeroed with probability `rate`, and the others divided by ``1 - rate``."""
    array = lift(trace, x)
    kept = _uniform(trace, key_, array.sizes, f32) >= lift(trace, rate)
    return where(kept, array / (1 - lift(trace, rate)), 0).astype(array.dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"random.{f.__name__}": f for f in (key, fold_in, bits, uniform, normal, bernoulli, randint, dropout)
}
