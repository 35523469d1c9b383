"""A stand-in for the `numpy` module while a function is traced, so that ``np.zeros((n, n))`` makes a tracer.

The user's function is rebuilt over changed globals: modules and creation functions that its code names are replaced,
and so are Python helpers of the user's that it calls.  Nothing of the user's modules is modified.
"""

from __future__ import annotations

import builtins
import os
import sys
import sysconfig
from collections.abc import Callable
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like.lifting import traces_in
from polyfuse.frontends.numpy_like.masked import Masked
from polyfuse.frontends.numpy_like.registry import CREATION, LIBRARY, TABLE, unsupported
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer

_MODULES = ("numpy", "polyfuse")
_EMPTY = object()
_LIBRARIES = tuple(
    os.path.realpath(p) + os.sep for p in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")) if p
)


class Namespace:
    """``np`` (or ``pf``) for one trace: creation functions are bound to it, functions of real values stay NumPy's."""

    def __init__(self, trace: Trace, module: ModuleType = np, prefix: str = "") -> None:
        self._trace, self._module, self._prefix = trace, module, prefix

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        if full in CREATION:
            return partial(self._trace.run, CREATION[full], self._trace)
        value = getattr(self._module, name, _EMPTY)
        known = full if full in LIBRARY else self._prefix + getattr(value, "__name__", name)
        if known in LIBRARY and not isinstance(value, type):
            return Function(self._trace, known, None if value is _EMPTY else value)
        if value is _EMPTY:
            if hasattr(np, name):
                raise unsupported(full)
            raise AttributeError(f"module {self._module.__name__!r} has no attribute {name!r}")
        if isinstance(value, ModuleType) and value.__name__.startswith("numpy."):
            return Namespace(self._trace, value, full + ".")
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *LIBRARY, *CREATION})

    def __repr__(self) -> str:
        return f"<{self._module.__name__} while tracing>"


class Function:
    """One function of the namespace: ours for tracers, the module's for real values; ``np.add.reduce`` works."""

    __slots__ = ("_name", "_original", "_trace")

    def __init__(self, trace: Trace, name: str, original: Any) -> None:
        self._trace, self._name, self._original = trace, name, original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._original is not None and not any(True for _ in traces_in((*args, *kwargs.values()))):
            return self._original(*args, **kwargs)
        if any(isinstance(a, Masked) for a in args):
            return self._original(*args, **kwargs)
        if isinstance(self._original, np.ufunc):
            return self._trace.call("ufunc", self._original, "__call__", args, kwargs)
        return self._trace.call("with_out", TABLE[self._name], args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


# ---------------------------------------------------------------------------------------------- rebuilding functions


def rebound(trace: Trace, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` over globals and closures in which NumPy is the trace's namespace."""
    return Rebinder(trace).function(function)


class Rebinder:
    """Replacements made for one trace; every function is rebuilt once, so recursion ends."""

    def __init__(self, trace: Trace) -> None:
        self.state = trace
        self.done: dict[int, Any] = {}
        self.alive: list[Any] = []

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, partial):
            return partial(self.function(function.func), *function.args, **function.keywords)
        if isinstance(function, MethodType):
            return MethodType(self.function(function.__func__), function.__self__)
        if not isinstance(function, FunctionType):
            return function
        if id(function) in self.done:
            return self.done[id(function)]  # type: ignore[no-any-return]
        cells = tuple(CellType() for _ in function.__closure__ or ())
        names = dict(function.__globals__)
        names["__builtins__"] = self._builtins(names)
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells or None)
        copy.__kwdefaults__ = function.__kwdefaults__
        self.done[id(function)] = copy
        self.alive.append(function)
        for name in names_in(function.__code__):
            if name in names:
                names[name] = self.value(names[name])
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            if (content := _content(original)) is not _EMPTY:
                cell.cell_contents = self.value(content)
        return copy

    def value(self, value: Any) -> Any:
        """What stands in for a global or closed-over value."""
        if isinstance(value, ModuleType):
            root = value.__name__.partition(".")[0]
            prefix = value.__name__.removeprefix("numpy").lstrip(".")
            if root not in _MODULES:
                return value
            return Namespace(self.state, value, f"{prefix}." if root == "numpy" and prefix else "")
        if isinstance(value, FunctionType) and _is_users(value):
            return self.function(value)
        name = getattr(value, "__name__", None)
        if callable(value) and isinstance(name, str) and getattr(np, name, None) is value and name in CREATION:
            return getattr(Namespace(self.state), name)
        return value

    def _builtins(self, names: dict[str, Any]) -> dict[str, Any]:
        """Builtins with a `len` that knows symbolic sizes, and imports that give stand-ins."""
        original = names.get("__builtins__", builtins)
        found = dict(original if isinstance(original, dict) else vars(original))
        importer = found["__import__"]
        found["len"] = length
        found["__import__"] = lambda *args, **kwargs: self.value(importer(*args, **kwargs))
        return found


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def names_in(code: CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_in(constant)
    return found


def _is_users(function: FunctionType) -> bool:
    """Code outside the standard library and installed packages."""
    file = os.path.realpath(function.__code__.co_filename)
    module = sys.modules.get(function.__module__ or "")
    return not file.startswith(_LIBRARIES) and not (module is not None and module.__name__.startswith(_MODULES))


def length(value: Any) -> Any:
    """`len` that gives a symbolic size for tracers."""
    if isinstance(value, Tracer) and value.sizes:
        return value.shape[0]
    return len(value)
