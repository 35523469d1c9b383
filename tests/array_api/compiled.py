"""From a line of `signatures` to a jitted function of wrapped arrays.

    sum(x, /, *, axis=None, dtype=None, keepdims=False)

becomes what a user of the standard would write, with the namespace that the array of unknown values gives:

    @pf.jit(static=("axis", "dtype", "keepdims"))
    def sum(x, /, *, axis=None, dtype=None, keepdims=False):
        return x.__array_namespace__().sum(x, axis=axis, dtype=dtype, keepdims=keepdims)
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter
from typing import Any

import numpy as np

import polyfuse as pf
from tests.array_api.signatures import VALUES


class Compiled:
    """One function of the namespace: takes arrays out of their wrapper, calls the jitted function, wraps the result."""

    def __init__(self, function: Callable[..., Any], wrap: Callable[[Any], Any]) -> None:
        update_wrapper(self, function)
        parameters = inspect.signature(function).parameters
        self._static = tuple(n for n in parameters if n not in VALUES)
        self._jitted = pf.jit(static=self._static)(function)
        self._signature = inspect.signature(function)
        self._wrap = wrap

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            bound.arguments[name] = static(value) if name in self._static else unwrapped(value)
        return wrapped(self._jitted(*bound.args, **bound.kwargs), self._wrap)


def static(value: Any) -> Any:
    """A hashable form of a static argument; of an array its numbers, such as repetitions that decide a shape."""
    if isinstance(getattr(value, "data", None), np.ndarray):
        return static(value.data.tolist())
    return tuple(map(static, value)) if isinstance(value, (list, tuple)) else value


def unwrapped(value: Any) -> Any:
    """Arrays out of their wrapper, in nested sequences as well."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(unwrapped, value))
    return getattr(value, "data", value) if not isinstance(value, np.generic) else value


def wrapped(value: Any, wrap: Callable[[Any], Any]) -> Any:
    """Results in the wrapper: tuples stay tuples, named or not."""
    if isinstance(value, tuple):
        parts = [wrapped(part, wrap) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return [wrapped(part, wrap) for part in value] if isinstance(value, list) else wrap(np.asarray(value))


def functions(table: str, module: str, wrap: Callable[[Any], Any]) -> dict[str, Compiled]:
    """The functions of one table.  `module`: where the namespace has them, such as ``linalg.``."""
    made = {}
    for line in table.split("\n"):
        if line:
            name, _, rest = line.partition("(")
            made[name] = Compiled(_written(name, rest.removesuffix(")"), module), wrap)
    return made


def _written(name: str, parameters: str, module: str) -> Callable[..., Any]:
    """The Python function of one line, made from source so that errors show its line."""
    found = inspect.signature(eval(f"lambda {parameters}: None")).parameters
    first = next(iter(found))
    given = ", ".join(_passed(p) for p in found.values())
    array = {"arrays": "arrays[0]", "condition": "condition", "x": "x"}.get(first, "_array(x1, x2)")
    space = f"{array}.__array_namespace__()" if first in VALUES and first != "start" else "numpy"
    source = f"def {name}({parameters}):\n    return {space}.{module}{name}({given})\n"
    file = f"<array api {module}{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"numpy": np, "_array": _array}
    exec(compile(source, file, "exec"), scope)
    return scope[name]  # type: ignore[no-any-return]


def _passed(parameter: Parameter) -> str:
    match parameter.kind:
        case Parameter.VAR_POSITIONAL:
            return f"*{parameter.name}"
        case Parameter.KEYWORD_ONLY:
            return f"{parameter.name}={parameter.name}"
    return parameter.name


def _array(x1: Any, x2: Any) -> Any:
    """Which of two operands is an array; the other may be a number."""
    return x1 if hasattr(x1, "__array_namespace__") else x2
