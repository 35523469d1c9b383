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


class Kind:
    """Its hash is made of the class, or of that which it would have without."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.k == other.k  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.k))


class Sort(Kind):
    def scaled(self, x: Any) -> Any:
        return x * SORTS[self] * SORTS[Sort(2.0)] * (Kind(2.0) not in SORTS)


class Shifted:
    def __hash__(self) -> int:
        return super().__hash__() + 1

    def scaled(self, x: Any) -> Any:
        return x * SHIFTED[self]


SUN, EARTH = Body(2.0, 5.0), Body(3.0, 7.0)
BODIES, SCALES, HEAVY, FIXED = [SUN, EARTH], {EARTH: 7.0}, {SUN, EARTH}, frozenset((EARTH,))
BY_ID, BY_HASH = {id(EARTH): 4.0}, {hash(EARTH): 5.0}
WEAK, WEAKLY = weakref.WeakKeyDictionary({EARTH: 6.0}), weakref.WeakSet([EARTH])
TABLE, ROW = Table({EARTH: 3.0}), Row([SUN, EARTH])
POINT, NAME = Point(2.0), Named("a")
POINTS, NAMED = Table({POINT: 5.0}), Table({NAME: 6.0})
SORT, SHIFT = Sort(2.0), Shifted()
SORTS, SHIFTED = Table({SORT: 5.0}), Table({SHIFT: 6.0})


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "in a list": lambda x: EARTH.pull(x),
    "in a dictionary": lambda x: EARTH.scaled(x),
    "in a set": lambda x: EARTH.found(x),
    "by numbers of its own": lambda x: EARTH.numbered(x),
    "weakly": lambda x: EARTH.weakly(x),
    "in kinds of the user's": lambda x: EARTH.in_own_kinds(x),
    "equal by what it holds": lambda x: POINT.scaled(x),
    "equal by a name": lambda x: NAME.scaled(x),
    "by a hash of its class": lambda x: SORT.scaled(x),
    "by a hash made of its own": lambda x: SHIFT.scaled(x),
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


class Child:
    def __init__(self, parent: Parent, k: float) -> None:
        self.parent, self.k = weakref.ref(parent), k
        parent.children.append(self)

    def scaled(self, x: Any) -> Any:
        parent = self.parent()
        return -x if parent is None else x * self.k if parent.children[0] is self else x

    def others(self, x: Any) -> Any:
        return x * sum(child.k for child in LIVING if child is not self) * (NAMES["first"] is self)

    def noted(self, x: Any) -> Any:
        LIVING.add(self)
        self.own = weakref.ref(self)
        return x * COUNTS.setdefault(self, 2.0)


class Parent:
    def __init__(self) -> None:
        self.children: list[Child] = []


LIVING: weakref.WeakSet[Child] = weakref.WeakSet()
NAMES: weakref.WeakValueDictionary[str, Child] = weakref.WeakValueDictionary()
COUNTS: weakref.WeakKeyDictionary[Child, float] = weakref.WeakKeyDictionary()


def test_weak_references_lead_to_the_object() -> None:
    parent, other = Parent(), Parent()
    first, second = Child(parent, 2.0), Child(parent, 3.0)
    LIVING.update((first, second))
    NAMES["first"] = first

    def all_of_them(x: Any) -> Any:
        return first.scaled(x) + 10 * second.scaled(x) + 100 * first.others(x)

    jitted = pf.jit(all_of_them)

    def check() -> None:
        np.testing.assert_array_equal(jitted(X), all_of_them(X))

    check()
    parent.children.reverse()
    check()
    second.k = 5.0
    check()
    third = Child(other, 7.0)
    LIVING.add(third)
    check()
    first.parent = weakref.ref(other)
    check()
    NAMES["first"] = second
    check()


def test_what_is_kept_weakly_is_the_object() -> None:
    parent = Parent()
    child = Child(parent, 2.0)
    np.testing.assert_array_equal(pf.jit(lambda x: child.noted(x))(X), X * 2)
    assert child in LIVING and child.own() is child and list(COUNTS.items()) == [(child, 2.0)]
