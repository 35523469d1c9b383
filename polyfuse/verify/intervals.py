"""Interval arithmetic on affine expressions of digits: the least and greatest value, where they are finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from polyfuse.affine import Affine, FloorDiv


@dataclass(frozen=True, slots=True)
class Interval:
    """``low .. high``, None for no bound."""

    low: int | None
    high: int | None

    def __add__(self, other: Interval) -> Interval:
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Interval(low, high)

    def scaled(self, factor: int) -> Interval:
        ends = (self.low, self.high) if factor >= 0 else (self.high, self.low)
        low, high = (None if e is None else e * factor for e in ends)
        return Interval(low, high)

    def divided(self, denominator: int) -> Interval:
        low, high = (None if e is None else e // denominator for e in (self.low, self.high))
        return Interval(low, high)

    def within(self, other: Interval) -> Interval:
        """What lies in both."""
        lows = [i.low for i in (self, other) if i.low is not None]
        highs = [i.high for i in (self, other) if i.high is not None]
        return Interval(max(lows, default=None), min(highs, default=None))


ANY = Interval(None, None)


def interval(affine: Affine, ranges: Mapping[str, Interval]) -> Interval:
    """The values of `affine` when each name lies in its range; a name without one is unbounded.

    Remainders are found back in ``n - d*floor(n/d)`` and bounded by their denominator.  What they leave is bounded both
    as it is written and with ``d*floor(n/d)`` as n less a remainder, whose names may cancel against others:

    3*floor((b + t + 1)/3) - b + 1   is   t + 2 less a remainder,   0 .. t + 2   whatever b is
    """
    total = Interval(affine.constant, affine.constant)
    rest = Affine(affine.terms)
    for atom, factor in affine.terms:
        if isinstance(atom, FloorDiv) and factor % atom.denominator == 0:
            times = -factor // atom.denominator
            whole = atom.numerator * times
            if all(rest.coefficient(a) == whole.coefficient(a) for a, _ in whole.terms):
                rest = rest - Affine(whole.terms) - Affine(((atom, factor),))
                start = -atom.numerator.constant  # the constant of the remainder is not among the terms
                total = total + Interval(start, start + atom.denominator - 1).scaled(times)
    found = _as_written(rest, ranges)
    numerators, remainders = rest.remainders()
    if remainders:
        apart = interval(numerators, ranges)
        for divided, times in remainders:
            apart = apart + Interval(0, divided.denominator - 1).scaled(times)
        found = found.within(apart)
    return total + found


def _as_written(rest: Affine, ranges: Mapping[str, Interval]) -> Interval:
    """The sum of what each term may be."""
    total = Interval(rest.constant, rest.constant)
    for atom, factor in rest.terms:
        if isinstance(atom, FloorDiv):
            values = interval(atom.numerator, ranges).divided(atom.denominator)
        else:
            values = ranges.get(atom, ANY)
        total = total + values.scaled(factor)
    return total


def at_least_zero(affine: Affine, ranges: Mapping[str, Interval], given: Iterable[Affine] = ()) -> bool:
    """True where ``affine >= 0`` follows from the ranges, or from one of the conditions ``given >= 0``."""
    for known in (Affine.of(0), *given):
        low = interval(affine - known, ranges).low
        if low is not None and low >= 0:
            return True
    return False
