"""A number that depends on the sizes: bytes, counts, operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Union

import sympy

from polyfuse.affine import Affine, AffineLike
from polyfuse.algebra.ordering import Ordering, Relation, order, text
from polyfuse.algebra.symbols import compiled, symbolic
from polyfuse.errors import PolyfuseError

FormulaLike = Union["Formula", Affine, int]


class DependsOnSizes(PolyfuseError, ValueError):
    """A comparison that holds for some sizes only; `ordering` has sizes for either answer."""

    def __init__(self, message: str, ordering: Ordering) -> None:
        super().__init__(message, advice="compare numbers instead: formula.at(N=4096)")
        self.ordering = ordering


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """An integer polynomial in the sizes, with integer divisions: ``4*M*N + 4*N``.

    ``<``, ``<=``, ``>``, ``>=`` give True or False when that is the answer for all sizes >= 1, else they raise
    `DependsOnSizes` with the counterexample.  ``==`` means: the same for all sizes.
    """

    expression: sympy.Expr

    @staticmethod
    def of(value: FormulaLike) -> Formula:
        match value:
            case Formula():
                return value
            case Affine():
                return Formula(symbolic(value))
            case _:
                return Formula(sympy.Integer(value))

    # ---------------------------------------------------------------- arithmetic
    def __add__(self, other: FormulaLike) -> Formula:
        return Formula(sympy.expand(self.expression + Formula.of(other).expression))

    __radd__ = __add__

    def __neg__(self) -> Formula:
        return self * -1

    def __sub__(self, other: FormulaLike) -> Formula:
        return self + -Formula.of(other)

    def __rsub__(self, other: FormulaLike) -> Formula:
        return Formula.of(other) - self

    def __mul__(self, other: FormulaLike) -> Formula:
        return Formula(sympy.expand(self.expression * Formula.of(other).expression))

    __rmul__ = __mul__

    def __floordiv__(self, denominator: int) -> Formula:
        if denominator <= 0:
            raise ValueError(f"division of {self} by {denominator}: the denominator must be positive")
        return Formula(sympy.floor(self.expression / denominator))

    # ---------------------------------------------------------------- comparison
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Formula, Affine, int)):
            return NotImplemented
        return bool(sympy.expand(self.expression - Formula.of(other).expression) == 0)

    def __hash__(self) -> int:
        return hash(int(self.expression)) if self.expression.is_Integer else hash(self.expression)

    def __lt__(self, other: FormulaLike) -> bool:
        return self._decide(other, "<", {Relation.LESS})

    def __le__(self, other: FormulaLike) -> bool:
        return self._decide(other, "<=", {Relation.LESS, Relation.AT_MOST, Relation.EQUAL})

    def __gt__(self, other: FormulaLike) -> bool:
        return self._decide(other, ">", {Relation.GREATER})

    def __ge__(self, other: FormulaLike) -> bool:
        return self._decide(other, ">=", {Relation.GREATER, Relation.AT_LEAST, Relation.EQUAL})

    def _decide(self, other: FormulaLike, sign: str, holds: set[Relation]) -> bool:
        ordering = compare(self, other)
        if ordering.relation in holds:
            return True
        if ordering.relation in _NEVER[sign]:
            return False
        claim = f"{self} {sign} {Formula.of(other)}"
        found = {"<": ordering.less, "=": ordering.equal, ">": ordering.greater}
        good = next((at for case, at in found.items() if case in sign and at is not None), None)
        bad = next((at for case, at in found.items() if case not in sign and at is not None), None)
        if good is None or bad is None:
            raise DependsOnSizes(f"{claim} could not be decided for all sizes", ordering)
        raise DependsOnSizes(f"{claim} holds at {text(good)} but not at {text(bad)}", ordering)

    # ---------------------------------------------------------------- numbers and text
    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the sizes that occur, sorted."""
        return tuple(sorted(symbol.name for symbol in self.expression.free_symbols))

    def at(self, **sizes: int) -> int:
        """The number for given sizes.  Raises ValueError naming the sizes that are missing."""
        missing = [name for name in self.symbols if name not in sizes]
        if missing:
            raise ValueError(f"{self} needs the size of {', '.join(missing)}: at({missing[0]}=...)")
        return int(compiled(self.expression, self.symbols)([sizes[name] for name in self.symbols]))

    def __str__(self) -> str:
        return str(self.expression)

    __repr__ = __str__


_NEVER = {
    "<": {Relation.EQUAL, Relation.AT_LEAST, Relation.GREATER},
    "<=": {Relation.GREATER},
    ">": {Relation.EQUAL, Relation.AT_MOST, Relation.LESS},
    ">=": {Relation.LESS},
}


def compare(a: FormulaLike, b: FormulaLike, facts: Sequence[Affine] = ()) -> Ordering:
    """The relation of `a` to `b` over all sizes >= 1, with a proof or with sizes for either answer.

    facts: affine expressions of the sizes that are known to be >= 0.
    """
    return order(Formula.of(a).expression, Formula.of(b).expression, facts)


def volume(extents: Iterable[AffineLike]) -> Formula:
    """Points of a box whose extents are not negative: the product; 1 for no dimensions."""
    product = sympy.Integer(1)
    for extent in extents:
        product = sympy.expand(product * symbolic(extent))
    return Formula(product)


def nbytes(shape: Iterable[AffineLike], itemsize: int) -> Formula:
    """Bytes of a contiguous array."""
    return volume(shape) * itemsize
