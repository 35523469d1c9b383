"""Containers of classes that Python and users derive: made anew of what they hold, or refused with the class."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError, TraceError

X = np.arange(12.0).reshape(3, 4)


@dataclass
class Computed:
    """Keeps what it computes of what it is given."""

    a: Any
    b: Any = field(init=False)

    def __post_init__(self) -> None:
        self.b = self.a * 2


@dataclass
class Checked:
    a: Any
    b: Any

    def __post_init__(self) -> None:
        assert self.a.ndim == 2 and self.b.shape[0] == self.a.shape[0]
        self.rows = self.a.shape[0]


@dataclass
class Given:
    a: Any
    factor: InitVar[int]


class Pair(namedtuple("Pair", "a b")):
    def __new__(cls, a: Any) -> Any:
        return super().__new__(cls, a, a + 1)


class Two(list):  # type: ignore[type-arg]
    def __init__(self, a: Any, b: Any) -> None:
        super().__init__([a, b])


class Named(dict):  # type: ignore[type-arg]
    def __init__(self, a: Any) -> None:
        super().__init__(a=a)


KEPT = {
    "a dictionary with a default": (lambda d: (d["a"] + 1, len(d["b"])), defaultdict(list, a=X)),
    "of defaults": (lambda x: defaultdict(list, a=x + 1), X),
    "counts": (lambda c: c["a"] * 2.0, Counter(a=3)),
    "in order": (lambda d: OrderedDict(b=d["b"] * 2, a=d["a"]), OrderedDict(b=X, a=X)),
    "a field that is computed": (lambda d: Computed(d.a + d.b).b, Computed(X)),
    "a field that was changed": (lambda d: d.b, X),
    "a constructor that looks at arrays": (lambda c: c.a.sum() * c.rows + c.b, Checked(X, X)),
    "a named tuple that computes": (lambda p: Pair(p.a + p.b), Pair(X)),
}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert type(found) is type(expected) and list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", KEPT)
def test_they_are_made_anew(name: str) -> None:
    function, given = KEPT[name]
    if name == "a field that was changed":
        given = Computed(given)
        given.b = X + 7
    jitted = pf.jit(function)
    for _ in range(2):
        same(jitted(given), function(given))


def test_a_default_is_made_as_the_caller_made_it() -> None:
    found = pf.jit(lambda x: defaultdict(list, a=x))(X)
    assert found["nothing"] == []


def test_objects_of_results_have_what_their_constructor_computes() -> None:
    found = pf.jit(lambda x: Computed(x))(X)
    assert type(found) is Computed
    same([found.a, found.b], [X, X * 2])


@pytest.mark.parametrize("given", [Two(X, X), Named(X), Given(X, 2)], ids=lambda g: type(g).__name__)
def test_no_constructor_runs_again(given: Any) -> None:
    """It has run, and would take something else or make something else."""

    def function(p: Any) -> Any:
        return p["a"] if isinstance(p, dict) else p.a if isinstance(p, Given) else p[0]

    same(pf.jit(function)(given), function(given))
    found = pf.jit(lambda p: p)(given)
    assert type(found) is type(given)
    same(function(found), function(given))


@pytest.mark.parametrize("static", [(), "t"])
def test_tuples_that_c_makes_are_tuples(static: Any) -> None:
    day = time.gmtime(0)
    dated = pf.jit(lambda x, t: (x * t[0] + t.tm_year, t), static=static)
    for _ in range(3):
        found, back = dated(X, day)
        same(found, X * day[0] + day.tm_year)
        assert type(back) is time.struct_time and back == day
    numbered = pf.jit(lambda x, t: x * t[1] + t.major, static=static)
    same(numbered(X, sys.version_info), X * sys.version_info[1] + sys.version_info.major)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing that other tests left is finalised at the limit of recursion, where that would fail."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_what_holds_itself_is_refused() -> None:
    ring: list[Any] = [X]
    ring.append(ring)
    with pytest.raises(ArgumentError, match="holds itself"):
        pf.jit(lambda p: p[0])(ring)

    def knotted(x: Any) -> Any:
        knot = [x]
        knot.append(knot)
        return knot

    with pytest.raises(TraceError, match="holds itself"):
        pf.jit(knotted)(X)


def test_slices_of_sizes_are_no_results() -> None:
    with pytest.raises(TraceError, match="the result has a slice, which holds a size of the trace"):
        pf.jit(lambda x: slice(0, x.shape[0]))(X)
    assert pf.jit(lambda x: slice(0, 2))(X) == slice(0, 2)


def test_classes_of_numbers_are_arguments() -> None:
    cast = pf.jit(lambda x, kind: x.astype(kind))
    for kind in (np.float32, np.int8, np.float32, float):
        assert cast(X, kind).dtype == kind


def test_sequences_are_repeated_by_the_callers_integers() -> None:
    repeated = pf.jit(lambda x, n: (np.stack([x] * n), len(n * (1, 2)), "a" * n))
    for n in (2, 3, 2):
        same(repeated(X, n), (np.stack([X] * n), 2 * n, "a" * n))
