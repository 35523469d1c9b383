"""Classes of the user's inside of jitted functions: built there, derived, matched, returned."""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import pytest

import polyfuse as pf
from tests.frontend.ops import assert_same

X = np.linspace(-2, 3, 7)
T = TypeVar("T")


class Base:
    def __init__(self, k: float) -> None:
        self.k, self.log = k, []

    def zeros(self, x: Any) -> Any:
        return np.zeros(len(x), dtype=x.dtype)

    def run(self, x: Any) -> Any:
        self.log.append(self.__class__.__name__)
        return self.zeros(x) + x * self.k


class Middle(Base):
    def __init__(self, k: float, b: float) -> None:
        super().__init__(k)
        self.b = b

    def run(self, x: Any) -> Any:
        return super().run(x) + self.b


class Named(Middle):
    def run(self, x: Any) -> Any:
        return super(Named, self).run(x) * 2 + Middle.zeros(self, x)  # noqa: UP008


class Other:
    def run(self, x: Any) -> Any:
        return np.ones(len(x), x.dtype)


class Both(Named, Other):
    def run(self, x: Any) -> Any:
        return Named.run(self, x) + Other.run(self, x)


def inherited(x: Any) -> Any:
    one, two = Named(2, 1), Both(3, 1)
    result = one.run(x) + two.run(x)
    kinds = [isinstance(one, Base), isinstance(one, Both), type(one) is Named, issubclass(Both, Middle)]
    return result, kinds == [True, False, True, True] and one.log == ["Named"]


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x: Any) -> Any: ...


class Circle(Shape):
    def __init__(self, r: float) -> None:
        self.r = r

    def area(self, x: Any) -> Any:
        return np.pi * self.r**2 * np.ones(x.shape)


NUMBERS = {Circle: 3.0}


def matched(x: Any) -> Any:
    shape: Shape = Circle(2.0)
    match shape:
        case Circle(r=r):
            return shape.area(x) * r * NUMBERS[type(shape)]
    return x


class Pair(NamedTuple):
    a: Any
    b: Any

    def total(self) -> Any:
        return np.asarray(self.a) + np.asarray(self.b) + np.zeros(len(self.a))


def named_tuple(x: Any) -> Any:
    pair = Pair(x, x * 2)._replace(b=x + 1)
    first, _ = pair
    return pair, pair.total(), first, len(pair)


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    n: int = 2
    tags: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.n + 1)

    def __call__(self, x: Any) -> Any:
        return np.asarray(self.w) * x * self.n + np.zeros(x.shape[0])

    def __add__(self, other: Frozen) -> Frozen:
        return Frozen(self.w + other.w)


@dataclasses.dataclass(slots=True)
class Slotted:
    w: Any

    def run(self, x: Any) -> Any:
        return np.zeros(len(x)) + self.w


def data_classes(x: Any) -> Any:
    frozen = Frozen(x) + Frozen(np.ones(len(x), x.dtype))
    return frozen(x), Slotted(x).run(x), dataclasses.replace(Slotted(x), w=x + 1).w, dataclasses.asdict(Slotted(x))["w"]


class Tree:
    def __init__(self) -> None:
        self.parts: list[Tree] = []
        self.functions: list[Callable[[Any], Any]] = []

    def add(self, part: Tree) -> Tree:
        self.parts.append(part)
        return self

    def total(self, x: Any) -> Any:
        total = np.zeros(len(x), x.dtype)
        for part in self.parts:
            total = total + part.total(x)
        for function in self.functions:
            total = total + function(x)
        return total + 1


def nested(x: Any) -> Any:
    tree = Tree().add(Tree().add(Tree())).add(Tree())
    tree.functions.append(lambda v: v * 2)
    tree.functions.append(np.sin)
    tree.functions.append(lambda v: np.ones(len(v)))
    return tree.total(x), len(tree.functions), len(tree.parts)


class Properties(Generic[T]):
    def __init__(self, x: Any) -> None:
        self.x = x

    @functools.cached_property
    def longer(self) -> Any:
        return np.zeros(len(self.x)) + self.x

    @property
    def twice(self) -> Any:
        return self.half * 4

    @twice.setter
    def twice(self, value: Any) -> None:
        self.half = np.asarray(value) / 2

    @classmethod
    def made(cls, x: Any) -> Properties[T]:
        return cls(np.ones(len(x)) * x)


def properties(x: Any) -> Any:
    made: Properties[int] = Properties.made(x)
    made.twice = x
    return made.longer + made.longer, made.twice, Properties[int](x).longer


def copies(x: Any) -> Any:
    z = x * 2
    y, w = copy.copy(z), copy.deepcopy({"z": z, "n": x.shape[0]})
    y += 1
    w["z"][0] = 5
    return x, y, z, w["z"] * w["n"]


class Hooked:
    factor: float
    ramp: Any

    def __init_subclass__(cls, factor: float = 2.0, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.factor, cls.ramp = factor, np.arange(7.0)


class Counted(Hooked):
    names: ClassVar[list[str]] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Counted.names.append(cls.__name__)


class Once(Counted, factor=3.0):
    pass


def hooks(x: Any) -> Any:
    class Usual(Hooked):
        pass

    class Other(Usual, factor=5.0):
        def run(self, x: Any) -> Any:
            return x * self.factor + self.ramp

    return Other().run(x) + Usual.factor + Once.factor


@pytest.mark.parametrize(
    "function",
    [inherited, matched, named_tuple, data_classes, nested, properties, copies, hooks],
    ids=lambda f: f.__name__,
)
def test_against_numpy(function: Any) -> None:
    assert_same(pf.jit(backend="interpreter")(function)(X), function(X))


def test_results_are_of_the_users_classes() -> None:
    def function(s: Slotted, x: Any) -> Any:
        return s, Slotted(x), Pair(x, s.w)

    given, made, pair = pf.jit(backend="interpreter")(function)(Slotted(X), X)
    assert (type(given), type(made), type(pair)) == (Slotted, Slotted, Pair)


def test_classes_stay_as_they_were() -> None:
    before = {kind: dict(vars(kind)) for kind in (Base, Named, Frozen, Tree)}
    pf.jit(backend="interpreter")(lambda x: (inherited(x), data_classes(x), nested(x)))(X)
    assert {kind: dict(vars(kind)) for kind in before} == before


def test_hooks_of_derived_classes_run_for_no_stand_in() -> None:
    assert_same(pf.jit(backend="interpreter")(lambda x: x * Once.factor)(X), X * 3)
    assert Counted.names == ["Once"]
