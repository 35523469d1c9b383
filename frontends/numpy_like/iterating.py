"""Iterators in traced code."""

from __future__ import annotations

from typing import Any

from polyfuse.errors import TraceError
from polyfuse.frontends.numpy_like.state import Trace, located


class Iterating:
    """An iterator that the function finds outside: it would give its next value when the function is traced only."""

    def __init__(self, trace: Trace, iterator: Any) -> None:
        self._trace, self._iterator = trace, iterator

    def __iter__(self) -> Iterating:
        return self

    def __next__(self) -> Any:
        raise located(
            TraceError(
                f"the {type(self._iterator).__name__} is read when the function is traced, and not at every call",
                advice="Take its next value outside, and pass it as an argument.",
            )
        )
