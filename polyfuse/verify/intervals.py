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


ANY = Interval(None, None)


def interval(affine: Affine, ranges: Mapping[str, Interval]) -> Interval:
    """The values of `affine` when each name lies in its range; a name without one is unbounded.

    Remainders are found back in ``n - d*floor(n/d)`` and bounded by their denominator; ``d*floor(m/d) - d*floor(n/d)``
    is less than d away from ``m - n``, whatever m and n are.
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
    for more, less, times in _differences(rest):
        beyond = (more.numerator - less.numerator) * times
        rest = rest - (Affine(((more, 1),)) - Affine(((less, 1),))) * (times * more.denominator) + Affine(beyond.terms)
        reach = more.denominator - 1
        total = total + Interval(beyond.constant, beyond.constant) + Interval(-reach, reach).scaled(times)
    for atom, factor in rest.terms:
        if isinstance(atom, FloorDiv):
            values = interval(atom.numerator, ranges).divided(atom.denominator)
        else:
            values = ranges.get(atom, ANY)
        total = total + values.scaled(factor)
    return total


def _differences(rest: Affine) -> list[tuple[FloorDiv, FloorDiv, int]]:
    """Of each pair of quotients that are added and taken away as often, a multiple of their denominator: that multiple.
    """
    floors = [(a, f) for a, f in rest.terms if isinstance(a, FloorDiv) and f % a.denominator == 0]
    found: list[tuple[FloorDiv, FloorDiv, int]] = []
    taken = set[FloorDiv]()
    for more, factor in floors:
        mates = [a for a, f in floors if f == -factor < 0 and a.denominator == more.denominator and a not in taken]
        if mates:
            taken.add(mates[0])
            found.append((more, mates[0], factor // more.denominator))
    return found


def at_least_zero(affine: Affine, ranges: Mapping[str, Interval], given: Iterable[Affine] = ()) -> bool:
    """True where ``affine >= 0`` follows from the ranges, or from one of the conditions ``given >= 0``."""
    for known in (Affine.of(0), *given):
        low = interval(affine - known, ranges).low
        if low is not None and low >= 0:
            return True
    return False
