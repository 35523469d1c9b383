"""The public functions ``pf.exp``, ``pf.softmax``, ``pf.zeros``, ...

They take tracers inside jitted functions and real arrays elsewhere (through the reference evaluator).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from polyfuse.errors import IndexingError, TraceError
from polyfuse.frontends.index_notation.terms import has_terms, indices
from polyfuse.frontends.numpy_like.lifting import traces_in
from polyfuse.frontends.numpy_like.registry import CREATION, LIBRARY, TABLE
from polyfuse.frontends.numpy_like.specs import is_array, specs_of_arrays
from polyfuse.frontends.numpy_like.tracing import trace
from polyfuse.frontends.numpy_like.watched import read_values
from polyfuse.reference import evaluate

_INTERNAL = frozenset("weak as_python getitem setitem update in_place view".split())


def names() -> tuple[str, ...]:
    """The public functions without a dot in their name."""
    return tuple(sorted(n for n in {*LIBRARY, *CREATION} if n.isidentifier() and n not in _INTERNAL))


@cache
def public(name: str) -> Callable[..., Any]:
    """The function `name`.  Raises KeyError for names that are none."""
    if name not in names():
        raise KeyError(name)

    def function(*args: Any, **kwargs: Any) -> Any:
        found = next(iter(traces_in((*args, *kwargs.values()))), None)
        if name == "indices" and args and isinstance(args[0], str):
            return indices(*args, **kwargs)
        if name == "indices" and found is None and not (args and isinstance(args[0], (tuple, list))):
            problem = f"pf.indices takes the names of indices, not {args[0]!r}" if args else "pf.indices takes names"
            raise IndexingError(problem, advice='Write i, j = pf.indices("i j"), or np.indices((n, m)) for positions.')
        if found is None:
            return TABLE[name](*args, **kwargs) if has_terms(args) else _eager(name, args, kwargs)
        if name in CREATION:
            return found.run(CREATION[name], found, *args, **kwargs)
        return found.call("call_function", name, getattr(np, name, None), args, kwargs)

    function.__name__ = function.__qualname__ = name
    found = CREATION.get(name) or LIBRARY[name]
    function.__doc__ = None if found.__doc__ == partial.__doc__ else found.__doc__
    return function


def _eager(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Outside of a trace, or of real arrays in one: NumPy's own function, or ours."""
    args, kwargs = read_values(args), read_values(kwargs)
    if hasattr(np, name):
        return getattr(np, name)(*args, **kwargs)
    if not any(is_array(a) for a in args):
        raise TraceError(f"pf.{name} needs an array", advice="Give it an array, or call it inside a jitted function.")
    arrays = [np.asarray(a) for a in args if is_array(a)]

    def applied(*values: Any) -> Any:
        rest = iter(values)
        return public(name)(*(next(rest) if is_array(a) else a for a in args), **kwargs)

    traced = trace(applied, specs_of_arrays(arrays))
    return traced.rebuild(evaluate(traced.program, [*arrays, *traced.captured]), {})
