"""``pf.random``: random numbers by counter, with explicit keys.

The number at an element depends on the key, on the row-major index of the element and on nothing else: it is the same
on every back end, device and schedule, and drawing is fused like any elementwise function.  Inside a jitted function
the numbers are part of the program; outside, these functions return NumPy arrays.  The same key gives the same numbers
again, so draw each array with a key of its own: ``fold_in(key, number)`` makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like import drawing
from polyfuse.frontends.numpy_like.drawing import Key
from polyfuse.frontends.numpy_like.lifting import traces_in
from polyfuse.frontends.numpy_like.specs import is_array, specs_of_arrays
from polyfuse.frontends.numpy_like.state import Trace

__all__ = ["Key", "bernoulli", "bits", "dropout", "fold_in", "key", "normal", "randint", "uniform"]


def key(seed: Any) -> Key:
    """The key of an integer seed; of a larger one its lowest 64 bits."""
    return _call(drawing.key, _signed(seed) if isinstance(seed, int) else seed)  # type: ignore[no-any-return]


def fold_in(key: Key, data: Any) -> Key:
    """A new key of a key and an integer, such as the number of a step or of a layer."""
    return _call(drawing.fold_in, key, data)  # type: ignore[no-any-return]


def bits(key: Key, shape: Any = (), dtype: Any = np.uint32) -> Any:
    """Uniform unsigned integers: the low bits of word 0 of Philox, for u64 words 0 and 1.  Raises DTypeError."""
    return _call(drawing.bits, key, shape, dtype)


def uniform(key: Key, shape: Any = (), dtype: Any = np.float32, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Floats, uniform in [low, high), as fine as the dtype.  Raises DTypeError for integers."""
    return _call(drawing.uniform, key, shape, dtype, low, high)


def normal(key: Key, shape: Any = (), dtype: Any = np.float32) -> Any:
    """Floats with mean 0 and variance 1 (Box and Muller).  Raises DTypeError for integers."""
    return _call(drawing.normal, key, shape, dtype)


def bernoulli(key: Key, p: Any = 0.5, shape: Any = None) -> Any:
    """Booleans, true with probability `p`; of the shape of `p` unless one is given."""
    return _call(drawing.bernoulli, key, p, shape)


def randint(key: Key, shape: Any = (), low: Any = 0, high: Any = None, dtype: Any = np.int64) -> Any:
    """Integers in [low, high), or in [0, low).  Raises DTypeError for floats."""
    return _call(drawing.randint, key, shape, low, high, dtype)


def dropout(key: Key, x: Any, rate: Any = 0.5) -> Any:
    """`x` with each element zeroed with probability `rate`, and the others divided by ``1 - rate``."""
    return _call(drawing.dropout, key, x, rate)


# ---------------------------------------------------------------------------------------------- inside and outside


def _signed(seed: int) -> int:
    """The lowest 64 bits as an int64."""
    return (int(seed) + (1 << 63)) % (1 << 64) - (1 << 63)


def _call(function: Callable[..., Any], *args: Any) -> Any:
    """In the trace of the arguments; without one, evaluated now."""
    trace = next(iter(traces_in([a.seed if isinstance(a, Key) else a for a in args])), None)
    return _now(function, args) if trace is None else trace.run(function, trace, *args)


def _now(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    from polyfuse.frontends.numpy_like.tracing import trace
    from polyfuse.reference import evaluate

    is_given = [is_array(a) for a in args]
    arrays = [np.asarray(a) for a, given in zip(args, is_given, strict=True) if given]

    def applied(anchor: Any, *values: Any) -> Any:
        rest = iter(values)
        found: Trace = anchor.state
        return function(found, *(next(rest) if given else a for a, given in zip(args, is_given, strict=True)))

    traced = trace(applied, specs_of_arrays([np.zeros(0), *arrays]))
    result = traced.rebuild(evaluate(traced.program, [np.zeros(0), *arrays, *traced.captured]), {})
    return Key(int(result.seed)) if isinstance(result, Key) else result
