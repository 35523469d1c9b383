"""What is what in traced code: functions, classes and objects are themselves wherever they are found."""

from __future__ import annotations

import copy
import functools
import operator
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pytest

import polyfuse as pf
from tests import identity_elsewhere

T = TypeVar("T")
X = np.arange(1.0, 4.0)


def relu(a: Any) -> Any:
    return np.maximum(a, 2)


class Norm:
    scale = 3.0


class Kept:
    value = 2.0


KEPT = Kept()


class Settings:
    activation = np.tanh
    norm = Norm
    stages = (relu,)
    library = np
    kept = KEPT
    table: ClassVar[dict[Any, float]] = {relu: 5.0, Norm: 6.0}
    part = functools.partial(relu)
    maker = np.zeros


@dataclass
class Chosen:
    kind: type = Norm
    function: Callable[..., Any] = relu


class Layer:
    registered: ClassVar[list[type]] = []
    slope = 0.0

    def __init_subclass__(cls) -> None:
        Layer.registered.append(cls)


class Dense(Layer):
    slope = 3.0

    def applied(self, a: Any) -> Any:
        return np.tanh(a) * self.slope


class Convolution(Layer):
    slope = 4.0


class Boxed(Generic[T]):
    def __init__(self, x: Any) -> None:
        self.x = x

    @property
    def half(self) -> Any:
        return np.asarray(self.x) / 2


SLOPES = {np.tanh: 2.0, np.exp: 3.0, np.sum: 4.0}
FUNCTIONS, MIXED, FIXED = [np.add, np.multiply], {relu, Norm, np.tanh}, frozenset((relu, Norm, np.exp))
DENSE = Dense()
NAME, OWN = "tanh", [len, max]
NUMBERS = {id(relu): 2.0, id(Norm): 3.0, id(np.tanh): 5.0, id(len): 7.0}
HASHES = {hash(relu): 2.0, hash(Norm): 3.0, hash(np.tanh): 5.0, hash(len): 7.0}
WEAK = weakref.WeakKeyDictionary({relu: 2.0, Norm: 3.0})


def by_default(a: Any, op: Any = np.add, act: Any = relu, kind: Any = Norm, made: Any = np.zeros) -> Any:
    known = (op is np.add, act is relu, kind is Norm, made is np.zeros)
    return a * sum(2**k for k, holds in enumerate(known) if holds)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a default": by_default,
    "a table by functions": lambda a: a * SLOPES[np.tanh] * SLOPES.get(np.sum, 9.0),
    "equal": lambda a: a * (5 if SLOPES and np.exp == np.exp and np.exp != np.log else 7),
    "in a list": lambda a: a * (5 if np.add in FUNCTIONS and np.subtract not in FUNCTIONS else 7),
    "each of a list": lambda a: a * [f is np.multiply for f in FUNCTIONS].index(True),
    "where in a list": lambda a: a * FUNCTIONS.index(np.multiply),
    "in a set": lambda a: a * (relu in MIXED) * (Norm in MIXED) * (np.tanh in MIXED) * (np.exp not in MIXED),
    "in a frozen set": lambda a: a * (relu in FIXED) * (Norm in FIXED) * (np.exp in FIXED),
    "called from a set": lambda a: sum(f(a) for f in MIXED if f is relu),
    "aliases": lambda a: a * (np.abs is np.absolute) * (np.mod is np.remainder),
    "of a kind": lambda a: a * isinstance(np.tanh, np.ufunc) * isinstance(np.sum, types.FunctionType),
    "by name": lambda a: a * (getattr(np, NAME) is np.tanh),
    "Python's own": lambda a: a * {len: 2, max: 3}[len] * ([len, max].index(max) + 1),
    "Python's own, each of a list": lambda a: a * [f is max for f in OWN].index(True),
    "Python's own, called": lambda a: a * OWN[1](2, 3) * sum(map(len, ("ab", "c"))) * functools.reduce(max, [1, 4]),
    "copied": lambda a: a * (copy.copy(np.tanh) is np.tanh) * (copy.deepcopy([np.sum])[0] is np.sum),
    "named": lambda a: a * len(np.tanh.__name__) * len(np.zeros.__name__),
    "a class's function": lambda a: a * (Settings.activation is np.tanh) * (Settings.maker is np.zeros),
    "a class's class": lambda a: a * (Settings.norm is Norm) * (type(Settings.norm()) is Norm),
    "a class's tuple": lambda a: a * (relu in Settings.stages),
    "a class's module": lambda a: a * (Settings.library is np),
    "a class's object": lambda a: a * (Settings.kept is KEPT) * isinstance(Settings.kept, Kept),
    "a class's table": lambda a: a * Settings.table[relu] * Settings.table[type(Norm())],
    "a class's partial": lambda a: a * (Settings.part.func is relu),
    "a data class's default": lambda a: a * (Chosen.kind is Norm is Chosen().kind) * (Chosen().function is relu),
    "another module's class": lambda a: a * (identity_elsewhere.Uses.kind is identity_elsewhere.Kind),
    "subclasses": lambda a: a * sum(kind.slope for kind in Layer.__subclasses__()),
    "registered": lambda a: a * Layer.registered.index(Convolution) + (type(DENSE) in Layer.registered),
    "bases": lambda a: a * (Dense.__base__ is Layer) * (Dense.__bases__ == (Layer,)) * (Layer.__base__ is object),
    "in line": lambda a: a * sum(vars(kind).get("slope", 0.0) for kind in type(DENSE).__mro__),
    "rebuilt as before": lambda a: DENSE.applied(a),
    "by numbers": lambda a: a * NUMBERS[id(relu)] * NUMBERS[id(Norm)] * NUMBERS[id(np.tanh)] * NUMBERS[id(len)],
    "by hashes": lambda a: a * HASHES[hash(relu)] * HASHES[hash(Norm)] * HASHES[hash(np.tanh)] * HASHES[hash(len)],
    "weakly": lambda a: a * WEAK[relu] * WEAK[Norm],
    "generic": lambda a: Boxed[int](a).half * (Boxed.__bases__[0] is Generic),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_python(name: str) -> None:
    function = PROGRAMS[name]
    wanted = function(X)
    for backend in ("numba_cpu", "interpreter"):
        found = pf.jit(backend=backend)(function)(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_arguments_are_what_they_are_outside() -> None:
    def chosen(a: Any, act: Any) -> Any:
        return a * (5 if act is np.tanh else 7 if act is relu else 9)

    jitted = pf.jit(chosen)
    for act in (np.tanh, relu, np.exp):
        np.testing.assert_array_equal(jitted(X, act), chosen(X, act))


def test_nothing_of_the_trace_stays_behind() -> None:
    """In sets and tables that the function writes, and among the subclasses of the user's classes."""
    seen: set[Any] = {np.exp}
    held: dict[str, Any] = {}

    def noting(a: Any) -> Any:
        seen.add(relu)
        seen.add(np.tanh)
        held["op"] = np.add
        return a * 2 + DENSE.slope

    pf.jit(noting)(X)
    assert seen == {np.exp, relu, np.tanh} and any(f is relu for f in seen) and any(f is np.tanh for f in seen)
    assert held["op"] is np.add
    assert Layer.registered == [Dense, Convolution]
    assert {kind for kind in Layer.__subclasses__() if type(kind) is type} == {Dense, Convolution}


class Marked:
    kept: ClassVar[Any] = 1.0


def test_what_traced_code_deletes_of_a_class_is_gone() -> None:
    def marking(a: Any) -> Any:
        Marked.own = np.cos
        Marked.number = 2.0
        del Marked.own, Marked.number
        return a + hasattr(Marked, "own") + hasattr(Marked, "number") + Marked.kept

    np.testing.assert_array_equal(pf.jit(marking)(X), X + 1)
    assert not hasattr(Marked, "own") and not hasattr(Marked, "number") and Marked.kept == 1.0


class Scaled:
    def __call__(self, a: Any) -> Any:
        return a * 2

    def __len__(self) -> int:
        return 2

    def __getitem__(self, k: int) -> int:
        return k


class Further(Scaled):
    pass


@pytest.mark.parametrize("kind", [Scaled, Further])
@pytest.mark.parametrize(
    ("name", "function", "other"),
    [
        ("__call__", lambda s, a: s(a), lambda self, a: a * 3),
        ("__len__", lambda s, a: a * len(s), lambda self: 3),
        ("__getitem__", lambda s, a: a * s[4], lambda self, k: k + 1),
    ],
)
def test_special_methods_that_change_are_seen(
    kind: type, name: str, function: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes in front of what another class has."""
    scaled = kind()
    jitted = pf.jit(lambda a: function(scaled, a))
    np.testing.assert_array_equal(jitted(X), function(scaled, X))
    monkeypatch.setattr(kind, name, other, raising=False)
    np.testing.assert_array_equal(jitted(X), function(scaled, X))


def test_attributes_of_attributes_that_change_are_seen() -> None:
    space = types.SimpleNamespace(sub=types.SimpleNamespace(w=np.ones(3)))
    jitted = pf.jit(lambda a: a * operator.attrgetter("sub.w")(space))
    np.testing.assert_array_equal(jitted(X), X)
    space.sub.w = space.sub.w * 5
    np.testing.assert_array_equal(jitted(X), X * 5)
