"""A stand-in for the `numpy` module while a function is traced, so that ``np.zeros((n, n))`` makes a tracer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from polyfuse.errors import UnsupportedError
from polyfuse.frontends.index_notation.terms import Term, has_terms
from polyfuse.frontends.numpy_like import promotion
from polyfuse.frontends.numpy_like.grids import Grid
from polyfuse.frontends.numpy_like.instead import Instead, one
from polyfuse.frontends.numpy_like.lifting import as_dtype, kind_of, lift, traces_in
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.refusals import ALTERNATIVES, unsupported
from polyfuse.frontends.numpy_like.registry import (
    CREATION,
    LIBRARY,
    METADATA,
    TABLE,
    by_position,
    is_scalar,
    of_known_values,
)
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.watched import applied, read, read_values

_EMPTY = object()
_OF_REAL = ("asarray", "asanyarray")  # real arrays stay what they are


def refuse_random(name: str, *_: Any, **__: Any) -> NoReturn:
    """Random numbers drawn while tracing would be the same in every call."""
    raise located(
        UnsupportedError(
            f"{name} would be drawn once, while the function is traced, and then be a constant",
            advice="Write pf.random.normal(key, shape) with a key as an argument, or draw outside of it.",
        )
    )


class ArrayType(type):
    """What ``np.ndarray`` is inside a jitted function: ``isinstance`` decides as it does outside, calling it gives an
    array of the trace, and everything else is NumPy's."""

    trace: Trace

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, np.ndarray) or (isinstance(value, Tracer) and not value.is_number)

    def __call__(cls, shape: Any, dtype: Any = float, *memory: Any, **options: Any) -> Any:
        if memory or options.keys() - {"order"}:
            raise located(
                UnsupportedError(
                    "np.ndarray over memory that exists is not supported in a jitted function",
                    advice="Use slices, reshape and x.view(dtype).",
                )
            )
        return cls.trace.run(CREATION["empty"], cls.trace, shape, dtype)

    def __getattr__(cls, name: str) -> Any:
        return getattr(np.ndarray, name)


def array_type(trace: Trace) -> ArrayType:
    """``np.ndarray`` for one trace."""
    found: ArrayType = one(trace, np.ndarray, "", lambda: ArrayType("ndarray", (), {"trace": trace}))
    return found


class RandomStandIn:
    """What a random module or generator is inside a jitted function: an error at the first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return partial(refuse_random, f"{self._name}.{name}")


class Namespace:
    """``np`` (or ``pf``) for one trace: creation functions are bound to it, functions of real values stay NumPy's.

    `rebind` gives what stands in for submodules and for whatever else the module holds.
    """

    def __init__(
        self, trace: Trace, module: ModuleType = np, prefix: str = "", rebind: Callable[[Any], Any] | None = None
    ) -> None:
        self._trace, self._module, self._prefix, self._rebind = trace, module, prefix, rebind

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        if full == "__array_namespace_info__":
            return Info
        if full == "random" and self._module is np:
            return RandomStandIn("np.random")
        if full == "ndarray" and self._module is np:
            return array_type(self._trace)
        if full == "errstate" and self._module is np:
            return error_state
        if full == "isscalar" and self._module is np:
            return is_scalar
        if full == "vectorize" and self._module is np:
            return partial(vectorized, self._trace.read)
        if full == "ndenumerate" and self._module is np:
            return enumerated
        value = getattr(self._module, name, _EMPTY)
        original = None if value is _EMPTY else value
        if full in CREATION:
            return one(self._trace, original, full, lambda: Creation(self._trace, full, value))
        known = full if full in LIBRARY else self._prefix + getattr(value, "__name__", name)
        if (known in LIBRARY or known in METADATA) and not isinstance(value, type):
            role = full if original is None else ""
            return one(self._trace, original, role, lambda: Function(self._trace, known, original))
        if value is _EMPTY:
            if hasattr(np, name):
                raise unsupported(full)
            raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}")
        if self._module is np and name in ("r_", "c_"):
            return Joining(self._trace, name, value)
        if self._module is np and name in ("mgrid", "ogrid"):
            return Grid(self._trace, name, value)
        if self._module.__name__.startswith("numpy") and full not in TABLE and _is_refused(full, value):
            return one(self._trace, value, "", lambda: Foreign(full, value, self._trace.read))
        if self._rebind is not None:
            return self._rebind(value)
        if isinstance(value, ModuleType) and value.__name__.startswith("numpy."):
            return Namespace(self._trace, value, f"{full}.")
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *LIBRARY, *CREATION})

    def __repr__(self) -> str:
        return f"<{self._module.__name__} while tracing>"


def _is_refused(name: str, value: Any) -> bool:
    """Functions of NumPy that are none of ours, and classes for which there is an alternative."""
    return callable(value) and (name in ALTERNATIVES if isinstance(value, type) else not isinstance(value, np.ufunc))


def _holds_array(values: Iterable[Any]) -> bool:
    return any(_holds_array(v) if isinstance(v, (list, tuple)) else isinstance(v, (Tracer, Masked)) for v in values)


class Creation(Instead):
    """A function that makes an array, of the trace."""

    __slots__ = ("_name", "_trace")

    def __init__(self, trace: Trace, name: str, original: Any) -> None:
        super().__init__(None if original is _EMPTY else original)
        self._trace, self._name = trace, name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._name in _OF_REAL and not any(True for _ in traces_in((*args, *kwargs.values()))):
            return applied(self._original, args, kwargs, self._trace.read)
        args, kwargs = by_position(self._original, args, kwargs)
        return self._trace.run(CREATION[self._name], self._trace, *args, **kwargs)


class Foreign(Instead):
    """A function of NumPy's for real values and sizes; arrays of the trace get an error that names the alternative.
    `reads`: where the trace lists arrays that are read."""

    __slots__ = ("_name", "_reads")

    def __init__(self, name: str, original: Any, reads: list[np.ndarray[Any, Any]]) -> None:
        super().__init__(original)
        self._name, self._reads = name, reads

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _holds_array((*args, *kwargs.values())):
            trace = next(traces_in((*args, *kwargs.values())), None)
            if trace is None:  # a selection by a mask
                raise located(unsupported(self._name))
            return trace.run(of_known_values, self._name, self._original, args, kwargs)
        return applied(self._original, args, kwargs, self._reads)


def vectorized(reads: list[np.ndarray[Any, Any]], *args: Any, **kwargs: Any) -> Foreign:
    """``np.vectorize(function)``, for real values only: it calls the function with one element after the other."""
    return Foreign("vectorize", np.vectorize(*args, **kwargs), reads)


def enumerated(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """``np.ndenumerate``: the elements, one after the other, with their places."""
    if not isinstance(x, Tracer):
        return np.ndenumerate(read(x))
    return ((place, x[place]) for place in np.ndindex(*map(int, x.shape)))


def error_state(**kinds: Any) -> Any:
    """``np.errstate``, which says nothing of numbers that are computed later.  Raises UnsupportedError where it is to
    raise errors or to call a function for them."""
    for kind, answer in kinds.items():
        if answer in ("raise", "call", "log"):
            raise located(
                UnsupportedError(
                    f"np.errstate({kind}={answer!r}) has no effect on a jitted function, whose kernels run later",
                    advice="Look at np.isfinite(result).all() after the call.",
                )
            )
    return np.errstate(**kinds)


class Joining:
    """``np.r_[a, b, 1:5]``, along the first axis, and ``np.c_[a, b]``, along the last one of two or more."""

    def __init__(self, trace: Trace, name: str, original: Any) -> None:
        self._trace, self._name, self._original = trace, name, original

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not _holds_array(parts):
            return self._original[read_values(key)]
        if any(isinstance(part, str) for part in parts):
            advice = "Use np.concatenate, np.stack or np.column_stack."
            raise located(UnsupportedError(f"np.{self._name} with a string among the parts", advice=advice))
        values = [np.r_[part] if isinstance(part, slice) else part for part in parts]
        lifted = [lift(self._trace, v) for v in values]
        wanted = promotion.common(tuple(map(kind_of, lifted)))  # numbers are weak here, unlike in np.append
        cast = [self._trace.run(as_dtype, v, wanted) if v.weak is not None else v.node for v in lifted]
        joined = [self._trace.call("atleast_1d", Tracer(self._trace, node)) for node in cast]
        if self._name == "c_":
            joined = [v if v.ndim > 1 else self._trace.call("expand_dims", v, 1) for v in joined]
        return self._trace.call("concatenate", joined, axis=0 if self._name == "r_" else -1, dtype=wanted.numpy)


class Info:
    """``__array_namespace_info__()`` of the standard: NumPy's, without complex dtypes and without masks that decide
    shapes."""

    def __init__(self) -> None:
        self._numpy = np.__array_namespace_info__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)

    def capabilities(self) -> dict[str, Any]:
        return {**self._numpy.capabilities(), "boolean indexing": False, "data-dependent shapes": False}

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        return _real(self._numpy.default_dtypes(device=device))

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        return _real(self._numpy.dtypes(device=device, kind=kind))


def _real(dtypes: Any) -> dict[str, Any]:
    return {name: dtype for name, dtype in dtypes.items() if dtype.kind != "c"}


class Function(Instead):
    """One function of the namespace: ours for tracers, the module's for real values; ``np.add.reduce`` works."""

    __slots__ = ("_name", "_trace")

    def __init__(self, trace: Trace, name: str, original: Any) -> None:
        super().__init__(original)
        self._trace, self._name = trace, name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if self._original is not None and not has_terms(values) and not any(True for _ in traces_in(values)):
            return applied(self._original, args, kwargs, self._trace.read)
        if any(isinstance(a, Masked) for a in values):
            args, kwargs = by_position(self._original, args, kwargs)
            if self._original is np.take and not isinstance(args[0], Masked):  # NumPy asks the array alone
                return self._trace.call("call_function", self._name, self._original, args, kwargs)
            return self._original(*args, **kwargs)
        if isinstance(self._original, np.ufunc):
            return self._trace.call("ufunc", self._original, "__call__", args, kwargs)
        return self._trace.call("call_function", self._name, self._original, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        if not isinstance(self._original, np.ufunc) or not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            """A method of a ufunc; NumPy itself finds no tracers inside of lists.  Elements refuse it by its name, and
            selections know what they can."""
            if any(True for _ in traces_in(args)) and not any(isinstance(a, (Term, Masked)) for a in args):
                return self._trace.call("ufunc", self._original, name, args, kwargs)
            return found(*args, **kwargs)

        return call
