"""Python's operators in terms of three methods: binary, in place, unary."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from polyfuse.errors import PolyfuseError, UnsupportedError
from polyfuse.frontends.numpy_like.state import located

Result = TypeVar("Result")


def no_modulus() -> PolyfuseError:
    """The error for ``pow(x, y, m)``."""
    return located(
        UnsupportedError(
            "pow() with a modulus needs Python integers that are known while the function is traced",
            advice="Compute it before the call, or step by step: r = r * x % m.",
        )
    )


class Operators(Generic[Result]):
    """Operators by the names of NumPy's functions."""

    __slots__ = ()

    @abstractmethod
    def _binary(self, name: str, other: Any, swap: bool = False) -> Result:
        """``self (name) other``, or with the operands swapped."""

    @abstractmethod
    def _in_place(self, name: str, other: Any) -> Result: ...

    @abstractmethod
    def _unary(self, name: str) -> Result: ...

    @abstractmethod
    def _call(self, name: str, *values: Any) -> Any: ...

    def __neg__(self) -> Result:
        return self._unary("negative")

    def __pos__(self) -> Result:
        return self._unary("positive")

    def __abs__(self) -> Result:
        return self._unary("absolute")

    def __invert__(self) -> Result:
        return self._unary("invert")

    def __divmod__(self, other: Any) -> Any:
        if getattr(self, "weak", None):  # numbers of Python stay such
            return self // other, self % other
        return self._call("divmod", self, other)

    def __rdivmod__(self, other: Any) -> Any:
        if getattr(self, "weak", None):
            return other // self, other % self
        return self._call("divmod", other, self)

    def __round__(self, digits: int | None = None) -> Any:
        """``round(x)`` of a number is an integer, in Python as in NumPy; decimals of Python's own numbers are those of
        their digits, which are known."""
        exact = getattr(self, "exact_value", None) if digits is not None else None
        if exact is not None:
            return round(exact, digits)
        rounded = self._call("round", self, digits or 0)
        if digits is None and not getattr(self, "ndim", 1):
            rounded = self._call("astype", rounded, np.int64)
        return self._call("as_python", rounded) if getattr(self, "weak", None) else rounded

    def __eq__(self, other: Any) -> Result:  # type: ignore[override]
        return self._binary("equal", other)

    def __ne__(self, other: Any) -> Result:  # type: ignore[override]
        return self._binary("not_equal", other)

    def __lt__(self, other: Any) -> Result:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Result:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Result:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Result:
        return self._binary("greater_equal", other)

    def __add__(self, other: Any) -> Result:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Result:
        return self._binary("add", other, swap=True)

    def __iadd__(self, other: Any) -> Result:
        return self._in_place("add", other)

    def __sub__(self, other: Any) -> Result:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Result:
        return self._binary("subtract", other, swap=True)

    def __isub__(self, other: Any) -> Result:
        return self._in_place("subtract", other)

    def __mul__(self, other: Any) -> Result:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Result:
        return self._binary("multiply", other, swap=True)

    def __imul__(self, other: Any) -> Result:
        return self._in_place("multiply", other)

    def __truediv__(self, other: Any) -> Result:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Result:
        return self._binary("divide", other, swap=True)

    def __itruediv__(self, other: Any) -> Result:
        return self._in_place("divide", other)

    def __floordiv__(self, other: Any) -> Result:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Result:
        return self._binary("floor_divide", other, swap=True)

    def __ifloordiv__(self, other: Any) -> Result:
        return self._in_place("floor_divide", other)

    def __mod__(self, other: Any) -> Result:
        return self._binary("remainder", other)

    def __rmod__(self, other: Any) -> Result:
        return self._binary("remainder", other, swap=True)

    def __imod__(self, other: Any) -> Result:
        return self._in_place("remainder", other)

    def __pow__(self, other: Any, modulus: Any = None) -> Result:
        if modulus is not None:
            raise no_modulus()
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Result:
        return self._binary("pow", other, swap=True)

    def __ipow__(self, other: Any, modulus: Any = None) -> Result:
        return self._in_place("pow", other)

    def __matmul__(self, other: Any) -> Result:
        return self._binary("matmul", other)

    def __rmatmul__(self, other: Any) -> Result:
        return self._binary("matmul", other, swap=True)

    def __imatmul__(self, other: Any) -> Result:
        return self._in_place("matmul", other)

    def __and__(self, other: Any) -> Result:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: Any) -> Result:
        return self._binary("bitwise_and", other, swap=True)

    def __iand__(self, other: Any) -> Result:
        return self._in_place("bitwise_and", other)

    def __or__(self, other: Any) -> Result:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: Any) -> Result:
        return self._binary("bitwise_or", other, swap=True)

    def __ior__(self, other: Any) -> Result:
        return self._in_place("bitwise_or", other)

    def __xor__(self, other: Any) -> Result:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: Any) -> Result:
        return self._binary("bitwise_xor", other, swap=True)

    def __ixor__(self, other: Any) -> Result:
        return self._in_place("bitwise_xor", other)

    def __lshift__(self, other: Any) -> Result:
        return self._binary("left_shift", other)

    def __rlshift__(self, other: Any) -> Result:
        return self._binary("left_shift", other, swap=True)

    def __ilshift__(self, other: Any) -> Result:
        return self._in_place("left_shift", other)

    def __rshift__(self, other: Any) -> Result:
        return self._binary("right_shift", other)

    def __rrshift__(self, other: Any) -> Result:
        return self._binary("right_shift", other, swap=True)

    def __irshift__(self, other: Any) -> Result:
        return self._in_place("right_shift", other)
