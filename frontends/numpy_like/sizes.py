"""Symbolic sizes as the user's code sees them: ``x.shape[0]``, ``len(x)``, ``x.size``.

Sums and multiples stay affine; products stay factored (no isl expression, but good for ``reshape(M * N)`` and for
``/ x.size``).  Comparisons decide by hint and leave a guard.  Anything else becomes a weakly typed runtime scalar, or,
where Python insists on an integer, fixes the size (with a guard).
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Union

import numpy as np

from polyfuse.affine import ONE, Affine
from polyfuse.frontends.numpy_like.state import Trace

Size = Union[int, "SymbolicSize"]


def _split(size: Affine) -> tuple[int, Affine]:
    """``size = content * primitive``."""
    content = gcd(size.constant, *(factor for _, factor in size.terms))
    if content <= 1:
        return 1, size
    return content, Affine(tuple((a, f // content) for a, f in size.terms), size.constant // content)


def normal_factors(factors: tuple[Affine, ...]) -> tuple[int, tuple[Affine, ...]]:
    """A product as an integer and primitive symbolic factors in a canonical order."""
    number = 1
    symbolic = []
    for factor in factors:
        content, rest = _split(factor)
        number *= content
        if rest.is_constant:
            number *= rest.constant
        else:
            symbolic.append(rest)
    if number == 0:
        return 0, ()
    return number, tuple(sorted(symbolic, key=str))


class SymbolicSize:
    """A positive integer that is known at the call only: a product of affine expressions of size symbols."""

    __slots__ = ("factors", "state")
    is_leaf = True

    def __init__(self, trace: Trace, factors: tuple[Affine, ...]) -> None:
        number, symbolic = normal_factors(factors)
        self.state = trace
        self.factors = (symbolic[0] * number, *symbolic[1:]) if symbolic else (Affine.of(number),)

    @property
    def affine(self) -> Affine | None:
        """The size as an affine expression, or None for a product of symbols."""
        return self.factors[0] if len(self.factors) == 1 else None

    @property
    def hint(self) -> int:
        value = 1
        for factor in self.factors:
            value *= self.state.hint(factor)
        return value

    # ------------------------------------------------------------------------------------------ arithmetic
    def _linear(self, name: str, other: Any, combine: Callable[[Affine, Affine], Affine], swap: bool = False) -> Any:
        a, b = self.affine, affine_of(other)
        if a is not None and b is not None:
            return size_of(self.state, combine(b, a) if swap else combine(a, b))
        return self._scalar(name, other, swap)

    def _scalar(self, name: str, other: Any, swap: bool = False) -> Any:
        """The runtime scalar ``self (op) other``: a number of Python's, or of NumPy's with one of those (which
        `np.float64` is, although it is a `float` as well)."""
        if not isinstance(other, (bool, int, float, SymbolicSize, np.generic)):
            return NotImplemented
        left, right = (other, self) if swap else (self, other)
        if isinstance(other, np.generic):
            return self.state.call(name, left, right)
        return self.state.call("weak", name, left, right)

    def __add__(self, other: Any) -> Any:
        return self._linear("add", other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._linear("add", other, lambda a, b: a + b, swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._linear("subtract", other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._linear("subtract", other, lambda a, b: a - b, swap=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SymbolicSize):
            return size_of(self.state, *self.factors, *other.factors)
        if is_integer(other):
            return size_of(self.state, *self.factors, Affine.of(int(other)))
        return self._scalar("multiply", other)

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)

    def __floordiv__(self, other: Any) -> Any:
        exact = quotient(self.factors, factors_of(other)) if isinstance(other, (int, SymbolicSize)) else None
        if exact is not None:
            return size_of(self.state, *exact)
        if self.affine is not None and is_integer(other) and other > 0:
            return size_of(self.state, self.affine // int(other))
        return self._scalar("floor_divide", other)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, (int, SymbolicSize)) and quotient(self.factors, factors_of(other)) is not None:
            return 0
        if self.affine is not None and is_integer(other) and other > 0:
            return size_of(self.state, self.affine % int(other))
        return self._scalar("remainder", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._scalar("floor_divide", other, swap=True)

    def __rmod__(self, other: Any) -> Any:
        return self._scalar("remainder", other, swap=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        return self._scalar("divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._scalar("divide", other, swap=True)

    def __pow__(self, other: Any) -> Any:
        if is_integer(other) and 0 <= other <= 8:
            return size_of(self.state, ONE, *(self.factors * int(other)))
        return self._scalar("power", other)

    def __rpow__(self, other: Any) -> Any:
        return self._scalar("power", other, swap=True)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> SymbolicSize:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # ------------------------------------------------------------------------------------------ comparisons
    def _at_least(self, other: Any, extra: int) -> bool:
        """``self >= other + extra``."""
        a, b = self.affine, affine_of(other)
        if a is not None and b is not None:
            return self.state.run(self.state.decide, a - b - extra)
        if is_integer(other):
            return self.state.decide_volume(self.factors, int(other) + extra - 1)
        return self.hint >= _number(other) + extra

    def __ge__(self, other: Any) -> bool:
        return self._at_least(other, 0)

    def __gt__(self, other: Any) -> bool:
        return self._at_least(other, 1)

    def __lt__(self, other: Any) -> bool:
        return not self._at_least(other, 0)

    def __le__(self, other: Any) -> bool:
        return not self._at_least(other, 1)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, (int, SymbolicSize, np.integer)):
            return False
        a, b = self.affine, affine_of(other)
        if a is not None and b is not None:
            return self.state.run(self.state.compare, a, b)
        if normal_factors(self.factors) == normal_factors(factors_of(other)):
            return True
        return int(self) == int(other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.factors)

    def __bool__(self) -> bool:
        return self != 0

    # ------------------------------------------------------------------------------------------ as a number
    def __index__(self) -> int:
        """The size as an integer, fixed by a guard."""
        value = 1
        for factor in self.factors:
            value *= self.state.run(self.state.fixed, factor)
        return value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.state.call("ufunc", ufunc, method, inputs, kwargs)

    def __repr__(self) -> str:
        return "*".join(f"({f})" if len(self.factors) > 1 and len(f.terms) > 1 else str(f) for f in self.factors)


def _number(value: Any) -> float:
    return value.hint if isinstance(value, SymbolicSize) else float(value)


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def size_of(trace: Trace, *factors: Affine) -> Size:
    """The product as the user sees it: an int when it is constant."""
    size = SymbolicSize(trace, factors)
    constant = size.affine
    return constant.constant if constant is not None and constant.is_constant else size


def affine_of(value: Any) -> Affine | None:
    """A size as an affine expression; None for products of symbols and for what is no size."""
    if isinstance(value, SymbolicSize):
        return value.affine
    return Affine.of(int(value)) if isinstance(value, (int, np.integer)) else None


def factors_of(value: Any) -> tuple[Affine, ...]:
    return value.factors if isinstance(value, SymbolicSize) else (Affine.of(int(value)),)


def quotient(numerator: tuple[Affine, ...], denominator: tuple[Affine, ...]) -> tuple[Affine, ...] | None:
    """The exact quotient of two products as factors, or None."""
    number, symbolic = normal_factors(numerator)
    divisor, cancelled = normal_factors(denominator)
    rest = list(symbolic)
    for factor in cancelled:
        if factor not in rest:
            return None
        rest.remove(factor)
    if divisor == 0 or number % divisor:
        return None
    return (Affine.of(number // divisor), *rest)
