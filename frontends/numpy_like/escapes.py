"""Values of a trace in places that outlive it: what they are, and where they were made."""

from __future__ import annotations

import linecache
from collections import deque
from collections.abc import Iterable
from functools import partial
from types import (
    AsyncGeneratorType,
    CellType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any

from polyfuse.errors import Source, TraceError
from polyfuse.frontends.index_notation.terms import Term
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.updater import Updater

_DEPTH = 4


def origin(value: Any) -> tuple[str, Source | None] | None:
    """What `value` is in words, and the line that made it, if it is of a trace; None for anything else."""
    match value:
        case Tracer():
            return ("a number" if value.weak else "an array"), _line(value.state, value)
        case SymbolicSize():
            return "a size", None
        case Masked() | Updater():
            return "an array", _line(value.array.state, value.array)
        case Term() if value.trace() is not None:
            return "an expression over indices", value.location.source() if value.location else None
    return None


def refuse_hidden(value: Any) -> None:
    """Raise TraceError where a part of the result that is no array runs later, or holds values of the trace."""
    kind, advice = type(value).__name__, "Return arrays in tuples, lists, dictionaries, named tuples or dataclasses."
    if isinstance(value, (GeneratorType, CoroutineType, AsyncGeneratorType, map, filter, zip)):
        codes = [getattr(value, name, None) for name in ("gi_code", "cr_code", "ag_code")]
        source = next((_first_line(code) for code in codes if code is not None), None)
        if isinstance(value, CoroutineType):
            value.close()  # or Python warns that nobody has awaited it
        problem = f"the result has a {kind}, which would run when the trace has ended"
        raise TraceError(problem, advice=advice, source=source)
    if (found := _held(value, _DEPTH)) is not None:
        what, source = found
        raise TraceError(f"the result has a {kind}, which holds {what} of the trace", advice=advice, source=source)


def holds_traced(value: Any) -> bool:
    """Whether `value` is of a trace, or something that it holds."""
    return origin(value) is not None or _held(value, _DEPTH) is not None


def _first_line(code: CodeType) -> Source:
    text = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n")
    return Source(code.co_filename, code.co_firstlineno, text)


def _held(value: Any, depth: int) -> tuple[str, Source | None] | None:
    if isinstance(value, (set, frozenset, list, tuple, deque)):
        below: Iterable[Any] = value
    elif isinstance(value, dict):
        below = value.values()
    elif isinstance(value, slice):
        below = (value.start, value.stop, value.step)
    elif isinstance(value, FunctionType):
        below = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
    elif isinstance(value, (MethodType, partial)):
        below = (value.__self__,) if isinstance(value, MethodType) else (*value.args, *value.keywords.values())
    else:
        below = list(getattr(value, "__dict__", {}).values()) if not isinstance(value, (type, ModuleType)) else ()
    found = (origin(part) or (_held(part, depth - 1) if depth else None) for part in below)
    return next((of for of in found if of is not None), None)


def _line(trace: Trace, value: Tracer) -> Source | None:
    location = trace.location_of(value) if value.assigned else None
    return location.source() if location else None
