"""Symbolic sizes as the user's code sees them: ``x.shape[0]``, ``len(x)``, ``x.size``.

Sums and multiples stay affine; products stay factored (no isl expression, but good for ``reshape(M * N)`` and for
``/ x.size``).  Comparisons decide by hint and leave a guard.  Anything else becomes a weakly typed runtime scalar, or,
where Python insists on an integer, fixes the size (with a guard).
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, gcd, isfinite, isnan
from typing import Any, Union

import numpy as np

from polyfuse.affine import ONE, Affine
from polyfuse.errors import DivisionError
from polyfuse.frontends.numpy_like.operators import no_modulus
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
    """A positive integer that is known at the call only: a product of affine expressions of size symbols.

    `is_numpy`: an `np.int64`, as Python's integers become beside one, and not a Python integer, which takes the dtype
    of whatever it meets.
    """

    __slots__ = ("factors", "is_numpy", "state")
    is_leaf = True

    def __init__(self, trace: Trace, factors: tuple[Affine, ...], *, is_numpy: bool = False) -> None:
        number, symbolic = normal_factors(factors)
        self.state, self.is_numpy = trace, is_numpy
        self.factors = (symbolic[0] * number, *symbolic[1:]) if symbolic else (Affine.of(number),)

    @property
    def affine(self) -> Affine | None:
        """The size as an affine expression, or None for a product of symbols."""
        return self.factors[0] if len(self.factors) == 1 else None

    # ------------------------------------------------------------------------------------------ arithmetic
    def _check_divisor(self, number: Any, divisor: Any) -> None:
        self.state.run(check_divisor, self.state, number, divisor)

    def _linear(self, name: str, other: Any, combine: Callable[[Affine, Affine], Affine], swap: bool = False) -> Any:
        a, b = self.affine, affine_of(other) if is_operand(other) else None
        if a is not None and b is not None:
            return self._size(other, combine(b, a) if swap else combine(a, b))
        return self._scalar(name, other, swap)

    def _size(self, other: Any, *factors: Affine) -> Any:
        """What is computed of this size and another integer."""
        is_numpy = self.is_numpy or isinstance(other, np.int64) or (isinstance(other, SymbolicSize) and other.is_numpy)
        return size_of(self.state, *factors, is_numpy=is_numpy)

    def _scalar(self, name: str, other: Any, swap: bool = False) -> Any:
        """The runtime scalar ``self (op) other``: a number of Python's, or of NumPy's with one of those (which
        `np.float64` is, although it is a `float` as well)."""
        if not isinstance(other, (bool, int, float, SymbolicSize, np.generic)):
            return NotImplemented
        left, right = (other, self) if swap else (self, other)
        if name in _DIVISIONS:
            self._check_divisor(left, right)
        if self.is_numpy or isinstance(other, np.generic) or (isinstance(other, SymbolicSize) and other.is_numpy):
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
            return self._size(other, *self.factors, *other.factors)
        if is_exact(other):
            return self._size(other, *self.factors, Affine.of(int(other)))
        return self._scalar("multiply", other)

    def __rmul__(self, other: Any) -> Any:
        return self.__mul__(other)

    def __floordiv__(self, other: Any) -> Any:
        exact = quotient(self.factors, factors_of(other)) if isinstance(other, (int, SymbolicSize)) else None
        if exact is not None:
            self._check_divisor(self, other)
            return self._size(other, *exact)
        if self.affine is not None and is_exact(other) and other > 0:
            return self._size(other, self.affine // int(other))
        return self._scalar("floor_divide", other)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, (int, SymbolicSize)) and quotient(self.factors, factors_of(other)) is not None:
            self._check_divisor(self, other)
            return self._size(other, Affine.of(0))
        if self.affine is not None and is_exact(other) and other > 0:
            return self._size(other, self.affine % int(other))
        return self._scalar("remainder", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._scalar("floor_divide", other, swap=True)

    def __rmod__(self, other: Any) -> Any:
        return self._scalar("remainder", other, swap=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __truediv__(self, other: Any) -> Any:
        return self._scalar("divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._scalar("divide", other, swap=True)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            raise no_modulus()
        if is_exact(other) and 0 <= other <= 8:
            return self._size(other, ONE, *(self.factors * int(other)))
        if isinstance(other, int) and other < 0 and not self.is_numpy:
            other = float(other)  # as Python computes it
        return self._scalar("power", other)

    def __rpow__(self, other: Any) -> Any:
        if isinstance(other, int) and not self.is_numpy and not self >= 0:
            other = float(other)
        return self._scalar("power", other, swap=True)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> SymbolicSize:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else self._scalar("round", digits)

    # ------------------------------------------------------------------------------------------ bits
    def __and__(self, other: Any) -> Any:
        return self._scalar("bitwise_and", other)

    def __or__(self, other: Any) -> Any:
        return self._scalar("bitwise_or", other)

    def __xor__(self, other: Any) -> Any:
        return self._scalar("bitwise_xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Any:
        return self._scalar("left_shift", other)

    def __rlshift__(self, other: Any) -> Any:
        return self._scalar("left_shift", other, swap=True)

    def __rshift__(self, other: Any) -> Any:
        return self._scalar("right_shift", other)

    def __rrshift__(self, other: Any) -> Any:
        return self._scalar("right_shift", other, swap=True)

    def __invert__(self) -> Any:
        return -self - 1

    # ------------------------------------------------------------------------------------------ comparisons
    def _at_least(self, other: Any, strict: bool) -> Any:
        """``self >= other``, or ``self > other`` where `strict`; NotImplemented for what is no number."""
        if isinstance(other, (float, np.floating)):
            if not isfinite(other):
                return bool(other < 0)
            other, strict = floor(other), strict or not float(other).is_integer()
        if not isinstance(other, (int, np.integer, np.bool_, SymbolicSize)):
            return NotImplemented
        left, right = _without_common_factors(self.state, self.factors, factors_of(other))
        return _volume_at_least(self.state, left, right, int(strict))

    def _at_most(self, other: Any, strict: bool) -> Any:
        if isinstance(other, (float, np.floating)) and isnan(other):
            return False
        above = self._at_least(other, not strict)
        return above if above is NotImplemented else not above

    def __ge__(self, other: Any) -> Any:
        return self._at_least(other, False)

    def __gt__(self, other: Any) -> Any:
        return self._at_least(other, True)

    def __lt__(self, other: Any) -> Any:
        return self._at_most(other, True)

    def __le__(self, other: Any) -> Any:
        return self._at_most(other, False)

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, (float, np.floating)):
            if not float(other).is_integer():
                return False
            other = int(other)
        if not isinstance(other, (int, np.integer, np.bool_, SymbolicSize)):
            return NotImplemented
        other = other if isinstance(other, SymbolicSize) else int(other)
        a, b = self.affine, affine_of(other)
        if a is not None and b is not None:
            return self.state.run(self.state.compare, a, b)
        if normal_factors(self.factors) == normal_factors(factors_of(other)):
            return True
        return int(self) == int(other)

    def __ne__(self, other: Any) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        """That of the integer, fixed by a guard: ``table[len(x)]`` finds what it finds outside of a trace."""
        return hash(self.__index__())

    def __bool__(self) -> bool:
        return not self.__eq__(0)

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

    def __copy__(self) -> SymbolicSize:
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> SymbolicSize:
        return self

    def __format__(self, spec: str) -> str:
        """The digits, fixed by a guard because a text may be a key; the letter of a size that was declared."""
        names = {name for factor in self.factors for name in factor.names()}
        is_letter = self.state.ended or bool(names - self.state.fresh)
        return self.letters if is_letter else format(self.__index__(), spec)

    def __str__(self) -> str:
        return format(self)

    __repr__ = __str__  # of which the text of `x.shape` is made

    def __reduce_ex__(self, protocol: Any) -> tuple[type[int], tuple[int]]:
        return int, (self.__index__(),)

    def __getattr__(self, name: str) -> Any:
        """What else Python's integers have: ``x.size.bit_length()``."""
        if name.startswith("_") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return self if name == "real" else getattr(self.__index__(), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.state.call("ufunc", ufunc, method, inputs, kwargs)

    @property
    def letters(self) -> str:
        """The size in the symbols of the program."""
        several = len(self.factors) > 1
        return "*".join(f"({f})" if several and len(f.terms) + bool(f.constant) > 1 else str(f) for f in self.factors)


_DIVISIONS = ("divide", "floor_divide", "remainder")


def check_divisor(trace: Trace, number: Any, divisor: Any) -> None:
    """Raises DivisionError for a 0 where Python does; numbers of NumPy's divide by it."""
    if any(isinstance(n, np.generic) or (isinstance(n, SymbolicSize) and n.is_numpy) for n in (number, divisor)):
        return
    is_size = isinstance(divisor, SymbolicSize)
    if any(trace.compare(n, Affine.of(0)) for n in divisor.factors) if is_size else divisor == 0:
        what = f"the size {divisor.letters}, which is 0 here" if is_size else "0"
        advice = "Divide by max(n, 1), or return early for such a size."
        raise DivisionError(f"a number is divided by {what}", advice=advice)


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_exact(value: Any) -> bool:
    """Whether a number is an integer that sizes are computed with: shorter ones of NumPy's wrap."""
    return is_integer(value) and (isinstance(value, np.int64) or not isinstance(value, np.generic))


def is_operand(value: Any) -> bool:
    """Whether a sum with a size is another one."""
    return isinstance(value, (bool, SymbolicSize)) or is_exact(value)


def size_of(trace: Trace, *factors: Affine, is_numpy: bool = False) -> Size:
    """The product as the user sees it: an int, or one of NumPy's, when it is constant."""
    size = SymbolicSize(trace, factors, is_numpy=is_numpy)
    constant = size.affine
    if constant is None or not constant.is_constant:
        return size
    return np.int64(constant.constant) if is_numpy else constant.constant  # type: ignore[return-value]


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


def _without_common_factors(
    trace: Trace, left: tuple[Affine, ...], right: tuple[Affine, ...]
) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
    """Two products without the factors of both that are positive: their order is the same."""
    (a, over), (b, under) = normal_factors(left), normal_factors(right)
    rest = list(under)
    kept = []
    for factor in over:
        if factor in rest and trace.known(factor - 1):
            rest.remove(factor)
        else:
            kept.append(factor)
    return SymbolicSize(trace, (Affine.of(a), *kept)).factors, SymbolicSize(trace, (Affine.of(b), *rest)).factors


def _volume_at_least(trace: Trace, left: tuple[Affine, ...], right: tuple[Affine, ...], extra: int) -> bool:
    """``left >= right + extra`` of two products: by hint with a guard, or at fixed sizes where no guard can say it."""
    if len(left) == len(right) == 1:
        holds: bool = trace.run(trace.decide, left[0] - right[0] - extra)
        return holds
    if len(right) == 1 and right[0].is_constant:
        return trace.decide_volume(left, right[0].constant + extra - 1)
    if len(left) == 1 and left[0].is_constant:
        return not trace.decide_volume(right, left[0].constant - extra)
    return int(SymbolicSize(trace, left)) >= int(SymbolicSize(trace, right)) + extra
