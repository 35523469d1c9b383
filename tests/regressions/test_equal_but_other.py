"""Calls that share no program though Python calls what they pass equal: keys and static values of other types, and
classes of arguments whose attributes changed between two calls."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import polyfuse as pf

N, X = np.arange(4), np.arange(4.0)


def by_keys(x: Any, d: Any) -> Any:
    for key, value in d.items():
        x = x + value * (key[0] if isinstance(key, tuple) else key)
    return x


@pytest.mark.parametrize("first, second", [(1, 1.0), (True, 1.0), ((2,), (2.0,)), (np.int64(3), 3.0)])
def test_keys_that_are_equal_and_of_other_types(first: Any, second: Any) -> None:
    function = pf.jit(by_keys)
    for key in (first, second, first):
        for _ in range(2):
            found, expected = function(N, {key: N}), by_keys(N, {key: N})
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@dataclasses.dataclass(frozen=True)
class Factor:
    a: Any


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.mark.parametrize("first, second", [(Factor(2), Factor(2.0)), (Pair(2, 1), Pair(2.0, 1))])
def test_static_values_that_are_equal_and_of_other_types(first: Any, second: Any) -> None:
    function = pf.jit(lambda x, q: x * q.a, static=("q",))
    for value in (first, second, first):
        assert function(N, value).dtype == (N * value.a).dtype


def test_static_values_inside_others() -> None:
    function = pf.jit(lambda x, q: x / q[0][0].a, static=("q",))
    with np.errstate(divide="ignore"):
        for zero in (0.0, -0.0, 0.0):
            np.testing.assert_array_equal(function(X + 1, ((Factor(zero),),)), (X + 1) / zero)


def test_attributes_and_methods_of_the_classes_of_arguments_may_change() -> None:
    @dataclasses.dataclass
    class Layer:
        w: Any
        scale: ClassVar[float] = 2.0

        def apply(self, x: Any) -> Any:
            return x * self.w * self.scale

    class Table(dict):  # type: ignore[type-arg]
        offset = 1.0

    def run(x: Any, layers: Any, table: Any) -> Any:
        for layer in layers:
            x = layer.apply(x)
        return x + table["b"] * table.offset

    function, arguments = pf.jit(run), (X, [Layer(X), Layer(X + 1)], Table(b=X))
    np.testing.assert_array_equal(function(*arguments), run(*arguments))
    Layer.scale = 3.0
    np.testing.assert_array_equal(function(*arguments), run(*arguments))
    Table.offset = -1.0
    np.testing.assert_array_equal(function(*arguments), run(*arguments))
    Layer.apply = lambda self, x: x - self.w  # type: ignore[method-assign]
    np.testing.assert_array_equal(function(*arguments), run(*arguments))


def test_a_class_called_as_a_static_parameter_is() -> None:
    @dataclasses.dataclass
    class Scale:
        w: Any
        k: ClassVar[float] = 2.0

    Scale.__name__ = Scale.__qualname__ = "scale"
    function = pf.jit(lambda x, p, scale: x * p.k * scale, static=("scale",))
    for k in (2.0, 5.0):
        Scale.k = k
        for scale in (3, 4):
            np.testing.assert_array_equal(function(X, Scale(X), scale), X * k * scale)
