"""What instances of users' classes have besides their items or fields: of it, what a call can pass.

    class Table(list): ...          t.scale = 2.0       passed, as the items are
                                    t.lock = Lock()     not passed: using it is an error
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Collection
from typing import Any

import numpy as np

_PLAIN = (list, tuple, dict, type(None))
_CONSTANT = (
    *(str, bytes, bool, float, type(None), type, enum.Enum, np.dtype, np.ufunc, range),
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type(np.sum)),
)
_INTEGERS = range(-(1 << 63), 1 << 63)
_DEEP = 4  # containers in each other


def further_attributes(value: Any, fields: Collection[str] = ()) -> dict[str, Any]:
    """What an instance has besides its items, or its `fields`, that a call can pass, by name."""
    if type(value) in _PLAIN:
        return {}
    own = getattr(value, "__dict__", None) or {}
    return {name: held for name, held in own.items() if name not in fields and is_passed(held)}


def others(value: Any, fields: Collection[str] = ()) -> dict[str, Any]:
    """And what it cannot."""
    if type(value) in _PLAIN:
        return {}
    own = getattr(value, "__dict__", None) or {}
    return {name: held for name, held in own.items() if name not in fields and not is_passed(held)}


def is_passed(held: Any, deep: int = _DEEP) -> bool:
    """Whether a call can pass this: an array, a number, a constant of a program, or containers of these."""
    if isinstance(held, _CONSTANT) or (type(held) is int and held in _INTEGERS):
        return True
    if type(held) in (list, tuple):
        return deep > 0 and all(is_passed(item, deep - 1) for item in held)
    if type(held) is dict:
        return deep > 0 and all(is_passed(item, deep - 1) for item in held.values())
    if type(held) is np.ndarray or isinstance(held, np.generic):
        return held.dtype.kind in "biuf" and held.dtype.itemsize <= 8
    if type(held).__module__.partition(".")[0] == "polyfuse" or hasattr(held, "__dlpack__"):
        return not isinstance(held, np.ndarray)
    inside = getattr(held, "__dict__", None)
    if not dataclasses.is_dataclass(held) or inside is None or deep == 0:
        return False
    return all(is_passed(item, deep - 1) for item in inside.values())
