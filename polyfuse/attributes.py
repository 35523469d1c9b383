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

from polyfuse.errors import TraceError

_PLAIN = (list, tuple, dict, type(None))
_CONSTANT = (
    *(str, bytes, bool, float, type(None), type, enum.Enum, np.dtype, np.ufunc, range),
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type(np.sum)),
)
_INTEGERS = range(-(1 << 63), 1 << 63)
_DEEP = 4  # containers in each other


class NotPassed:
    """Stands for an attribute that a call cannot pass while the function is traced."""

    def __init__(self, path: str, held: Any) -> None:
        self.__dict__.update(path=path, held=held, is_argument=False)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TraceError(
            f"{self.path} is a {type(self.held).__name__}, neither an array, a number nor a container of them",
            advice="Pass it as an argument of its own that is declared static, or what of it is needed as numbers.",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __call__ = __len__ = __iter__ = __getitem__ = __bool__ = __contains__ = __setattr__ = __enter__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __pow__ = _refuse


def further_attributes(value: Any, fields: Collection[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an instance has besides its items, or its `fields`, by name: what a call can pass, and what it cannot."""
    passed, others = dict[str, Any](), dict[str, Any]()
    if type(value) not in _PLAIN:
        for name, held in (getattr(value, "__dict__", None) or {}).items():
            if name not in fields:
                (passed if is_passed(held) else others)[name] = held
    return passed, others


def is_dtype_of_torch(value: Any) -> bool:
    """Whether `value` is a dtype as `torch.float32`, told without importing torch."""
    return (type(value).__module__, type(value).__name__) == ("torch", "dtype")


def is_passed(held: Any, deep: int = _DEEP) -> bool:
    """Whether a call can pass this: an array, a number, a constant of a program, or containers of these."""
    if isinstance(held, NotPassed):
        return False
    if isinstance(held, _CONSTANT) or (type(held) is int and held in _INTEGERS) or is_dtype_of_torch(held):
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
