"""Values of every kind that a function finds outside of its arguments: what replaces one of them is seen."""

from __future__ import annotations

import collections
import decimal
import enum
import fractions
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]
X = np.arange(1.0, 6.0)
LONG = np.arange(5000.0)
SCALE = 2.0


class Kind(enum.Enum):
    A = 1.0
    B = 2.0


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str):
    __slots__ = ()


class Clipped:
    factor = 2.0

    def __call__(self, x: Any) -> Any:
        return np.maximum(x, 2)

    def of(self, x: Any) -> Any:
        return x


class Squeezed:
    factor = 3.0

    def __call__(self, x: Any) -> Any:
        return np.tanh(x)

    def of(self, x: Any) -> Any:
        return x * 7


class Holder:
    value: Any = None


Pair = collections.namedtuple("Pair", "scale shift")
HELD = Holder()
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "numbers of NumPy's": (lambda x: x * HELD.value, np.float32(2), np.float32(3)),
    "a number and an array": (lambda x: x * HELD.value, np.float64(2), X + 1),
    "numbers of either kind": (lambda x: x * HELD.value, np.int64(2), 3.5),
    "zeros of either sign": (lambda x: np.copysign(x, HELD.value), np.float64(0.0), np.float64(-0.0)),
    "not a number": (lambda x: x * HELD.value, np.float64("nan"), np.float64(2)),
    "numbers in tuples": (lambda x: x * HELD.value[0], (np.float64(2),), (np.float64(3),)),
    "numbers in named tuples": (lambda x: x * HELD.value.scale, Pair(np.float32(2), 0), Pair(np.float32(3), 0)),
    "numbers in lists": (lambda x: x * HELD.value[0], [np.float64(2)], [np.float64(3)]),
    "numbers in sets": (lambda x: x * sum(HELD.value), frozenset([np.float32(1)]), frozenset([np.float32(2)])),
    "complex numbers": (lambda x: x * HELD.value.real, 2 + 1j, 3 + 1j),
    "fractions": (lambda x: x * float(HELD.value), fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "decimals": (lambda x: x * float(HELD.value), decimal.Decimal("1.5"), decimal.Decimal("2.5")),
    "members of an enumeration": (lambda x: x if HELD.value is Kind.A else -x, Kind.A, Kind.B),
    "integers of an enumeration": (lambda x: x * HELD.value, Level.LOW, Level.HIGH),
    "words": (lambda x: x if HELD.value == "a" else -x, Word("a"), Word("b")),
    "ranges": (lambda x: x * len(HELD.value), range(3), range(4)),
    "slices": (lambda x: x[HELD.value], slice(0, 2), slice(1, 3)),
    "classes of numbers": (lambda x: x.astype(HELD.value), np.float32, np.float64),
    "dtypes": (lambda x: x.astype(HELD.value), np.dtype("f4"), np.dtype("i4")),
    "universal functions": (lambda x: HELD.value(x), np.exp, np.tanh),
    "functions of NumPy's": (lambda x: HELD.value(x), np.cumsum, np.sort),
    "functions of Python's": (lambda x: x * HELD.value(2.0), math.sin, math.cos),
    "classes": (lambda x: x * HELD.value.factor, Clipped, Squeezed),
    "objects that are called": (lambda x: HELD.value(x), Clipped(), Squeezed()),
    "objects with methods": (lambda x: HELD.value.of(x), Clipped(), Squeezed()),
    "objects in lists": (lambda x: HELD.value[0](x), [Clipped()], [Squeezed()]),
    "how many there are": (lambda x: sum(w * x for w in HELD.value), (X, X), (X, X, X)),
    "objects of a library": (lambda x: x * HELD.value.eps, np.finfo(np.float32), np.finfo(np.float64)),
    "partial applications": (
        lambda x: HELD.value(x), functools.partial(np.multiply, 2.0), functools.partial(np.multiply, 3.0),
    ),
    "an array of which a view is read": (lambda x: x + HELD.value[:5], LONG, LONG + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_replaces_a_value_is_seen(jit: Jit, name: str) -> None:
    function, first, second = CASES[name]
    f = jit(function)
    for value in (first, second, first):
        HELD.value = value
        for _ in range(2):
            np.testing.assert_allclose(f(X), function(X))
            assert f(X).dtype == function(X).dtype
    assert f.cache_info().traces == 2


def test_equal_values_are_no_other_program(jit: Jit) -> None:
    function = CASES["numbers of NumPy's"][0]
    f = jit(function)
    for value in (np.float64("nan"), np.float64(2), Level.HIGH):
        HELD.value = value
        f(X)
        traces = f.cache_info().traces
        HELD.value = type(value)(value)
        np.testing.assert_array_equal(f(X), function(X))
        assert f.cache_info().traces == traces


def scaled(x: Any) -> Any:
    return x * SCALE


class Numbers:
    scale = 2.0


@pytest.mark.parametrize("given", [scaled, {"f": scaled}, [scaled]], ids=["alone", "in a dictionary", "in a list"])
def test_functions_that_are_arguments_see_what_they_find(jit: Jit, given: Any) -> None:
    global SCALE
    f = jit(lambda x, g: (g["f"] if isinstance(g, dict) else g[0] if isinstance(g, list) else g)(x))
    try:
        for scale in (2.0, 3.0, 2.0):
            SCALE = scale
            for _ in range(2):
                np.testing.assert_array_equal(f(X, given), X * scale)
    finally:
        SCALE = 2.0


def test_classes_that_are_arguments_are_looked_into(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    f = jit(lambda x, kind: x * kind.scale)
    for scale in (2.0, 3.0):
        monkeypatch.setattr(Numbers, "scale", scale)
        for _ in range(2):
            np.testing.assert_array_equal(f(X, Numbers), X * scale)
