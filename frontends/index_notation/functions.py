"""How index notation joins the public functions: what takes whole arrays takes elements and indices as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polyfuse.frontends.index_notation import assignment, together
from polyfuse.frontends.index_notation.terms import Index, Term, apply, has_terms, indices, inside, reduction
from polyfuse.frontends.numpy_like.locations import here
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer, Unassigned

Function = Callable[..., Any]
REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "mean", "argmax", "argmin", "logsumexp")


def joined(table: Mapping[str, Function], elementwise: frozenset[str]) -> dict[str, Function]:
    """`table` with functions that make terms of elements and indices."""
    found = {name: _either(name, f) if name in elementwise else f for name, f in table.items()}
    found |= {name: _reduction(name, table[name], elementwise) for name in REDUCTIONS}
    found["getitem"] = _getitem(table["getitem"])
    found["setitem"] = _setitem(table["setitem"], elementwise)
    found["inside"] = inside
    return found


def joined_creation(table: Mapping[str, Function]) -> dict[str, Function]:
    """`table` with ``indices("i j")`` and ``empty()``, whose shape follows from its first assignment."""
    grid, empty = table["indices"], table["empty"]

    def either_indices(trace: Trace, dimensions: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dimensions, str):
            return indices(dimensions, *args, **kwargs)
        return grid(trace, dimensions, *args, **kwargs)

    def either_empty(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        if args or "shape" in kwargs:
            return empty(trace, *args, **kwargs)
        location = here()
        targets = location.targets if location is not None else ()
        return Tracer(trace, Unassigned(targets[0] if len(targets) == 1 else "the array", **kwargs))

    return {**table, "indices": either_indices, "empty": either_empty}


def _either(name: str, function: Function) -> Function:
    def either(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(a, Term) for a in args):
            return apply(name, *args, **kwargs)
        return function(*args, **kwargs)

    either.__doc__ = function.__doc__
    return either


def _reduction(name: str, function: Function, elementwise: frozenset[str]) -> Function:
    def either(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        over_indices = isinstance(first, (tuple, list)) and any(isinstance(f, Index) for f in first)
        if not over_indices and not any(isinstance(a, Term) for a in args):
            return function(*args, **kwargs)
        term = reduction(name, *args, **kwargs)
        trace = term.trace()
        if trace is None or term.free():
            return term
        return assignment.closed(term, trace, elementwise)

    either.__doc__ = function.__doc__
    return either


def _getitem(function: Function) -> Function:
    def getitem(x: Tracer, index: Any) -> Any:
        return assignment.access(x, index) if has_terms((index,)) else function(x, index)

    return getitem


def _setitem(function: Function, elementwise: frozenset[str]) -> Function:
    def setitem(x: Tracer, index: Any, value: Any) -> None:
        if has_terms((index,)) or isinstance(value, Term):
            together.assign(x, index, value, elementwise)
        else:
            function(x, index, value)

    return setitem
