"""The table of public functions, by NumPy's name, and NumPy's two protocols on top of it.

To add a function: write it in the file of its topic, over the functions that are there, and name it in that file's
``FUNCTIONS``.  Nothing registers itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from inspect import signature
from itertools import takewhile
from types import MappingProxyType
from typing import Any

import numpy as np

from polyfuse.dtypes import DType
from polyfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
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
    padding,
    polynomials,
    promotion,
    quantiles,
    reductions,
    reshaping,
    rounding,
    scans,
    segments,
    selection,
    statistics,
    updates,
    views,
)
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.lifting import (
    check_mask,
    kind_of,
    lift,
    lift_all,
    lift_arrays,
    text_of,
    trace_of,
    traced_in,
)
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.refusals import unsupported
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.specs import is_array, numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.words import check_words


def dispatch_function(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``__array_function__``: NumPy's function by its name."""
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy").lstrip(".")
    name = f"{module}.{function.__name__}" if module else function.__name__
    found = TABLE.get(name) or TABLE.get(name.rpartition("stride_tricks.")[2])
    if found is None:
        return of_known_values(name, function, args, kwargs)
    args, kwargs = by_position(function, args, kwargs)
    return with_out(found, *_by_name(function, _led(name, args, kwargs), kwargs), spread=name in _SPREADING)


def of_known_values(name: str, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A function whose result has a shape that depends on values, or one of numbers alone, by NumPy where these are
    known while tracing.  Raises UnsupportedError otherwise."""
    is_of_numbers = name in OF_NUMBERS
    if name not in OF_VALUES and not is_of_numbers:
        raise unsupported(name)

    def value(part: Any) -> Any:
        match part:
            case list() | tuple():
                return type(part)(map(value, part))
            case SymbolicSize():
                return int(part)
            case Tracer() if is_of_numbers and part.sizes:
                raise unsupported(name)
            case Tracer() if (found := settled(part.state, part.node)) is not None:
                return found.item() if part.weak else found[()]
            case Tracer() if is_of_numbers and part.element.kind in "iu":
                return operator.index(part)  # an error that says how to pass it
            case Tracer() | Masked():
                raise unsupported(name)
        return part

    return function(*map(value, args), **{key: value(part) for key, part in kwargs.items()})


OF_VALUES = frozenset(
    """argwhere unique unique_all unique_counts unique_inverse unique_values union1d intersect1d
    setdiff1d setxor1d trim_zeros histogram2d histogramdd packbits unpackbits""".split()
)


OF_NUMBERS = frozenset(
    """bartlett blackman hamming hanning kaiser base_repr binary_repr format_float_positional format_float_scientific
    diag_indices tril_indices triu_indices mask_indices""".split()
)
"""Functions of NumPy's that take numbers and no arrays."""


def method(name: str, x: Tracer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``x.name(...)``: the function with the array as first argument."""
    return with_out(TABLE[name], *_by_name(getattr(np, name, None), (x, *args), kwargs), spread=name in _SPREADING)


def call_function(name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of the namespace by its name in the table; `function`: NumPy's, which knows where ``out`` stands."""
    args, kwargs = by_position(function, args, kwargs)
    return with_out(TABLE[name], *_by_name(function, _led(name, args, kwargs), kwargs), spread=name in _SPREADING)


def _led(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The first argument as an array of the trace, where others say which: ``np.tile(TABLE, x.shape[0])``,
    ``np.bincount(TABLE, weights=x)``."""
    others = list(traced_in((*args[1:], *kwargs.values())))
    if not args or any(True for _ in traced_in(args[:1])) or not others or name in _CHOOSING:
        return args
    if name in _WRITING:
        trace_of(*others).refuse_write(UnsupportedError(f"np.{name} writes {_UNWRITTEN}", advice=_INSIDE))
    if not all(isinstance(other, (Tracer, SymbolicSize)) for other in others):
        return args
    trace, first = trace_of(*others), args[0]
    if isinstance(first, (list, tuple)) and any(map(is_array, first)):
        return (type(first)(lift(trace, value) for value in first), *args[1:])
    is_value = is_array(first) or isinstance(first, (bool, int, float, list, tuple, range))
    return (lift(trace, first), *args[1:]) if is_value else args


_WRITING = frozenset("copyto put putmask place fill_diagonal put_along_axis".split())
_CHOOSING = frozenset("compress extract select bincount".split())  # by what is known where it is a real array
_UNWRITTEN = "a real NumPy array, which is not part of the program"
_INSIDE = "Make it inside the function with np.empty, or return the result."


def _by_name(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with a positional ``out`` of NumPy's function, and what follows it, by name."""
    args, kwargs = by_position(function, args, kwargs)
    names = _parameters(function) if len(args) > 1 else ()
    if kwargs.get("out") is not None and not _has_out(function):
        raise ArgumentError(f"np.{function.__name__} has no out=", advice="Assign its result: y[...] = ...")
    check_words(getattr(function, "__name__", ""), {**dict(zip(names, args, strict=False)), **kwargs})
    if "out" not in names[: len(args)]:
        return args, kwargs
    behind = names.index("out")
    return args[:behind], {**dict(zip(names[behind:], args[behind:], strict=False)), **kwargs}


def by_position(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with those by position that NumPy's function cannot do without: ours has names of its own."""
    if not kwargs:
        return args, {}
    left = dict(kwargs)
    for name in _parameters(function, required=True)[len(args) :]:
        if name not in left:
            break
        args = (*args, left.pop(name))
    return args, left


@lru_cache(maxsize=512)
def _parameters(function: Any, required: bool = False) -> tuple[str, ...]:
    """The names of a function's positional parameters: of all, or of those without a default."""
    try:
        known = list(takewhile(lambda p: p.kind <= p.POSITIONAL_OR_KEYWORD, signature(function).parameters.values()))
    except (TypeError, ValueError):  # no function of NumPy's, or one that does not say
        return ()
    return tuple(p.name for p in known if not required or p.default is p.empty)


@lru_cache(maxsize=512)
def _has_out(function: Any) -> bool:
    try:
        return isinstance(function, np.ufunc) or function is None or "out" in signature(function).parameters
    except (TypeError, ValueError):
        return True


_SPREADING = frozenset("clip fix isposinf isneginf percentile quantile nanpercentile nanquantile nanmedian".split())
"""Functions whose results NumPy repeats in a larger ``out=``, as those of ufuncs."""


def with_out(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    casting: str = "same_kind",
    spread: bool = False,
) -> Any:
    """Call with NumPy's ``out=``: the result is written into the array given, each of several into its own.  `spread`:
    one result may be repeated in a larger array."""
    out = kwargs.pop("out", None)
    result = function(*args, **kwargs)
    if isinstance(result, tuple) and isinstance(out, tuple):
        return tuple(_written(r, o, casting, spread) for r, o in zip(result, out, strict=True))
    if isinstance(out, tuple) and len(out) != 1:
        raise ArgumentError(f"out= holds {len(out)} arrays for one result", advice="Give one array.")
    return _written(result, out[0] if isinstance(out, tuple) else out, casting, spread)


def _written(result: Any, out: Any, casting: str, spread: bool) -> Any:
    """`out` holding `result`, or `result` itself without one.  Raises DTypeError where NumPy does not cast, and
    ShapeError for an `out` of another shape."""
    if out is None:
        return result
    if not isinstance(out, Tracer):
        problem = "out= is a real NumPy array, which a traced function cannot write"
        trace_of(result).refuse_write(UnsupportedError(problem, advice=_INSIDE))
    if isinstance(result, Tracer) and not np.can_cast(result.dtype, out.dtype, casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"out= is {out.dtype}, to which a result of {result.dtype} is not cast by the rule {casting!r}",
            advice=f"Make it with dtype=np.{result.dtype}, or give casting='unsafe' where NumPy takes it.",
        )
    if isinstance(result, Tracer) and not spread and not _is_alike(result, out):
        problem = f"out= of shape {text_of(out.sizes)} for a result of shape {text_of(result.sizes)}"
        raise ShapeError(problem, advice="Make it with the shape of the result.")
    out[...] = result
    return out


def _is_alike(a: Tracer, b: Tracer) -> bool:
    return a.ndim == b.ndim and all(a.state.equal(m, n) for m, n in zip(a.sizes, b.sizes, strict=True))


def dispatch_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``__array_ufunc__``: calls, ``reduce``, ``accumulate``, ``outer``, ``at``."""
    name, options = ufunc.__name__, dict(kwargs)
    match method:
        case "__call__":
            operands, given = inputs[: ufunc.nin], inputs[ufunc.nin :]  # and arrays for the results, by position
            if not any(True for _ in traced_in(operands)):  # only the arrays for the results belong to the trace
                operands = tuple(lift(trace_of(*given, *options.values()), value) for value in operands)
            return _call_ufunc(name, operands, options | ({"out": given} if given else {}))
        case "reduce" if name in TABLE and ufunc.nin == 2:
            options = dict(zip(("axis", "dtype", "out", "keepdims"), inputs[1:], strict=False)) | options
            options.setdefault("axis", 0)
            reduction = reductions.BY_UFUNC.get(name) or partial(scans.reduced, name)
            return with_out(reduction, (_reduced_in(name, inputs[0], options),), options)
        case "accumulate":
            options = dict(zip(("axis", "dtype", "out"), inputs[1:], strict=False)) | options
            return with_out(partial(scans.accumulate, name), (_reduced_in(name, inputs[0], options),), options)
        case "outer" if name in TABLE:
            a, b = lift_arrays(*inputs)
            return _call_ufunc(name, (a[(...,) + (None,) * b.ndim], b), options)
        case "at" if isinstance(inputs[0], Tracer):
            return updates.ufunc_at(ufunc, *inputs)
        case "at":
            error = UnsupportedError(f"np.{name}.at writes {_UNWRITTEN}", advice=_INSIDE)
            trace_of(*inputs[1:]).refuse_write(error)
        case "reduceat":
            options = dict(zip(("axis", "dtype", "out"), inputs[2:], strict=False)) | options
            x = _reduced_in(name, inputs[0], options)
            return with_out(partial(segments.reduceat, name), (x, inputs[1]), options)
    advice = "Write it with whole-array functions."
    raise UnsupportedError(f"np.{name}.{method} is not supported in a jitted function", advice=advice)


def _reduced_in(name: str, a: Any, options: dict[str, Any]) -> Any:
    """The array that a method of a ufunc reduces, in the dtype that is asked for.  Raises DTypeError."""
    if options.get("dtype") is None:
        options.pop("dtype", None)
        return a
    x = lift(trace_of(a), a)
    wanted = numpy_dtype(options["dtype"])
    promotion.check_reduction(name, x.element, wanted)
    if name not in _OF_TRUTH:
        return elementwise.astype(x, wanted.numpy)
    del options["dtype"]  # truth values of the elements as they are
    return x


def _call_ufunc(name: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    found = TABLE.get(name)
    if found is None:
        raise unsupported(name)
    casting = options.pop("casting", "same_kind")
    check_words(name, {"casting": casting})
    for ignored in ("subok", "order"):  # how the result is stored is decided by the plan
        options.pop(ignored, None)
    mask, dtype = options.pop("where", True), options.pop("dtype", None)
    if dtype is not None and name in _OF_TRUTH:
        _check_truth(name, dtype)
    elif dtype is not None or (casting in _STRICT and isinstance(getattr(np, name, None), np.ufunc)):
        inputs = _computed_in(name, lift_all(*inputs), None if dtype is None else numpy_dtype(dtype), casting)
    if mask is True:
        return with_out(found, inputs, options, casting, spread=True)
    out = options.pop("out", None)
    base = (out[0] if isinstance(out, tuple) else out) if out is not None else 0
    result = found(*inputs, **options)
    check_mask(result, mask)
    chosen = elementwise.where(mask, result, base).astype(result.dtype)
    return chosen if out is None else with_out(lambda: chosen, (), {"out": out}, casting, spread=True)


_OF_TRUTH = frozenset(
    """less less_equal greater greater_equal equal not_equal logical_and logical_or logical_xor logical_not isnan isinf
    isfinite signbit""".split()
)


_STRICT = ("no", "equiv", "safe")
"""Rules for casts that forbid more than any operand needs that NumPy takes without a rule."""


def _check_truth(name: str, dtype: Any) -> None:
    """Results of these functions are truth values, and their dtype says nothing of the operands."""
    if np.dtype(dtype) != np.bool_:
        raise DTypeError(
            f"np.{name} gives truth values, not {np.dtype(dtype)}",
            advice="Leave dtype out, and cast the result with .astype(...).",
        )


def _computed_in(name: str, inputs: Sequence[Tracer], dtype: DType | None, casting: Any) -> tuple[Tracer, ...]:
    """The operands in the dtypes of the function whose result has the dtype that the user asks for.  Raises DTypeError
    as NumPy does."""
    found = promotion.resolve_for(name, tuple(map(kind_of, inputs)), dtype, casting)
    for x, wanted in zip(inputs, found, strict=True):
        if x.weak is None and not np.can_cast(x.dtype, wanted.numpy, casting):
            raise DTypeError(
                f"np.{name} cannot cast {x.dtype} to {wanted.numpy} by the rule {casting!r}",
                advice="Cast the operand first with x.astype(...).",
            )
    return tuple(elementwise.astype(x, wanted.numpy) for x, wanted in zip(inputs, found, strict=True))


# Functions of elements, which index notation applies to elements of arrays as well.
ELEMENTWISE = frozenset(elementwise.FUNCTIONS | rounding.FUNCTIONS | activations.FUNCTIONS)
ELEMENTWISE |= {"clip", "isclose", "nan_to_num"}
ELEMENTWISE -= {"copy", "name", "view", "weak", "divmod", "modf"}

_WHOLE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **elementwise.FUNCTIONS,
        **rounding.FUNCTIONS,
        **selection.FUNCTIONS,
        **activations.FUNCTIONS,
        **views.FUNCTIONS,
        **reshaping.FUNCTIONS,
        **joining.FUNCTIONS,
        **padding.FUNCTIONS,
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


def is_scalar(value: Any) -> bool:
    """``np.isscalar``."""
    return value.is_number if isinstance(value, Tracer) else np.isscalar(value)


def metadata(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(lift(trace_of(x), x), name)


METADATA: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "shape": metadata("shape"),
        "ndim": metadata("ndim"),
        "size": lambda x, axis=None: lift(trace_of(x), x).size if axis is None else lift(trace_of(x), x).shape[axis],
    }
)

TABLE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **LIBRARY,
        **METADATA,
        "iscomplexobj": lambda x: False,
        "isrealobj": lambda x: True,
        "isscalar": is_scalar,
        "iterable": lambda x: bool(lift(trace_of(x), x).ndim),
        "function": dispatch_function,
        "ufunc": dispatch_ufunc,
        "method": method,
        "refill": editing.refill,
        "flat": reshaping.flat,
        "call_function": call_function,
    }
)
