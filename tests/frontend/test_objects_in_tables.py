"""An object finds itself in tables which its own methods read, whatever these go by: identity, equality, a hash."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyfuse as pf

X = np.arange(1.0, 4.0)


class Table(dict[Any, Any]):
    pass


class Row(list[Any]):
    pass


class Body:
    """Its methods read tables that hold it: one stand-in is there, and one in the method."""

    def __init__(self, mass: float, at: float) -> None:
        self.mass, self.at = mass, at

    def pull(self, x: Any) -> Any:
        return sum(b.mass * (x - b.at) for b in BODIES if b is not self)

    def scaled(self, x: Any) -> Any:
        return x * SCALES.get(self, 0.0) * SCALES[self]

    def found(self, x: Any) -> Any:
        return x * (self in HEAVY) * (self in FIXED) * (1 + BODIES.index(self)) + BODIES.count(self)

    def numbered(self, x: Any) -> Any:
        return x * BY_ID[id(self)] * BY_HASH[hash(self)]

    def weakly(self, x: Any) -> Any:
        return x * WEAK[self] * (self in WEAKLY)

    def in_own_kinds(self, x: Any) -> Any:
        return x * TABLE[self] * ROW.index(self) * (self in ROW)


@dataclass(frozen=True)
class Point:
    """Equal by what it holds, and of its own class only."""

    k: float

    def scaled(self, x: Any) -> Any:
        return x * self.k * POINTS[self] * (self in POINTS) * (Point(2.0) in POINTS) * (Point(3.0) not in POINTS)


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def scaled(self, x: Any) -> Any:
        return x * NAMED[self] * NAMED[Named("a")]


SUN, EARTH = Body(2.0, 5.0), Body(3.0, 7.0)
BODIES, SCALES, HEAVY, FIXED = [SUN, EARTH], {EARTH: 7.0}, {SUN, EARTH}, frozenset((EARTH,))
BY_ID, BY_HASH = {id(EARTH): 4.0}, {hash(EARTH): 5.0}
WEAK, WEAKLY = weakref.WeakKeyDictionary({EARTH: 6.0}), weakref.WeakSet([EARTH])
TABLE, ROW = Table({EARTH: 3.0}), Row([SUN, EARTH])
POINT, NAME = Point(2.0), Named("a")
POINTS, NAMED = Table({POINT: 5.0}), Table({NAME: 6.0})


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "in a list": lambda x: EARTH.pull(x),
    "in a dictionary": lambda x: EARTH.scaled(x),
    "in a set": lambda x: EARTH.found(x),
    "by numbers of its own": lambda x: EARTH.numbered(x),
    "weakly": lambda x: EARTH.weakly(x),
    "in kinds of the user's": lambda x: EARTH.in_own_kinds(x),
    "equal by what it holds": lambda x: POINT.scaled(x),
    "equal by a name": lambda x: NAME.scaled(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_object_finds_itself(name: str) -> None:
    np.testing.assert_array_equal(pf.jit(PROGRAMS[name])(X), PROGRAMS[name](X))


class Agent:
    def __init__(self, k: float) -> None:
        self.k = k

    def out(self, x: Any) -> Any:
        return x * self.k if self in ACTIVE else -x


ACTIVE: set[Agent] = set()


def test_who_is_in_a_set_is_seen() -> None:
    one, other = Agent(2.0), Agent(3.0)
    ACTIVE.add(one)

    def both(x: Any) -> Any:
        return one.out(x) + 10 * other.out(x)

    jitted = pf.jit(both)
    for change in (lambda: None, lambda: ACTIVE.add(other), lambda: ACTIVE.remove(one), lambda: None):
        change()
        np.testing.assert_array_equal(jitted(X), both(X))
    assert jitted.cache_info().traces == 3


def test_keys_that_traced_code_adds_are_the_objects() -> None:
    factors: dict[Any, float] = {}

    class Adding:
        def scaled(self, x: Any) -> Any:
            return x * factors.setdefault(self, 2.0)

    adding = Adding()
    np.testing.assert_array_equal(pf.jit(lambda x: adding.scaled(x))(X), X * 2)
    assert next(iter(factors)) is adding
