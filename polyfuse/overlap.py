"""Whether NumPy arrays share elements."""

from __future__ import annotations

from typing import Any

import numpy as np

_WORK = 1000  # candidates of NumPy's search, some microseconds


def share_elements(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have an element in common, or may have one where that is hard to say."""
    try:
        return bool(np.shares_memory(a, b, max_work=_WORK))  # type: ignore[arg-type]  # any number is taken
    except np.exceptions.TooHardError:
        return True
