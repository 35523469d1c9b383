"""Real arrays that a function makes and then writes traced values into, as arrays of the program.

    R = np.eye(3).copy(); R[0, 0] = x[0]        R = np.array([[1.0, 0.0], [0.0, 1.0]]); R[0] = x
    total = np.zeros_like(TABLE); total += x    y = TABLE.copy(); y[1:] = x

They are real in the first attempt, where Python may read their elements at will; a write begins another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.lifting import lift
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer, as_array

_FEW = 64  # elements that are written into the program, where their values stay known


def adopted(trace: Trace, array: np.ndarray[Any, Any]) -> Tracer:
    """The elements of `array` in an array that the program may write."""
    dtype, shape = numpy_dtype(array.dtype), tuple(map(Affine.of, array.shape))
    if not array.size or _is_uniform(array):
        return as_array(Tracer(trace, nodes.full(shape, array.flat[0].item() if array.size else 0, dtype)))
    if array.size > _FEW:
        return Tracer(trace, lift(trace, array).node)
    elements = [Tracer(trace, expr.constant(value.item(), dtype)) for value in array.flat]
    return Tracer(trace, trace.call("reshape", trace.call("stack", elements), array.shape).node)


def _is_uniform(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements have the same bits: zeros have signs."""
    bits = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, array.itemsize)
    return bool((bits == bits[0]).all())
