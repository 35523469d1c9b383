"""The user's code over changed globals: `numpy` is the trace's namespace there, in helpers and methods as well.

Functions are rebuilt with copies of their globals and closures, objects of the user's classes get a derived class with
rebuilt methods and share their attributes.  Nothing of the user's modules is modified.
"""

from __future__ import annotations

import builtins
import enum
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property, partial, singledispatchmethod, wraps
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from polyfuse.frontends.numpy_like import holders, python_builtins, random
from polyfuse.frontends.numpy_like.cached import CachedFunction, CachedProperty
from polyfuse.frontends.numpy_like.classes import fill, stand_in, stands_in
from polyfuse.frontends.numpy_like.escapes import holds_traced
from polyfuse.frontends.numpy_like.generic import Generic, GenericMethod, is_generic
from polyfuse.frontends.numpy_like.inlined import Inlined
from polyfuse.frontends.numpy_like.instead import Builtin, Instead
from polyfuse.frontends.numpy_like.iterating import Iterating
from polyfuse.frontends.numpy_like.lifting import traces_in
from polyfuse.frontends.numpy_like.namespace import Foreign, Namespace, RandomStandIn, array_type
from polyfuse.frontends.numpy_like.outside import Outside, restored
from polyfuse.frontends.numpy_like.printed import Printed
from polyfuse.frontends.numpy_like.python_math import MathStandIn
from polyfuse.frontends.numpy_like.registry import CREATION
from polyfuse.frontends.numpy_like.series import INSTEAD
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.spaces import Spaces
from polyfuse.frontends.numpy_like.specs import is_array
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.third_party import Library
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.users import (
    DEPTH,
    LRU_CACHE,
    MODULES,
    draws,
    goes_on,
    holds_array,
    is_of_library,
    is_spelled_in_numpy,
    is_users_class,
    is_users_function,
    is_users_object,
    jitted,
    run_by,
)
from polyfuse.frontends.numpy_like.watched import Watched, applied, plain
from polyfuse.installed import is_users

_READING = (np.nditer, np.matrix, np.broadcast, np.poly1d, np.recarray, np.memmap, np.ma.MaskedArray)
"""Classes of NumPy's that read the arrays they are made of, and tell nothing."""
_USED = "__iter__ __len__ __getitem__ __contains__ __enter__ __add__ __mul__ __matmul__ __array_priority__".split()
"""What an object does besides being called, which no stand-in does for it."""
_AS_THEY_ARE = frozenset((Library, Tracer, SymbolicSize, bool, int, float, complex, str, bytes, type(None), range))
_BUFFERS = {"memoryview", "bytearray"}  # of Python's own, likewise


class Rebinder:
    """Replacements made for one trace; everything is rebuilt once, so recursion ends."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.done: dict[int, Any] = {}
        self.spaces = Spaces()
        self.outside = Outside(trace.read)
        self.named: python_builtins.Named = defaultdict(set)
        self.printed = Printed()
        self.passed: frozenset[int] = frozenset()  # identities of containers and objects that arguments were copied to
        self._originals: dict[int, Any] = {}  # by the identity of what stands in for them
        self._alive: list[Any] = []  # so that no identity is used twice

    def value(self, value: Any) -> Any:
        """What stands in for a global, closed-over value, attribute or argument."""
        if type(value) in _AS_THEY_ARE or isinstance(value, Instead):
            return value
        if type(value) in (np.ndarray, Watched):
            return self._array(value)
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, FunctionType):
            if is_spelled_in_numpy(value.__module__):
                return self._library(value)
            root, _, rest = (value.__module__ or "").partition(".")
            if root == "numpy":  # from numpy import ones
                home = sys.modules[value.__module__]
                is_public = getattr(home, value.__name__, None) is value
                return getattr(Namespace(self.trace, home, rest and f"{rest}."), value.__name__) if is_public else value
            return self.function(value) if is_generic(value) or is_users_function(value) else self._bare(value)
        if isinstance(value, (MethodType, partial)):
            return self.function(value)
        if isinstance(value, LRU_CACHE) and isinstance(value.__wrapped__, FunctionType):
            return self._cached(value) if is_users_function(value.__wrapped__) else self._bare(value)
        if draws(value):
            return RandomStandIn(type(value).__name__)
        if isinstance(value, BuiltinFunctionType) and value.__module__ == "math":  # from math import sqrt
            return getattr(MathStandIn(self.trace), value.__name__)
        if isinstance(value, np.vectorize):
            return Foreign("vectorize", value, self.trace.read)
        if value is np.ndarray:
            return array_type(self.trace)
        name = getattr(value, "__name__", None) if callable(value) else None
        is_made = isinstance(name, str) and name in CREATION
        if name is not None and (is_made or isinstance(value, np.ufunc)) and getattr(np, name, None) is value:
            return getattr(Namespace(self.trace), name)
        inner = jitted(value)
        if inner is not None:
            return self._inlined(value, inner)
        if isinstance(value, type):
            if stands_in(value):
                return value
            return self.derived(value) if is_users_class(value) else self._bare(value)
        if holders.is_holder(value):
            return self._container(value)
        if goes_on(value):
            return Iterating(self.trace, value)
        if isinstance(value, ref):
            return self._reference(value)
        if isinstance(value, BuiltinFunctionType):
            return self._python.get(id(value)) or self._builtin(value)
        return self.instance(value) if is_users_object(value) else self._bare(value)

    def _keep(self, original: Any, stand_in: Any) -> Any:
        """`stand_in`, which is what the trace has for `original` from here on."""
        self._alive += original, stand_in
        self._originals[id(stand_in)] = original
        self.done[id(original)] = stand_in
        return stand_in

    def _builtin(self, value: BuiltinFunctionType) -> Any:
        """A function of C code, or a method that was taken from an array or a container before: ``total = W.sum``."""
        holder = value.__self__
        if not isinstance(holder, (ModuleType, type, type(None))):
            stand_in = self.value(holder)
            return value if stand_in is holder else getattr(stand_in, value.__name__)
        is_numpys = (value.__module__ or "").startswith("numpy")
        return Foreign(value.__name__, value, self.trace.read) if is_numpys else self._bare(value)

    def _reference(self, value: ref[Any]) -> Any:
        """A weak reference, which leads to what stands in for an object."""
        if id(value) not in self.done:
            self._keep(value, Builtin(value, lambda: self.value(value())))
        return self.done[id(value)]

    def _array(self, value: Any) -> Any:
        """An array that tells what is read of it; one of objects does not."""
        if value.dtype.hasobject:
            self.outside.expose(value)
            return value
        if type(value) is Watched and value.tells(self.trace.read):
            return value
        value = plain(value)  # one that has outlived another trace
        if id(value) not in self.done:
            self._keep(value, self.outside.watch(value))
        return self.done[id(value)]

    def _bare(self, value: Any) -> Any:
        """What the function gets as it is, or, of a library, by way of a stand-in that takes plain arrays."""
        if isinstance(value, (np.generic, np.dtype, np.ufunc, Tracer, SymbolicSize)) or is_array(value):
            return value
        kind = value if isinstance(value, type) else type(value)
        is_code = isinstance(value, (FunctionType, BuiltinFunctionType, ModuleType))
        if not is_of_library(value, kind):
            if kind in _READING:
                self.outside.blind()
            if not is_code and not isinstance(value, type):
                self.outside.expose(value)
            self.outside.expose_code(run_by(value, kind))
            return value
        if is_code or (callable(value) and not isinstance(value, type) and not any(hasattr(kind, n) for n in _USED)):
            return self._library_of_others(value)
        if isinstance(value, type):
            if not issubclass(value, (BaseException, enum.Enum)) and not hasattr(value, "dtype"):
                self.outside.blind()  # its constructor may take arrays, and a class has to stay what it is
            return value
        if hasattr(value, "__dict__") or any(hasattr(kind, name) for name in _USED):
            self.outside.expose(value)
            self.outside.blind()  # its methods and operators may take arrays
        return value

    def _library_of_others(self, value: Any) -> Library:
        if id(value) not in self.done:
            self._keep(value, Library(value, self.value))
        return self.done[id(value)]  # type: ignore[no-any-return]

    def _container(self, value: Any) -> Any:
        """A list, tuple or dictionary with what it holds rebuilt: one for each, so that what is added to it stays."""
        if id(value) in self.done or self.outside.is_shared(value):
            return self.done.get(id(value), value)
        if not any(map(self._is_rebuilt, holders.held(value))) and not holders.is_weak(value):
            return self.outside.share(value) if type(value) in (list, dict, set) else value
        if holders.is_fixed(value):
            self._keep(value, value)  # of a tuple that holds itself, by way of a list
            copy = self._keep(value, holders.again(value, map(self.value, value)))
            self.done[id(copy)] = copy
            return copy
        copy = self._keep(value, holders.empty(value, self.value))
        self.done[id(copy)] = copy
        self.outside.copies.append(holders.fill(copy, value, self.value))
        return copy

    def _is_rebuilt(self, value: Any, depth: int = DEPTH) -> bool:
        """Whether a table entry is, or holds, something to rebuild or to watch."""
        if type(value) is np.ndarray:
            return not value.dtype.hasobject
        if holders.is_holder(value):
            return depth > 0 and any(self._is_rebuilt(part, depth - 1) for part in holders.held(value))
        if isinstance(value, FunctionType):
            return not self.spaces.has(value)
        if draws(value) or goes_on(value) or isinstance(value, ref) or type(value) is np.ufunc:
            return True
        if id(value) in self._python:
            return True
        is_code = isinstance(value, (MethodType, partial, LRU_CACHE)) or jitted(value) is not None
        return is_code or is_users_object(value) or is_users_class(value)

    def _module(self, module: ModuleType) -> Any:
        """One stand-in for each module, whatever it is reached by: ``xp is np`` holds as it does outside."""
        if id(module) not in self.done:
            self._keep(module, self._module_stand_in(module))
        return self.done[id(module)]

    def _module_stand_in(self, module: ModuleType) -> Any:
        if module is math:
            return MathStandIn(self.trace)
        if module is random:
            return Namespace(self.trace, module, "random.")
        root, _, rest = module.__name__.partition(".")
        if root == "random" or rest == "random":
            return RandomStandIn(module.__name__)
        if is_spelled_in_numpy(module.__name__):
            return UsersModule(self, module)
        if root not in MODULES:
            is_own = is_users(module.__name__, getattr(module, "__file__", None))
            return UsersModule(self, module) if is_own else self._bare(module)
        return Namespace(self.trace, module, f"{rest}." if root == "numpy" and rest else "", self.value)

    # ------------------------------------------------------------------------------------------ functions
    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(function, partial):
            given = (self._given(value) for value in function.args)
            named = {name: self._given(value) for name, value in function.keywords.items()}
            return partial(self.function(function.func), *given, **named)
        if isinstance(function, MethodType):
            holder = self.value(function.__self__)
            if isinstance(holder, RandomStandIn):  # from random import gauss
                return getattr(holder, function.__name__)  # type: ignore[no-any-return]
            return MethodType(self.function(function.__func__), holder)
        if not isinstance(function, FunctionType):
            return function if isinstance(function, type) else self.value(function)
        if self.spaces.has(function):
            return function  # rebuilt, or defined by what is
        if id(function) not in self.done and is_generic(function):
            self._keep(function, Generic(function, self.value))
        elif id(function) not in self.done:
            self._rebuild(function)
        return self.done[id(function)]  # type: ignore[no-any-return]

    def _cached(self, function: Any) -> CachedFunction:
        if id(function) not in self.done:
            self._bare(function)  # runs as it is
            rebuilt = self.function(function.__wrapped__)
            self._keep(function, CachedFunction(function, rebuilt, self._outside_of_trace, self.value))
        return self.done[id(function)]  # type: ignore[no-any-return]

    def _library(self, function: FunctionType) -> Callable[..., Any]:
        """A function of `polyfuse.nn` or `numpy.polynomial`: to the user one operation, with the user's line in errors
        and for its result.  NumPy's are themselves for real values."""
        rebuilt = partial(self.trace.run, self.function(INSTEAD.get(function, function)))

        def call(*args: Any, **kwargs: Any) -> Any:
            is_real = not any(True for _ in traces_in((*args, *kwargs.values())))
            return applied(function, args, kwargs, self.trace.read) if is_real else rebuilt(*args, **kwargs)

        return wraps(function)(call if function.__module__.startswith("numpy.") else rebuilt)

    def _inlined(self, jitted: Any, inner: Any) -> Any:
        if isinstance(inner, MethodType):  # of which every access makes one
            return Inlined(self.function(inner))
        if id(jitted) not in self.done:
            self._keep(jitted, Inlined(self.function(inner)))
        return self.done[id(jitted)]

    def _rebuild(self, function: FunctionType) -> None:
        names = self.spaces.of(function, self._builtins)
        cells = self.spaces.cells(function)
        copy = FunctionType(function.__code__, names, function.__name__, None, cells or None)
        self._keep(function, copy)
        named = function.__kwdefaults__
        copy.__defaults__ = function.__defaults__ and tuple(map(self._given, function.__defaults__))
        copy.__kwdefaults__ = named and {name: self._given(value) for name, value in named.items()}
        copy.__dict__ = self._given(function.__dict__)  # attributes that it keeps on itself, read and written
        self.spaces.fill(function, self.value)
        if not _BUFFERS.isdisjoint(function.__code__.co_names):
            self.outside.blind()

    def _given(self, value: Any) -> Any:
        """A default or an argument that was applied before: containers only where they hold arrays."""
        if not holders.is_holder(value) or holds_array(value):
            return self.value(value)
        return self.outside.share(value) if type(value) in (dict, list, set) else value

    def write_back(self) -> None:
        """What the user's code bound anew in globals and closures, as it would have without a trace."""
        self.spaces.write_back(self.restored)

    def end(self) -> None:
        """Change containers as the user's code has changed their copies, also before it failed, and leave nothing of
        the trace's in what is the user's own.  What it has printed is written."""
        for copied in self.outside.copies:
            copied.write_back(self.restored)
        self.outside.sweep(self.restored)
        self.printed.write()

    def restored(self, value: Any) -> Any:
        """A value as it is without the trace: stand-ins are what they stand for, in new lists and dictionaries too."""
        return restored(value, self._originals)

    def original(self, value: Any) -> Any:
        """What `value` stands for; what stands for nothing is its own."""
        if issubclass(type(value), (Instead, Library)):  # which call themselves of other classes
            return value.original
        return self._originals.get(id(value), value)

    @cached_property
    def _python(self) -> dict[int, Builtin]:
        """What stands in for functions of Python's own, by their identity: one for each, wherever it is found."""
        known = vars(builtins)
        made = python_builtins.stand_ins(known, self.named, self.original, self.printed)
        return {id(known[name]): Builtin(known[name], function) for name, function in made.items()}

    def _builtins(self, names: dict[str, Any]) -> dict[str, Any]:
        """Builtins that know sizes, numbers and arrays of the trace, and imports that give stand-ins."""
        original = names.get("__builtins__", builtins)
        found = dict(original if isinstance(original, dict) else vars(original))
        importer = found.get("__import__")
        if importer is None:  # generated code, such as that of named tuples, which uses none
            return found
        for name, function in python_builtins.stand_ins(found, self.named, self.original, self.printed).items():
            found[name] = self._python.get(id(found[name])) or Builtin(found[name], function)
        found["__import__"] = lambda *args, **kwargs: self.value(importer(*args, **kwargs))
        return found

    def _lasting(self, instance: Any) -> Any:
        """The object that lasts when the trace is done; None for one that was made or copied for it, or holds of it."""
        original = self.original(instance)
        is_lasting = original is not instance and id(original) not in self.passed and not holds_traced(original)
        return original if is_lasting else None

    def _outside_of_trace(self, value: Any) -> tuple[Any, ...]:
        """A value as it is without the trace; nothing of one that is of it, or was made or copied for it."""
        if holds_traced(value) or id(value) in self.passed:
            return ()
        if stands_in(type(value)):
            lasting = self._lasting(value)
            return () if lasting is None else (lasting,)
        return (self.restored(value),)

    # ------------------------------------------------------------------------------------------ objects
    def instance(self, value: Any) -> Any:
        """An object with the same attributes and rebuilt methods; `value` itself where its class cannot be derived."""
        if id(value) in self.done:
            return self.done[id(value)]
        kind = self.derived(type(value))
        if id(value) in self.done:  # the methods of its class find it, in tables of objects
            return self.done[id(value)]
        try:
            copy: Any = object.__new__(kind)
            if hasattr(value, "__dict__"):
                object.__setattr__(copy, "__dict__", self.outside.share(vars(value)))
            self.outside.copies.append(holders.Slots.of(value, copy))
            if isinstance(type(value).__getattribute__, FunctionType):
                self.outside.expose(value)  # of which it takes what is there by way of `object`
        except TypeError:
            copy = value
            self.outside.expose(value)
        return self._keep(value, copy)

    def derived(self, original: type) -> type:
        """The class that stands in for one of the user's; `original` itself where it cannot be derived."""
        if id(original) in self.done:
            return self.done[id(original)]  # type: ignore[no-any-return]
        bases = {kind: self.derived(kind) for kind in original.__mro__[1:] if is_users_class(kind)}

        look_up: Callable[[Any, str], Any] = object.__getattribute__

        def attribute(instance: Any, name: str) -> Any:
            found = look_up(instance, name)
            if name == "__dict__":
                self.outside.expose(found)  # in which arrays are not watched
                self.named |= {key: set() for key in found.keys() - self.named.keys()}
            if name.startswith("__"):
                return found
            self.named.setdefault(name, set())  # which a descriptor of a library may have computed
            return self.value(found)

        try:
            derived: type = self._keep(original, stand_in(original, bases, attribute, self.of_class, self.original))
        except TypeError:
            return self._keep(original, original)  # type: ignore[no-any-return]
        if isinstance(of_users := original.__getattribute__, FunctionType):
            look_up = self.function(of_users)
        fill(derived, original, self._attribute)
        return derived

    def of_class(self, found: Any) -> Any:
        """What stands in for an attribute of a class that is found by way of the class."""
        is_code = isinstance(found, (FunctionType, BuiltinFunctionType, ModuleType, partial, np.ufunc, type))
        is_other = type(found) is np.ndarray or holders.is_holder(found) or is_users_object(found)
        return self.value(found) if is_code or is_other or jitted(found) is not None else found

    def _attribute(self, attribute: Any) -> Any:
        """A rebuilt method or property, or a watched array; what is none stays."""
        if type(attribute) is np.ndarray or (holders.is_holder(attribute) and holds_array(attribute)):
            return self.value(attribute)
        if isinstance(attribute, FunctionType):
            return self.function(attribute)
        if isinstance(attribute, staticmethod) and is_spelled_in_numpy(attribute.__func__.__module__):
            return staticmethod(self.value(attribute.__func__))
        if isinstance(attribute, (staticmethod, classmethod)):
            return type(attribute)(self.function(attribute.__func__))
        if isinstance(attribute, property) and attribute.fget is not None:
            setter = attribute.fset and self.function(attribute.fset)
            return property(self.function(attribute.fget), setter, attribute.fdel)
        if isinstance(attribute, cached_property):
            return CachedProperty(attribute, self.function(attribute.func), self._lasting)
        if isinstance(attribute, singledispatchmethod):
            return GenericMethod(attribute, self._attribute)
        if isinstance(attribute, LRU_CACHE):
            return self.value(attribute)
        if hasattr(type(attribute), "__get__") and is_users_object(attribute):
            return self.instance(attribute)
        return attribute


class UsersModule:
    """A module of the user's, with rebuilt functions."""

    def __init__(self, rebinder: Rebinder, module: ModuleType) -> None:
        self._rebinder, self._module = rebinder, module

    def __getattr__(self, name: str) -> Any:
        return self._rebinder.value(getattr(self._module, name))
