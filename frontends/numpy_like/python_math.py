"""A stand-in for Python's `math` while a function is traced: its functions of numbers of the trace.

As outside, they compute in float64 and give numbers that take the dtype of the arrays they meet.  Where Python raises
ValueError or OverflowError, there is NaN or an infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer

_SAME = """sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh hypot copysign fmod degrees radians cbrt
    isnan isinf isfinite erf erfc lgamma fabs""".split()
NAMES = {name: name for name in _SAME if hasattr(math, name)}
NAMES |= {name: name.replace("a", "arc", 1) for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")}
NAMES |= {"pow": "power", "gamma": "tgamma"}
_TO_INTEGERS = ("floor", "ceil", "trunc")


class MathStandIn:
    """``math`` for one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        if name in NAMES or name in _TO_INTEGERS:
            return partial(call, self._trace, name, found)
        return found


def call(trace: Trace, name: str, original: Callable[..., Any], *values: Any) -> Any:
    """The function of numbers, one of them of the trace; of anything else it is Python's own."""
    numbers = [v for v in values if isinstance(v, Tracer)]
    if not numbers or any(v.sizes for v in numbers):
        return original(*values)
    doubles = [v.astype(np.float64) if isinstance(v, Tracer) else float(v) for v in values]
    if name in _TO_INTEGERS:
        return Tracer(trace, trace.call(name, *doubles).astype(np.int64).node, weak=int)
    if name == "log" and len(doubles) == 2:
        return call(trace, "log", math.log, values[0]) / call(trace, "log", math.log, values[1])
    if name == "hypot":  # of any number of coordinates, in Python
        return reduce(partial(trace.call, "weak", "hypot"), doubles[1:] or [0.0], doubles[0])
    return trace.call("weak", NAMES[name], *doubles)
