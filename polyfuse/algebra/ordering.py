"""Which of two formulas is larger, for all sizes at once: a proof, or sizes that show both answers.

The difference is a polynomial in the sizes with integer values.  Shift every size to its lower bound (``N = 1 + n``):
if then no coefficient is negative, neither is the polynomial, and the constant term bounds it from below.  Divisions
are replaced by a bound on the safe side, ``(e - m + 1)/m <= floor(e/m) <= e/m``.  Where that is not enough, the least
value of a size is a case of its own and the others are shifted by one more, a bounded number of times.  Whether a
polynomial is positive at all integers is undecidable (Matiyasevich, 1970), so a third answer must exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

import sympy

from polyfuse.affine import Affine
from polyfuse.algebra.symbols import compiled, size

CASES = 200  # leaves of the case distinction: 0.3 s at most
POINTS = 700  # sizes that are tried in the search for examples
TRIED = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 127, 128, 129, 1000, 1024, 4096, 65537, 1 << 20)

Sizes = tuple[tuple[str, int], ...]


class Relation(Enum):
    """How two formulas compare over all sizes."""

    LESS = "<"
    AT_MOST = "<="
    EQUAL = "=="
    AT_LEAST = ">="
    GREATER = ">"
    MIXED = "depends on the sizes"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Ordering:
    """`relation` of the first formula to the second; `proof` in words where it holds for all sizes.

    less, equal, greater: sizes at which the first is smaller, equal, larger, where any were found.
    """

    relation: Relation
    proof: str = ""
    less: Sizes | None = None
    equal: Sizes | None = None
    greater: Sizes | None = None

    def __str__(self) -> str:
        if self.proof:
            return f"{self.relation.value} for all sizes: {self.proof}"
        found = {"less": self.less, "equal": self.equal, "greater": self.greater}
        shown = (f"{word} at {text(at) or 'all sizes'}" for word, at in found.items() if at is not None)
        return f"{self.relation.value}: " + ", ".join(shown)


def text(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes)


def order(a: sympy.Expr, b: sympy.Expr, facts: Sequence[Affine] = ()) -> Ordering:
    """Compare two expressions of sizes, all of which are at least 1.  `facts`: affine expressions known to be >= 0."""
    difference = sympy.expand(b - a)
    if difference == 0:
        return Ordering(Relation.EQUAL, "both are the same formula", equal=())
    lower = _lower_bounds(difference, facts)
    for sign, strict, weak in ((1, Relation.LESS, Relation.AT_MOST), (-1, Relation.GREATER, Relation.AT_LEAST)):
        if _at_least(sign * difference, 1, lower):
            return Ordering(strict, _proof(strict, sign * difference, lower), **_examples(difference, facts))
        if _at_least(sign * difference, 0, lower):
            return Ordering(weak, _proof(weak, sign * difference, lower), **_examples(difference, facts))
    found = _examples(difference, facts)
    mixed = sum(found[k] is not None for k in ("less", "equal", "greater")) > 1
    return Ordering(Relation.MIXED if mixed else Relation.UNDECIDED, "", **found)


def _proof(relation: Relation, difference: sympy.Expr, lower: Mapping[sympy.Symbol, int]) -> str:
    bounds = ", ".join(sorted(f"{symbol} >= {bound}" for symbol, bound in lower.items()))
    sense = "positive" if relation in (Relation.LESS, Relation.GREATER) else "never negative"
    return f"the difference {difference} is {sense}" + (f" for {bounds}" if bounds else "")


# ---------------------------------------------------------------------------------------------- proof


def _lower_bounds(difference: sympy.Expr, facts: Sequence[Affine]) -> dict[sympy.Symbol, int]:
    """Every size is at least 1, or what a fact about it alone says."""
    lower = dict.fromkeys(difference.free_symbols, 1)
    for fact in facts:
        match fact.terms:
            case ((str(name), factor),) if factor > 0 and size(name) in lower:
                lower[size(name)] = max(lower[size(name)], -(fact.constant // factor))
    return lower


def _at_least(difference: sympy.Expr, least: int, lower: Mapping[sympy.Symbol, int]) -> bool:
    """Whether the integer-valued `difference` is proved to be >= `least`, that is > ``least - 1``."""
    cases = [(difference - (least - 1), dict(lower))]
    for _ in range(CASES):
        if not cases:
            return True
        expression, bounds = cases.pop()
        if _positive(expression, bounds):
            continue
        symbols = sorted(expression.free_symbols, key=lambda s: (bounds[s], s.name))
        if not symbols:
            return False
        first = symbols[0]
        cases.append((expression, bounds | {first: bounds[first] + 1}))
        cases.append((sympy.expand(expression.subs(first, bounds[first])), bounds))
    return not cases


def _positive(expression: sympy.Expr, lower: Mapping[sympy.Symbol, int]) -> bool:
    """Whether all coefficients about the lower bounds are >= 0 and the constant is > 0: sufficient, not necessary."""
    bounded = _without_floors(expression, lower)
    if bounded is None:
        return False
    terms = _shifted(bounded, lower)
    return terms.get((), 0) > 0 and all(factor >= 0 for factor in terms.values())


def _shifted(expression: sympy.Expr, lower: Mapping[sympy.Symbol, int]) -> dict[tuple[int, ...], sympy.Rational]:
    """Coefficients of the polynomial in the distances of the sizes from their lower bounds; the constant under ()."""
    symbols = sorted(expression.free_symbols, key=lambda s: s.name)
    if not symbols:
        return {(): expression}
    moved = expression.subs({s: s + lower[s] for s in symbols}, simultaneous=True)
    polynomial = sympy.Poly(moved, *symbols)
    return {powers if any(powers) else (): factor for powers, factor in polynomial.terms()}


def _without_floors(expression: sympy.Expr, lower: Mapping[sympy.Symbol, int]) -> sympy.Expr | None:
    """A lower bound of `expression` without divisions, innermost last; None where one is multiplied by another."""
    while floors := sorted(expression.atoms(sympy.floor), key=lambda f: (-sympy.count_ops(f), str(f))):
        floor, quotient = floors[0], sympy.Dummy()
        parts = sympy.Poly(expression.xreplace({floor: quotient}), quotient)
        if parts.degree() > 1:
            return None
        factor, rest = parts.coeff_monomial(quotient), parts.coeff_monomial(1)
        if factor.atoms(sympy.floor):
            return None
        numerator, denominator = sympy.fraction(sympy.together(floor.args[0]))
        least, most = (numerator - denominator + 1) / denominator, numerator / denominator
        rising, falling = _signed(factor, lower)
        expression = sympy.expand(rest + rising * least + falling * most)
    return expression


def _signed(factor: sympy.Expr, lower: Mapping[sympy.Symbol, int]) -> tuple[sympy.Expr, sympy.Expr]:
    """`factor` as a sum of a part that is never negative and one that is never positive."""
    symbols = sorted(factor.free_symbols, key=lambda s: s.name)
    rising, falling = sympy.Integer(0), sympy.Integer(0)
    for powers, number in _shifted(factor, lower).items():
        monomial = sympy.Mul(*[(s - lower[s]) ** power for s, power in zip(symbols, powers, strict=False)])
        if number > 0:
            rising += number * monomial
        else:
            falling += number * monomial
    return sympy.expand(rising), sympy.expand(falling)


# ---------------------------------------------------------------------------------------------- examples


def _points(names: Sequence[str], facts: Sequence[Affine]) -> Iterator[tuple[int, ...]]:
    """Sizes that satisfy the facts, small ones first."""
    count = len(TRIED)
    while count > 3 and count ** len(names) > POINTS:
        count -= 1
    step = (len(TRIED) - 1) / (count - 1)
    values = sorted({TRIED[round(k * step)] for k in range(count)})
    for point in sorted(product(values, repeat=len(names)), key=lambda p: (max(p, default=0), p))[: 4 * POINTS]:
        sizes = dict(zip(names, point, strict=True))
        if all(fact.evaluate(sizes) >= 0 for fact in facts if fact.names() <= sizes.keys()):
            yield point


def _examples(difference: sympy.Expr, facts: Sequence[Affine]) -> dict[str, Sizes | None]:
    """Sizes at which the difference (second less first) is positive, zero and negative."""
    names = _names(difference, facts)
    value = compiled(difference, names)
    found: dict[str, Sizes | None] = {"less": None, "equal": None, "greater": None}
    for point in _points(names, facts):
        number = value(point)
        case = "less" if number > 0 else "greater" if number < 0 else "equal"
        if found[case] is None:
            found[case] = tuple(zip(names, point, strict=True))
    return found


def _names(difference: sympy.Expr, facts: Sequence[Affine]) -> tuple[str, ...]:
    """Sizes of the difference and of the facts that speak of them."""
    names = {symbol.name for symbol in difference.free_symbols}
    for fact in facts:
        if fact.names() & names:
            names |= fact.names()
    return tuple(sorted(names))
