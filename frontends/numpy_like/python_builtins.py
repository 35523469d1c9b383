"""Python's builtin functions while a function is traced: those that have to know what the trace has for arrays."""

from __future__ import annotations

import operator
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like.printed import Printed
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.watched import plain

Named = defaultdict[str, set[int]]
"""Names of attributes that code asks for without showing them, and the identities of objects that had none."""
_MISSING = object()


def stand_ins(
    original: dict[str, Any], named: Named, original_of: Callable[[Any], Any], printed: Printed
) -> dict[str, Any]:
    """By name, what stands in for functions of `original`.  `named` gets the names of attributes that are asked for;
    `original_of`: what a value stands for."""
    found = {"len": length, "id": partial(identity, original_of)}
    found |= {"hash": partial(hashed, original["hash"], original_of)}
    found |= {"isinstance": partial(is_instance, original["isinstance"])}
    found |= {"getattr": partial(attribute, original["getattr"], named, original_of)}
    found |= {"hasattr": partial(has_attribute, original["getattr"], named, original_of)}
    found["vars"] = partial(attributes, original["vars"], named)
    found["print"] = partial(printed.print, original["print"])
    found["sorted"] = partial(ordered, original["sorted"])
    for name, is_better in (("min", operator.lt), ("max", operator.gt)):
        found[name] = partial(extreme, original[name], is_better)
    return found


def extreme(original: Callable[..., Any], is_better: Callable[[Any, Any], Any], *values: Any, **options: Any) -> Any:
    """`min` or `max` that chooses among numbers of the trace as Python does: the first of those that none is better
    than; what is no number is for the `original`."""
    given = list(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple, Tracer)) else list(values)
    numbers = [v for v in given if isinstance(v, Tracer)]
    if not numbers or options or any(v.sizes for v in numbers) or not all(map(_is_number, given)):
        return original(*values, **options)
    trace, chosen = numbers[0].state, given[0]
    is_python = not any(isinstance(v, np.generic) or (isinstance(v, Tracer) and v.weak is None) for v in given)
    for value in given[1:]:
        better = is_better(value, chosen)
        is_known = isinstance(better, (bool, np.bool_))  # of two numbers that the trace knows
        chosen = (value if better else chosen) if is_known else trace.call("where", better, value, chosen)
    return trace.call("as_python", chosen) if is_python else chosen


def ordered(original: Callable[..., Any], values: Any, /, **options: Any) -> list[Any]:
    """`sorted` of a vector, or of numbers of the trace that have one dtype; anything else is for the `original`."""
    given = list(values) if isinstance(values, (list, tuple, Tracer)) else []
    numbers = [v for v in given if isinstance(v, Tracer) and not v.sizes]
    is_alike = len(numbers) == len(given) and len({(v.dtype, v.weak) for v in numbers}) == 1
    if not is_alike or options.get("key") is not None:
        return original(values, **options)  # type: ignore[no-any-return]
    trace, is_python = numbers[0].state, numbers[0].weak is not None
    rising = list(trace.call("sort", values if isinstance(values, Tracer) else trace.call("stack", numbers)))
    found = [trace.call("as_python", v) for v in rising] if is_python else rising
    return found[::-1] if options.get("reverse") else found


def of_its_class(value: Any) -> Any:
    """Something of the class that `value` has outside of a trace: a size is an int there, an argument a number or an
    array, and the sum of an array a scalar of NumPy's."""
    if type(value) is SymbolicSize:
        return np.int64(2) if value.is_numpy else 2
    if type(value) is not Tracer:
        return value
    number = value.weak or value.dtype.type
    return number(0) if value.weak or value.is_number else np.empty(0, value.dtype)


def is_instance(original: Callable[..., Any], value: Any, kinds: Any) -> bool:
    """`isinstance` that decides as outside of a trace."""
    like = of_its_class(value)
    if like is value:
        return original(value, kinds)  # type: ignore[no-any-return]
    return original(like, kinds) or type(value) in (kinds if type(kinds) is tuple else (kinds,))


def attribute(
    original: Callable[..., Any],
    named: Named,
    original_of: Callable[[Any], Any],
    value: Any,
    name: Any,
    *default: Any,
) -> Any:
    """`getattr`, whose name the code need not show."""
    try:
        found = original(value, name)
    except AttributeError:
        named[name].add(id(original_of(value)))
        if not default:
            raise
        return default[0]
    named.setdefault(name, set())
    return found


def has_attribute(
    original: Callable[..., Any], named: Named, original_of: Callable[[Any], Any], value: Any, name: Any
) -> bool:
    """`hasattr`; `original` is `getattr`."""
    return attribute(original, named, original_of, value, name, _MISSING) is not _MISSING


def attributes(original: Callable[..., Any], named: Named, *values: Any) -> Any:
    """`vars`, which gives attributes of all names; of nothing the caller's variables."""
    if not values:
        return sys._getframe(2).f_locals  # behind `instead.Builtin.__call__`
    found = original(*values)
    for name in found:
        named.setdefault(name, set())
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (Tracer, SymbolicSize, bool, int, float, np.generic))


def length(value: Any) -> Any:
    """`len` that gives a symbolic size for tracers."""
    if isinstance(value, Tracer) and value.sizes:
        return value.shape[0]
    return len(value)


def identity(original_of: Callable[[Any], Any], value: Any) -> int:
    """`id`, of what stands in for something that of the user's: it may be a key that is kept."""
    return id(original_of(plain(value)))


def hashed(original: Callable[[Any], int], original_of: Callable[[Any], Any], value: Any) -> int:
    """`hash`, likewise."""
    return original(original_of(value))
