"""What exported programs for a CPU and for CUDA do alike: this module's text is part of every exported file."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np


def as_number(value: Any, name: str, dtype: str) -> Any:
    """A scalar argument as a Python number; of an array the address would be passed.  Raises TypeError."""
    number = value.item() if isinstance(value, np.ndarray | np.generic) and not value.ndim else value
    allowed = (bool, int, float) if np.dtype(dtype).kind == "f" else (bool, int)
    if not isinstance(number, allowed):
        raise TypeError(f"{name} is {value!r}, and takes {'a number' if float in allowed else 'an integer'}")
    return number


def in_language(function: Callable[..., None], names: dict[str, Any]) -> Callable[..., None]:
    """The kernel with the fragment language as its globals, beside the constants of its own file."""
    theirs = function.__globals__
    own = {n: theirs[n] for n in function.__code__.co_names if n in theirs and n not in names}
    return FunctionType(function.__code__, {**names, **own}, function.__name__)
