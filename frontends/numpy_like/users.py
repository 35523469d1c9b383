"""What a value that the function finds is: the user's own, of a library, or something with a state that none sees."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like import holders
from polyfuse.frontends.numpy_like.classes import can_stand_in
from polyfuse.frontends.numpy_like.third_party import is_installed, is_third_party
from polyfuse.installed import is_users

LRU_CACHE = type(lru_cache(len))
MODULES = ("numpy", "polyfuse")
DEPTH = 8  # of containers in containers that are looked into
_ITERATING = frozenset(("builtins", "itertools", "_collections", "_csv", "numpy"))


def draws(value: Any) -> bool:
    """A generator of random numbers."""
    return type(value).__module__.removeprefix("numpy.").partition(".")[0] == "random"


def goes_on(value: Any) -> bool:
    """An iterator that has a state which Python code does not see."""
    return isinstance(value, Iterator) and type(value).__module__ in _ITERATING


def is_spelled_in_numpy(module: str | None) -> bool:
    """Modules of polyfuse and of NumPy that are traced like the user's code."""
    return (module or "").startswith(("polyfuse.nn", "numpy.polynomial"))


def is_of_library(value: Any, kind: type) -> bool:
    """Whether a value is of an installed package: `kind`, its class or itself, or what it calls itself."""
    if isinstance(value, FunctionType) and is_installed(value.__code__.co_filename):
        return (value.__module__ or "").partition(".")[0] not in MODULES
    if isinstance(value, ModuleType):
        return is_third_party(value.__name__)
    return is_third_party(kind.__module__) or (callable(value) and is_third_party(getattr(value, "__module__", None)))


def run_by(value: Any, kind: type) -> list[FunctionType]:
    """Functions of the user's that run as they are: behind what wraps them, or in a class that cannot be derived."""
    inner = vars(value).get("__wrapped__") if hasattr(value, "__dict__") and not isinstance(value, type) else None
    bases = [base for base in kind.__mro__ if base.__module__ != "builtins"]
    found = [inner, *(part for base in bases for part in vars(base).values())]
    return [f for f in found if isinstance(f, FunctionType) and is_users_function(f)]


def is_users_function(function: FunctionType) -> bool:
    return is_users(function.__module__ or "", function.__code__.co_filename)


def holds_array(value: Any, depth: int = DEPTH) -> bool:
    """Whether a container, or one in it, holds an array."""
    if type(value) is np.ndarray:
        return not value.dtype.hasobject
    return depth > 0 and holders.is_holder(value) and any(holds_array(part, depth - 1) for part in holders.held(value))


def jitted(value: Any) -> FunctionType | MethodType | None:
    """The function of a jitted function or method; None for anything else."""
    inner = getattr(value, "__wrapped__", None) if type(value).__module__.startswith("polyfuse.") else None
    return inner if isinstance(inner, (FunctionType, MethodType)) else None


def is_users_object(value: Any) -> bool:
    """An instance of a class that the user wrote in Python."""
    kind = type(value)
    if isinstance(value, (type, BaseException, tuple, list, dict, np.ndarray)):
        return False
    holds = hasattr(value, "__dict__") or bool(holders.slots_of(value))
    return holds and is_users_class(kind) and not hasattr(kind, "__array__")


def is_users_class(kind: Any) -> bool:
    """A class that the user wrote in Python, and that nothing stands in for yet."""
    if not can_stand_in(kind):
        return False
    module = sys.modules.get(kind.__module__)
    return is_spelled_in_numpy(kind.__module__) or is_users(kind.__module__, getattr(module, "__file__", None))
