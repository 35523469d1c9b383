"""The table of public functions, by NumPy's name, and NumPy's two protocols on top of it.

To add a function: write it in the file of its topic, over the functions that are there, and name it in that file's
``FUNCTIONS``.  Nothing registers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from polyfuse.errors import DTypeError, UnsupportedError
from polyfuse.frontends.index_notation.functions import joined, joined_creation
from polyfuse.frontends.numpy_like import (
    activations,
    bits,
    boundaries,
    contractions,
    creation,
    curves,
    drawing,
    editing,
    elementwise,
    indexing,
    joining,
    linear_algebra,
    polynomials,
    quantiles,
    reductions,
    reshaping,
    scans,
    selection,
    statistics,
    updates,
    views,
)
from polyfuse.frontends.numpy_like.lifting import lift, trace_of
from polyfuse.frontends.numpy_like.refusals import unsupported
from polyfuse.frontends.numpy_like.tracer import Tracer


def dispatch_function(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``__array_function__``: NumPy's function by its name."""
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy").lstrip(".")
    name = f"{module}.{function.__name__}" if module else function.__name__
    found = TABLE.get(name) or TABLE.get(name.rpartition("stride_tricks.")[2])
    if found is None:
        raise unsupported(name)
    return with_out(found, args, dict(kwargs))


def with_out(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call with NumPy's ``out=``: the result is written into the array given."""
    out = kwargs.pop("out", None)
    out = out[0] if isinstance(out, tuple) else out
    result = function(*args, **kwargs)
    if out is None:
        return result
    if not isinstance(out, Tracer):
        raise UnsupportedError(
            "out= is a real NumPy array, which a traced function cannot write",
            advice="Make it inside the function with np.empty, or return the result.",
        )
    out[...] = result
    return out


def dispatch_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``__array_ufunc__``: calls, ``reduce``, ``accumulate``, ``outer``, ``at``."""
    name, options = ufunc.__name__, dict(kwargs)
    match method:
        case "__call__":
            return _call_ufunc(name, inputs, options)
        case "reduce" if name in reductions.BY_UFUNC:
            options.setdefault("axis", 0)
            return with_out(reductions.BY_UFUNC[name], inputs, options)
        case "accumulate":
            return with_out(partial(scans.accumulate, name), inputs, options)
        case "outer" if name in TABLE:
            a, b = (lift(trace_of(*inputs), v) for v in inputs)
            return _call_ufunc(name, (a[(...,) + (None,) * b.ndim], b), options)
        case "at" if isinstance(inputs[0], Tracer):
            return updates.ufunc_at(name, *inputs)
    raise UnsupportedError(
        f"np.{name}.{method} is not supported in a jitted function", advice="Write it with whole-array functions."
    )


def _call_ufunc(name: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    found = TABLE.get(name)
    if found is None:
        raise unsupported(name)
    casting = options.pop("casting", "same_kind")
    options.pop("subok", None)
    mask, dtype = options.pop("where", True), options.pop("dtype", None)
    if dtype is not None and name not in ("matmul",):
        inputs = tuple(_cast_to(name, lift(trace_of(*inputs), v), dtype, casting) for v in inputs)
    if mask is True:
        return with_out(found, inputs, options)
    out = options.pop("out", None)
    base = (out[0] if isinstance(out, tuple) else out) if out is not None else 0
    result = found(*inputs, **options)
    chosen = elementwise.where(mask, result, base).astype(result.dtype)
    return chosen if out is None else with_out(lambda: chosen, (), {"out": out})


def _cast_to(name: str, x: Tracer, dtype: Any, casting: Any) -> Tracer:
    """An operand in the dtype that the user wants to compute in.  Raises DTypeError as NumPy does."""
    if x.weak is None and not np.can_cast(x.dtype, dtype, casting):
        raise DTypeError(
            f"np.{name} cannot cast {x.dtype} to {np.dtype(dtype)} by the rule {casting!r}",
            advice="Cast the operand first with x.astype(...).",
        )
    return elementwise.astype(x, dtype)


# Functions of elements, which index notation applies to elements of arrays as well.
ELEMENTWISE = frozenset(elementwise.FUNCTIONS) | {"clip", "isclose", "nan_to_num", *activations.FUNCTIONS}
ELEMENTWISE -= {"copy", "name", "view", "weak", "divmod", "modf"}

_WHOLE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **elementwise.FUNCTIONS,
        **selection.FUNCTIONS,
        **activations.FUNCTIONS,
        **views.FUNCTIONS,
        **reshaping.FUNCTIONS,
        **joining.FUNCTIONS,
        **indexing.FUNCTIONS,
        **updates.FUNCTIONS,
        **reductions.FUNCTIONS,
        **scans.FUNCTIONS,
        **contractions.FUNCTIONS,
        **boundaries.FUNCTIONS,
        **bits.FUNCTIONS,
        **curves.FUNCTIONS,
        **editing.FUNCTIONS,
        **linear_algebra.FUNCTIONS,
        **polynomials.FUNCTIONS,
        **quantiles.FUNCTIONS,
        **statistics.FUNCTIONS,
        **creation.LIKE,
    }
)

LIBRARY: Mapping[str, Callable[..., Any]] = MappingProxyType(joined(_WHOLE, ELEMENTWISE))

CREATION: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {**joined_creation(creation.FUNCTIONS), **drawing.FUNCTIONS}
)


def metadata(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(lift(trace_of(x), x), name)


TABLE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **LIBRARY,
        "shape": metadata("shape"),
        "ndim": metadata("ndim"),
        "size": lambda x, axis=None: lift(trace_of(x), x).size if axis is None else lift(trace_of(x), x).shape[axis],
        "iscomplexobj": lambda x: False,
        "isrealobj": lambda x: True,
        "isscalar": lambda x: False,
        "iterable": lambda x: bool(lift(trace_of(x), x).ndim),
        "function": dispatch_function,
        "ufunc": dispatch_ufunc,
        "with_out": with_out,
    }
)
