"""Interval reasoning on quasi-affine indices, enough to keep composed views in one canonical, short form.

Nothing here decides legality (isl does); what cannot be shown is simply left as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from polyfuse.affine import ZERO, Affine, Atom, FloorDiv
from polyfuse.expr import Shape


def least(expression: Affine) -> int | None:
    """A lower bound of an expression of size symbols, all of them at least 1; None when there is none."""
    total = expression.constant
    for atom, factor in expression.terms:
        low = 1 if isinstance(atom, str) else _least_floor(atom)
        if factor < 0 or low is None:
            return None
        total += factor * low
    return total


def _least_floor(atom: FloorDiv) -> int | None:
    low = least(atom.numerator)
    return None if low is None else low // atom.denominator


def is_nonnegative(expression: Affine) -> bool:
    """True when `expression` (of size symbols) is >= 0 for all positive sizes, as far as intervals can tell."""
    low = least(expression)
    return low is not None and low >= 0


def lowest(expression: Affine, extents: Shape) -> Affine:
    """A lower bound over the points ``0 <= %k < extents[k]``, an expression of size symbols."""
    return _extreme(expression, extents, high=False)


def highest(expression: Affine, extents: Shape) -> Affine:
    """An upper bound over the points ``0 <= %k < extents[k]``, an expression of size symbols."""
    return _extreme(expression, extents, high=True)


def _extreme(expression: Affine, extents: Shape, high: bool) -> Affine:
    total = Affine.of(expression.constant)
    for atom, factor in expression.terms:
        total += _extreme_atom(atom, extents, high == (factor > 0)) * factor
    return total


def _extreme_atom(atom: Atom, extents: Shape, high: bool) -> Affine:
    if isinstance(atom, FloorDiv):
        return _extreme(atom.numerator, extents, high) // atom.denominator
    if atom.startswith("%"):
        return extents[int(atom[1:])] - 1 if high else ZERO
    return Affine.symbol(atom)


def holds_everywhere(condition: Affine, extents: Shape) -> bool:
    """``condition >= 0`` at every point, as far as intervals can tell."""
    return is_nonnegative(lowest(condition, extents))


def holds_nowhere(condition: Affine, extents: Shape) -> bool:
    """``condition < 0`` at every point, as far as intervals can tell."""
    return is_nonnegative(-highest(condition, extents) - 1)


def simplify(expression: Affine, extents: Shape) -> Affine:
    """An equal expression over the points, with floor divisions resolved where the extents allow it."""
    if expression.is_linear:
        return expression
    total = Affine.of(expression.constant)
    for atom, factor in expression.terms:
        if isinstance(atom, FloorDiv):
            total += _floor(simplify(atom.numerator, extents), atom.denominator, extents) * factor
        else:
            total += Affine(((atom, factor),))
    return total


def _within(expression: Affine, size: int, extents: Shape) -> bool:
    """``0 <= expression < size`` at every point."""
    return holds_everywhere(expression, extents) and holds_everywhere(size - 1 - expression, extents)


def _floor(numerator: Affine, denominator: int, extents: Shape) -> Affine:
    """``numerator // denominator``, dropping parts that stay below one step.

    ``floor((g*a + r) / (g*d)) = floor(a / d)`` where ``0 <= r < g``: what splitting an axis twice leaves behind.
    """
    quotient = numerator // denominator
    whole = Affine.of(quotient.constant)
    for atom, factor in quotient.terms:
        if isinstance(atom, FloorDiv):
            whole += _floor_atom(atom, extents) * factor
        else:
            whole += Affine(((atom, factor),))
    return whole


def _floor_atom(atom: FloorDiv, extents: Shape) -> Affine:
    if _within(atom.numerator, atom.denominator, extents):
        return ZERO
    for step in _steps(atom):
        coarse = [(a, f) for a, f in atom.numerator.terms if f % step == 0]
        fine = Affine(tuple(t for t in atom.numerator.terms if t not in coarse), atom.numerator.constant)
        if coarse and fine != ZERO and _within(fine, step, extents):
            return _floor(Affine(tuple((a, f // step) for a, f in coarse)), atom.denominator // step, extents)
    return Affine(((atom, 1),))


def _steps(atom: FloorDiv) -> Sequence[int]:
    """Common divisors of the denominator and a coefficient, coarsest first."""
    found = {gcd(atom.denominator, factor) for _, factor in atom.numerator.terms} - {1}
    return sorted(found, reverse=True)
