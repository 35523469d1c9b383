"""``x.at[index].add(value)``: updates that give a changed copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyfuse.frontends.numpy_like.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Updater:
    """``x.at`` and ``x.at[index]``."""

    array: Tracer
    index: Any

    def __getitem__(self, index: Any) -> Updater:
        return Updater(self.array, index)

    def _update(self, name: str, value: Any, bounds: str | None) -> Tracer:
        return self.array.state.call("update", self.array, self.index, name, value, bounds)  # type: ignore[no-any-return]

    def set(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("set", value, bounds)

    def add(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("add", value, bounds)

    def subtract(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("subtract", value, bounds)

    def multiply(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("multiply", value, bounds)

    def divide(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("divide", value, bounds)

    def min(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("minimum", value, bounds)

    def max(self, value: Any, *, bounds: str | None = None) -> Tracer:
        return self._update("maximum", value, bounds)

    mul = multiply

    def get(self) -> Tracer:
        return self.array[self.index]
