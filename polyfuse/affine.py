"""Quasi-affine expressions with integer coefficients: the one language of sizes, indices and places.

An `Affine` is ``sum(coefficient * atom) + constant``.  An atom is a name or a floor division of an `Affine` by a
positive integer; nothing else is needed, and nothing else parses in isl (it knows no product of symbols).

Naming convention of the atoms, so that the three uses never collide:

=========  ==================================================  =====================
atom       meaning                                             example
=========  ==================================================  =====================
``N``      a size symbol                                       shape ``(M, 2*N)``
``%0``     dimension 0 of a tensor or statement                view ``x[%1, 2*%0]``
``$t``     a digit of a place: block, thread, loop or slot     ``4*$t + $v``
=========  ==================================================  =====================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """The atom ``floor(numerator / denominator)``; `denominator` is at least 2."""

    numerator: Affine
    denominator: int

    def __str__(self) -> str:
        return f"floor(({self.numerator})/{self.denominator})"


Atom = Union[str, FloorDiv]
AffineLike = Union["Affine", int]


def _term_key(term: tuple[Atom, int]) -> tuple[int, str]:
    atom, _ = term
    return (0, atom) if isinstance(atom, str) else (1, str(atom))


@dataclass(frozen=True, slots=True, init=False)
class Affine:
    """An immutable quasi-affine expression; `==` and `hash` are structural on the normal form."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0
    _hash: int = field(default=0, init=False, compare=False, repr=False)  # found when first asked for
    _names: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)
    _linear: bool | None = field(default=None, init=False, compare=False, repr=False)

    def __init__(self, terms: tuple[tuple[Atom, int], ...], constant: int = 0) -> None:
        """What a frozen dataclass has, in half of its time: a plan makes millions."""
        _SET_TERMS(self, terms)
        _SET_CONSTANT(self, constant)
        _SET_HASH(self, 0)
        _SET_NAMES(self, None)
        _SET_LINEAR(self, None)

    def __hash__(self) -> int:
        if not self._hash:
            _SET_HASH(self, hash((self.terms, self.constant)))
        return self._hash

    def __reduce__(self) -> tuple[type[Affine], tuple[tuple[tuple[Atom, int], ...], int]]:
        """Without the hash, which is another one in another process."""
        return Affine, (self.terms, self.constant)

    # ---------------------------------------------------------------- construction
    @staticmethod
    def of(value: AffineLike) -> Affine:
        """`value` as an `Affine`; integers become constants."""
        return value if isinstance(value, Affine) else _constant(int(value))

    @staticmethod
    def symbol(name: str) -> Affine:
        return Affine(((name, 1),))

    @staticmethod
    def build(terms: Mapping[Atom, int], constant: int) -> Affine:
        kept = [(atom, factor) for atom, factor in terms.items() if factor]
        if len(kept) > 1:
            try:
                kept.sort()  # names, nearly always: their order is that of the key
            except TypeError:  # a quotient is not comparable
                kept.sort(key=_term_key)
        return Affine(tuple(kept), constant)

    # ---------------------------------------------------------------- arithmetic
    def __add__(self, other: AffineLike) -> Affine:
        if isinstance(other, int):
            return self if other == 0 else Affine(self.terms, self.constant + other)
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant)
        if not self.terms:
            return Affine(other.terms, self.constant + other.constant)
        terms = dict(self.terms)
        for atom, factor in other.terms:
            terms[atom] = terms.get(atom, 0) + factor
        return Affine.build(terms, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: AffineLike) -> Affine:
        return self + (-other)

    def __rsub__(self, other: AffineLike) -> Affine:
        return -self + other

    def __mul__(self, factor: int) -> Affine:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Affine(tuple([(atom, c * factor) for atom, c in self.terms]), self.constant * factor)

    __rmul__ = __mul__

    def __floordiv__(self, denominator: int) -> Affine:
        """Exact where the terms divide, else with a `FloorDiv` atom over the remainder."""
        if denominator <= 0:
            raise ValueError(f"division of {self} by {denominator}: the denominator must be positive")
        if denominator == 1:
            return self
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for atom, factor in self.terms:
            quotient, remainder = divmod(factor, denominator)
            if quotient:
                whole[atom] = quotient
            if remainder:
                rest[atom] = remainder
        quotient, remainder = divmod(self.constant, denominator)
        if not rest:
            return Affine.build(whole, quotient)
        inner, divisor = Affine.build(rest, remainder), denominator
        common = gcd(divisor, *(factor for _, factor in inner.terms))
        if common > 1:  # floor((g*a + r)/(g*d)) = floor((a + floor(r/g))/d)
            inner = Affine(tuple((a, f // common) for a, f in inner.terms), inner.constant // common)
            divisor //= common
        if divisor == 1:
            return Affine.build(whole, quotient) + inner
        if len(inner.terms) == 1 and inner.constant == 0 and inner.terms[0][1] == 1:
            atom = inner.terms[0][0]
            if isinstance(atom, FloorDiv):
                inner, divisor = atom.numerator, divisor * atom.denominator
        nested = FloorDiv(inner, divisor)
        whole[nested] = whole.get(nested, 0) + 1
        return Affine.build(whole, quotient)

    def __mod__(self, denominator: int) -> Affine:
        return self - (self // denominator) * denominator

    def ceildiv(self, denominator: int) -> Affine:
        if denominator == 1:
            return self
        return (self + (denominator - 1)) // denominator

    # ---------------------------------------------------------------- queries
    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, atom: Atom) -> int:
        for candidate, factor in self.terms:
            if candidate == atom:
                return factor
        return 0

    def names(self) -> frozenset[str]:
        """Every name that occurs, also inside floor divisions."""
        if self._names is None:
            names = frozenset([a for a, _ in self.terms if isinstance(a, str)])
            if len(names) < len(self.terms):
                names = names.union(*[a.numerator.names() for a, _ in self.terms if not isinstance(a, str)])
            _SET_NAMES(self, names)
            return names
        return self._names

    @property
    def is_linear(self) -> bool:
        """True when no floor division occurs."""
        if self._linear is None:
            _SET_LINEAR(self, FloorDiv not in [type(atom) for atom, _ in self.terms])
        return bool(self._linear)

    def remainders(self) -> tuple[Affine, tuple[tuple[FloorDiv, int], ...]]:
        """The expression as a rest and multiples of remainders ``numerator mod denominator``.

        8*t - 7*i + 8*floor((7*i)/8)   is   8*t   and   -1 times 7*i mod 8
        """
        if self.is_linear:
            return self, ()
        rest, found = self, []
        for atom, factor in self.terms:
            if isinstance(atom, FloorDiv) and factor % atom.denominator == 0:
                times = -(factor // atom.denominator)
                rest = rest - (atom.numerator - Affine(((atom, atom.denominator),))) * times
                found.append((atom, times))
        return rest, tuple(found)

    def steps(self) -> frozenset[str]:
        """The names along which it moves on and on: not those that it depends on in remainders alone."""
        return self.names() if self.is_linear else self.remainders()[0].names()

    def substitute(self, values: Mapping[str, AffineLike]) -> Affine:
        """The expression with each name in `values` replaced."""
        if not self.terms:
            return self
        name, weight = self.terms[0]
        if len(self.terms) == 1 and isinstance(name, str):  # nearly always: an index entry ``%k + c``
            return Affine.of(values[name]) * weight + self.constant if name in values else self
        terms: dict[Atom, int] = {}
        constant = self.constant
        for atom, factor in self.terms:
            if isinstance(atom, FloorDiv):
                value = atom.numerator.substitute(values) // atom.denominator
            elif atom in values:
                value = Affine.of(values[atom])
            else:
                terms[atom] = terms.get(atom, 0) + factor
                continue
            constant += value.constant * factor
            for inner, weight in value.terms:
                terms[inner] = terms.get(inner, 0) + weight * factor
        return Affine.build(terms, constant)

    def on_arrays(self, values: Mapping[str, Any]) -> Any:
        """The values for NumPy arrays of integers, one place after the other."""
        return self.evaluate(values)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value for concrete numbers."""
        total = self.constant
        for atom, factor in self.terms:
            if isinstance(atom, FloorDiv):
                total = total + factor * (atom.numerator.evaluate(values) // atom.denominator)
            else:
                total = total + factor * values[atom]
        return total

    # ---------------------------------------------------------------- text
    def text(self, rename: Mapping[str, str] | None = None) -> str:
        """isl and Python agree on this form, but for floor: see `FloorDiv`."""
        parts: list[str] = []
        for atom, factor in self.terms:
            if isinstance(atom, FloorDiv):
                name = f"floor(({atom.numerator.text(rename)})/{atom.denominator})"
            else:
                name = rename.get(atom, atom) if rename else atom
            sign = "-" if factor < 0 else "+"
            size = abs(factor)
            parts.append(f" {sign} {'' if size == 1 else f'{size}*'}{name}")
        if self.constant or not parts:
            parts.append(f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}")
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


_SET_TERMS, _SET_CONSTANT, _SET_HASH, _SET_NAMES, _SET_LINEAR = (
    Affine.__dict__[name].__set__ for name in ("terms", "constant", "_hash", "_names", "_linear")
)

@lru_cache(maxsize=1024)
def _constant(value: int) -> Affine:
    """Most are extents of digits: a few numbers, asked for again and again."""
    return Affine((), value)


ZERO = Affine(())
ONE = Affine((), 1)


def dimension(position: int) -> Affine:
    """Dimension `position` of a tensor or statement, the atom ``%position``."""
    return Affine.symbol(f"%{position}")


def digit(name: str) -> Affine:
    """A digit of a place, the atom ``$name``."""
    return Affine.symbol(f"${name}")


def dimensions(rank: int) -> tuple[Affine, ...]:
    return tuple(dimension(k) for k in range(rank))


def names_of(expressions: Iterable[Affine]) -> frozenset[str]:
    return frozenset().union(*[e.names() for e in expressions])
