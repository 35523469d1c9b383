"""What Python's own decorators keep, `cached_property` and `lru_cache`, they keep in traced code as well."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

import polyfuse as pf

X = np.arange(1.0, 4.0)


class Model:
    def __init__(self) -> None:
        self.k, self.w, self.computed = 2.0, np.ones(3), 0

    @functools.cached_property
    def table(self) -> Any:
        return np.arange(3) * self.k * self.w

    @functools.cached_property
    def parts(self) -> Any:
        return {"own": [self.w, self], "made": (self.w * 2,)}

    def applied(self, x: Any) -> Any:
        return x * self.table

    def in_parts(self, x: Any) -> Any:
        return x * self.parts["own"][0] + self.parts["made"][0] * (self.parts["own"][1] is self)


def test_a_cached_property_is_the_objects_own() -> None:
    """What it was computed of may change afterwards, as in Python."""
    model, eager = Model(), Model()
    jitted = pf.jit(lambda x: model.applied(x))

    def check() -> None:
        np.testing.assert_array_equal(jitted(X), eager.applied(X))
        assert type(model.__dict__["table"]) is np.ndarray

    check()
    model.k = eager.k = 7.0
    check()
    model.table, eager.table = X, X
    check()
    del model.table, eager.table
    check()


def test_what_a_cached_property_holds_is_the_objects_own() -> None:
    model = Model()
    np.testing.assert_array_equal(pf.jit(lambda x: model.in_parts(x))(X), Model().in_parts(X))
    own, held = model.__dict__["parts"]["own"]
    assert own is model.w and held is model and type(model.parts["made"][0]) is np.ndarray


@dataclasses.dataclass
class Passed:
    a: Any

    @functools.cached_property
    def twice(self) -> Any:
        return self.a * 2

    @functools.cached_property
    def five(self) -> float:
        return 5.0


def test_arguments_stay_as_they_are() -> None:
    passed = Passed(X)
    np.testing.assert_array_equal(pf.jit(lambda p: p.twice * p.five + p.twice)(passed), X * 12)
    assert passed.__dict__.keys() == {"a"}


@functools.lru_cache
def table_of(model: Model) -> Any:
    model.computed += 1
    return np.arange(3) * model.k


class Caching(Model):
    def scaled(self, x: Any) -> Any:
        return x * table_of(self)


def test_a_caching_function_computes_once() -> None:
    model = Caching()
    jitted = pf.jit(lambda x: model.scaled(x))
    for k in (2.0, 7.0):
        model.k = k
        np.testing.assert_array_equal(jitted(X), X * np.arange(3) * 2)
    assert model.computed == 1


class Node:
    def __init__(self, k: Any) -> None:
        self.k, self.next = k, [self]

    def itself(self) -> Any:
        return self

    own = functools.lru_cache(itself)


@functools.lru_cache
def about(node: Node) -> dict[str, Any]:
    return {"node": node, "class": type(node), "first": node.next[0]}


def test_what_a_cache_keeps_is_the_users() -> None:
    """Stand-ins are equal to their objects: what a trace put into a cache the user found there."""
    node = Node(2.0)

    @pf.jit
    def function(x: Any) -> Any:
        same = node.own() is node and about(node)["node"] is node and about(node)["class"] is Node
        return x * node.own().k * about(node)["first"].k * same

    np.testing.assert_array_equal(function(X), 4 * X)
    assert node.own() is node and about(node) == {"node": node, "class": Node, "first": node}
    assert type(about(node)["node"]) is Node and about(node)["first"] is node
    node.own().k = 3.0
    np.testing.assert_array_equal(function(X), 9 * X)


def test_nothing_of_a_trace_is_kept() -> None:
    @functools.lru_cache
    def doubled(node: Any) -> Any:
        return getattr(node, "k", node) * 2

    np.testing.assert_array_equal(pf.jit(lambda x: doubled(Node(x)) + doubled(3.0))(X), X * 2 + 6)
    assert doubled.cache_info().currsize == 1 and doubled(3.0) == 6.0
