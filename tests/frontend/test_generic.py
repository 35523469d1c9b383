"""Generic functions and methods take the implementation of the user's class, in every trace."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import polyfuse as pf

X = np.arange(1.0, 4.0)


class Scale:
    def __init__(self, k: float) -> None:
        self.k = k


class Twice(Scale):
    pass


@functools.singledispatch
def applied(how: Any, x: Any) -> Any:
    return x


@applied.register
def _(how: Scale, x: Any) -> Any:
    return x * how.k


class Model:
    factor = 2.0

    @functools.singledispatchmethod
    def run(self, how: Any, x: Any) -> Any:
        return x

    @run.register
    def _(self, how: Scale, x: Any) -> Any:
        return x * how.k * self.factor


def test_functions_of_a_closure_and_of_other_dtypes() -> None:
    def model(how: Any) -> Any:
        return pf.jit(lambda x: applied(how, x))

    for how in (Scale(2.0), Twice(3.0), 1):
        function = model(how)
        for x in (X, X.astype(np.float32)):
            np.testing.assert_array_equal(function(x), applied(how, x))


def test_what_changes_is_seen() -> None:
    how, model = Scale(2.0), Model()
    function = pf.jit(lambda x: applied(how, x) + model.run(how, x) + model.run(None, x))
    for k, factor in ((2.0, 2.0), (5.0, 2.0), (5.0, 7.0)):
        how.k = k
        model.factor = factor
        np.testing.assert_array_equal(function(X), X * k + X * k * factor + X)


@functools.singledispatch
def times(how: Any, x: Any) -> Any:
    return -x


@times.register(np.ndarray)
@times.register(float)
def _(how: Any, x: Any) -> Any:
    return x * how


@times.register
def _(how: int, x: Any) -> Any:
    return x * how * 10


def test_arguments_are_of_the_class_that_the_caller_passed() -> None:
    function = pf.jit(lambda how, x: times(how, x) + times(x.sum(), x) + times(len(x), x))
    for how in (X, 2.0, 3, "text", np.float64(3.0)):
        np.testing.assert_array_equal(function(how, X), times(how, X) + times(X.sum(), X) + times(len(X), X))
