"""Jitted methods: the object is part of the program, its arrays are read at each call, its plain values are guards."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError

X = np.random.default_rng(3).standard_normal((5, 7))


class Layer:
    def __init__(self, scale: float = 2.0, kind: str = "relu") -> None:
        self.weight, self.scale, self.kind = np.ones(7), scale, kind

    @pf.jit
    def forward(self, x: Any) -> Any:
        y = x * self.weight * self.scale
        return np.maximum(y, 0) if self.kind == "relu" else self.shifted(y)

    @pf.jit(static=("by",))
    def shifted(self, y: Any, by: int = 3) -> Any:
        return y + by

    @staticmethod
    @pf.jit
    def doubled(x: Any) -> Any:
        return 2 * x

    @classmethod
    @pf.jit
    def named(cls, x: Any) -> Any:
        return x + len(cls.__name__)

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def plainly(self, x: Any) -> Any:
        y = x * self.weight * self.scale
        return np.maximum(y, 0) if self.kind == "relu" else y + 3


def test_every_object_has_a_program_of_its_own_even_among_equals() -> None:
    a, b = Layer(), Layer(5.0, "shift")
    for layer in (a, b, a, b, a, b):
        np.testing.assert_allclose(layer.forward(X), layer.plainly(X))
    np.testing.assert_allclose(Layer.forward(a, X), a.plainly(X))


def test_attributes_are_seen_as_they_are() -> None:
    layer = Layer()
    for _ in range(3):
        np.testing.assert_allclose(layer.forward(X), layer.plainly(X))
    traces = Layer.forward.cache_info().traces
    layer.weight[:] = 4
    np.testing.assert_allclose(layer.forward(X), layer.plainly(X))
    layer.weight = np.arange(7.0)
    np.testing.assert_allclose(layer.forward(X), layer.plainly(X))
    assert Layer.forward.cache_info().traces == traces
    for name, value in (("scale", -1.0), ("kind", "shift"), ("weight", np.ones((5, 1)))):
        setattr(layer, name, value)
        for _ in range(3):
            np.testing.assert_allclose(layer.forward(X), layer.plainly(X))


def test_methods_call_each_other_in_one_kernel_and_have_plans() -> None:
    layer = Layer(kind="shift")
    plan = layer.forward.plan(pf.spec("f64[N, 7]"), target="h200")
    assert len(plan.kernels) == 1
    assert "shifted" not in str(plan)
    np.testing.assert_allclose(layer.shifted(X, by=5), X + 5)
    outer = pf.jit(lambda x: layer.forward(x) * 2)
    np.testing.assert_allclose(outer(X), layer.plainly(X) * 2)
    layer.scale = 7.0
    np.testing.assert_allclose(outer(X), layer.plainly(X) * 2)
    np.testing.assert_allclose(pf.jit(layer.forward)(X), layer.plainly(X))
    out = np.empty_like(X)
    launch = layer.forward.bind(X, out=out)
    launch()
    np.testing.assert_allclose(out, layer.plainly(X))


def test_static_methods_and_class_methods() -> None:
    np.testing.assert_allclose(Layer.doubled(X), 2 * X)
    np.testing.assert_allclose(Layer().doubled(X), 2 * X)
    np.testing.assert_allclose(Layer.named(X), X + 5)


def test_either_order_of_decorators() -> None:
    class Tools:
        @pf.jit
        @staticmethod
        def doubled(x: Any) -> Any:
            return x * 2

        def twice(self, x: Any) -> Any:
            return self.doubled(self.doubled(x))

    np.testing.assert_allclose(Tools.doubled(X), 2 * X)
    np.testing.assert_allclose(Tools().doubled(X), 2 * X)
    np.testing.assert_allclose(pf.jit(Tools().twice)(X), 4 * X)
    with pytest.raises(ArgumentError, match="Write @classmethod above @jit"):
        pf.jit(classmethod(lambda cls, x: x))


def test_what_a_class_method_finds_in_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaled:
        scale = 2.0

        @classmethod
        @pf.jit
        def applied(cls, x: Any) -> Any:
            return x * cls.scale

    for scale in (2.0, 3.0):
        monkeypatch.setattr(Scaled, "scale", scale)
        for _ in range(2):
            np.testing.assert_allclose(Scaled.applied(X), X * scale)


def test_a_method_that_a_class_gets_later() -> None:
    class Late:
        scale = 3.0

    def scaled(self: Any, x: Any) -> Any:
        return x * self.scale

    Late.scaled = pf.jit(scaled)  # type: ignore[attr-defined]
    late: Any = Late()
    np.testing.assert_allclose(late.scaled(X), X * 3)
    late.scale = 2.0
    np.testing.assert_allclose(late.scaled(X), X * 2)


def test_a_dataclass_stays_a_container_of_arrays() -> None:
    @dataclass
    class Pair:
        a: Any
        b: Any

        @pf.jit
        def total(self) -> Any:
            return (self.a * self.b).sum()

    np.testing.assert_allclose(Pair(X, 2.0).total(), 2 * X.sum())
    np.testing.assert_allclose(Pair(X, 3.0).total(), 3 * X.sum())
    assert Pair.total.cache_info().traces == 1


def test_an_object_that_is_no_receiver_is_still_refused() -> None:
    with pytest.raises(pf.errors.ArgumentError, match="other is a Layer, neither an array"):
        pf.jit(lambda x, other: x * other.scale)(X, Layer())


def timed(function: Any) -> Any:
    return functools.wraps(function)(lambda *args: function(*args))


class Decorated:
    def __init__(self) -> None:
        self.scale = 2.0

    @timed
    @pf.jit
    def scaled(self, x: Any) -> Any:
        return x * self.scale

    @property
    @pf.jit
    def table(self) -> Any:
        return np.arange(3.0) * self.scale

    @staticmethod
    @timed
    @pf.jit
    def doubled(x: Any) -> Any:
        return x * 2


class Derived(Decorated):
    @pf.jit
    def scaled(self, x: Any) -> Any:
        return super().scaled(x) + self.table[1]


def test_what_other_decorators_call_is_a_method_as_well() -> None:
    for kind in (Decorated, Derived):
        held, shift = kind(), 1.0 if kind is Derived else 0.0
        for scale in (2.0, 3.0):
            held.scale = scale
            np.testing.assert_allclose(held.scaled(X), X * scale + shift * scale)
            np.testing.assert_allclose(held.table, np.arange(3.0) * scale)
            np.testing.assert_allclose(held.doubled(X), 2 * X)


def test_bound_methods_are_equal_copied_and_pickled_as_those_of_python() -> None:
    layer = Layer()
    assert layer.forward == layer.forward and layer.forward != Layer().forward and layer.forward != layer.shifted
    assert len({layer.forward, layer.forward}) == 1 and layer.forward != 3
    assert layer.forward.__self__ is layer and layer.forward.__func__ is Layer.forward
    for again in (copy.copy, copy.deepcopy, lambda method: pickle.loads(pickle.dumps(method))):
        method = again(layer.forward)
        assert method.__func__ is Layer.forward
        np.testing.assert_allclose(method(X), layer.plainly(X))
    copied = copy.deepcopy(layer.forward)
    layer.scale = 7.0
    np.testing.assert_allclose(copied(X), Layer().plainly(X))
