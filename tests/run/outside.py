"""Functions that find a value of 3 outside of their arguments, which then changes: a call sees it as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]
Change = Callable[[], Any]
Place = Callable[[], tuple[Callable[..., Any], Change]]
"""Makes a function and what changes the value that it finds."""
X = np.ones(3)


def assert_seen(jit: Jit, place: Place) -> None:
    """A change is seen by the next call, and what stays as it is is no other trace."""
    function, change = place()
    f = jit(function)
    assert np.array_equal(f(X), function(X)) and function(X)[0] == 3
    traces = f.cache_info().traces
    assert np.array_equal(f(X), 3 * X) and f.cache_info().traces == traces
    change()
    assert function(X)[0] > 3 and np.array_equal(f(X), function(X))
