"""Values in collections, under computed names, and methods that are replaced: a call sees them as they are."""

from __future__ import annotations

import random
import types
import weakref
from array import array
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import TraceError, UnsupportedError
from tests.run.outside import Change, Jit, Place, X, assert_seen


def in_a_long_list() -> tuple[Callable[..., Any], Change]:
    table = [0.0] * 1000 + [3.0]
    return lambda x: x * sum(table), lambda: table.__setitem__(700, 1.0)


def in_a_large_dictionary() -> tuple[Callable[..., Any], Change]:
    table = {(k, k): 3.0 for k in range(1000)}
    return lambda x: x * table[900, 900], lambda: table.update({(900, 900): 4.0})


def an_array_far_down_a_long_list() -> tuple[Callable[..., Any], Change]:
    table = [np.full(3, 3.0) for _ in range(300)]
    return lambda x: x * table[280], lambda: table.__setitem__(280, np.full(3, 4.0))


def in_a_dictionary_far_down_a_long_list() -> tuple[Callable[..., Any], Change]:
    table = [{"scale": 3.0} for _ in range(300)]
    return lambda x: x * table[280]["scale"], lambda: table[280].update(scale=4.0)


class Named(dict[str, Any]):
    __getattr__ = dict.__getitem__


def in_a_dictionary_whose_keys_are_attributes() -> tuple[Callable[..., Any], Change]:
    """Of what it has not, a KeyError tells."""
    table = Named(scale=3.0)
    return lambda x: x * table.scale, lambda: table.update(scale=4.0)


class Looked:
    def __init__(self, **held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["held"][name]


def in_an_object_that_looks_names_up() -> tuple[Callable[..., Any], Change]:
    table = Looked(scale=3.0)
    return lambda x: x * table.scale, lambda: table.held.update(scale=4.0)


def the_order_of_a_dictionary() -> tuple[Callable[..., Any], Change]:
    table = {"a": 3.0, "b": 4.0}
    return lambda x: x * next(iter(table.values())), lambda: table.update(a=table.pop("a"))


class Scaled:
    """All are shown alike."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __repr__(self) -> str:
        return "Scaled"


def in_an_object_of_a_set() -> tuple[Callable[..., Any], Change]:
    one = Scaled(1.0)
    held = {one, Scaled(2.0)}
    return lambda x: x * sum(each.k for each in held), lambda: setattr(one, "k", 4.0)


def in_an_object_of_a_frozen_set() -> tuple[Callable[..., Any], Change]:
    one = Scaled(1.0)
    held = frozenset((one, Scaled(2.0)))
    return lambda x: x * sum(each.k for each in held), lambda: setattr(one, "k", 4.0)


def in_an_object_that_is_a_key() -> tuple[Callable[..., Any], Change]:
    one = Scaled(3.0)
    held = {one: 1.0}
    return lambda x: x * sum(key.k * value for key, value in held.items()), lambda: setattr(one, "k", 4.0)


def under_one_of_two_keys_that_are_shown_alike() -> tuple[Callable[..., Any], Change]:
    one = Scaled(0.0)
    held = {one: 1.0, Scaled(0.0): 2.0}
    return lambda x: x * sum(held.values()), lambda: held.update({one: 4.0})


def under_a_weak_key() -> tuple[Callable[..., Any], Change]:
    one = Scaled(0.0)
    held = weakref.WeakKeyDictionary({one: 3.0})
    return lambda x: x * held[one], lambda: held.update({one: 4.0})


def behind_a_read_only_view() -> tuple[Callable[..., Any], Change]:
    table = {"scale": 3.0}
    shown = types.MappingProxyType(table)
    return lambda x: x * shown["scale"], lambda: table.update(scale=4.0)


def among_the_values_of_a_dictionary() -> tuple[Callable[..., Any], Change]:
    table = {"scale": 3.0}
    values = table.values()
    return lambda x: x * sum(values), lambda: table.update(scale=4.0)


def in_a_chain_of_dictionaries() -> tuple[Callable[..., Any], Change]:
    table = {"scale": 3.0}
    chain = ChainMap({}, table)
    return lambda x: x * chain["scale"], lambda: table.update(scale=4.0)


def in_a_dictionary_written_in_python() -> tuple[Callable[..., Any], Change]:
    table = UserDict(scale=3.0)
    return lambda x: x * table["scale"], lambda: table.update(scale=4.0)


class Scales(UserList[float]):
    def first(self) -> float:
        return self[0]


def in_a_list_written_in_python() -> tuple[Callable[..., Any], Change]:
    table = Scales([3.0])
    return lambda x: x * table.first(), lambda: table.__setitem__(0, 4.0)


class Options(dict[str, float]):
    factor = 1.0

    def scaled(self, x: Any) -> Any:
        return x * self["scale"] * self.factor


def an_attribute_of_a_dictionary() -> tuple[Callable[..., Any], Change]:
    table = Options(scale=3.0)
    return lambda x: table.scaled(x), lambda: setattr(table, "factor", 2.0)


def in_an_array_of_python() -> tuple[Callable[..., Any], Change]:
    table = array("d", [3.0])
    return lambda x: x * table[0], lambda: table.__setitem__(0, 4.0)


def in_bytes_that_change() -> tuple[Callable[..., Any], Change]:
    table = bytearray([3])
    return lambda x: x * table[0], lambda: table.__setitem__(0, 4)


def in_a_context_variable() -> tuple[Callable[..., Any], Change]:
    scale: ContextVar[float] = ContextVar("scale", default=3.0)
    return lambda x: x * scale.get(), lambda: scale.set(4.0)


def by_a_method_of_a_dictionary() -> tuple[Callable[..., Any], Change]:
    table = {"scale": 3.0}
    look_up = table.get
    return lambda x: x * look_up("scale"), lambda: table.update(scale=4.0)


class Model:
    kind = "plain"

    def __init__(self) -> None:
        self.scale1, self.weight1 = 3.0, np.full(3, 3.0)

    def factor(self) -> float:
        return 3.0

    def applied(self, x: Any) -> Any:
        return x * self.factor()


class Further(Model):
    def factor(self) -> float:
        return super().factor()


def behind_a_weak_reference() -> tuple[Callable[..., Any], Change]:
    model = Model()
    weak = weakref.ref(model)
    return lambda x: x * weak().scale1, lambda: setattr(model, "scale1", 4.0)  # type: ignore[union-attr]


def under_a_name_that_is_computed() -> tuple[Callable[..., Any], Change]:
    model = Model()
    return lambda x: x * getattr(model, f"scale{len(x.shape)}"), lambda: setattr(model, "scale1", 4.0)


def an_array_under_a_name_that_is_computed() -> tuple[Callable[..., Any], Change]:
    model = Model()
    return lambda x: x * getattr(model, f"weight{len(x.shape)}"), partial(setattr, model, "weight1", np.full(3, 4.0))


def among_all_attributes() -> tuple[Callable[..., Any], Change]:
    held = types.SimpleNamespace(a=1.0, b=2.0)
    return lambda x: x * sum(vars(held).values()), lambda: setattr(held, "b", 3.0)


def which_method_a_class_has() -> tuple[Callable[..., Any], Change]:
    kind = type("Mine", (Model,), {"__module__": __name__})
    return kind().applied, lambda: setattr(kind, "factor", lambda self: 4.0)


def which_method_an_object_has() -> tuple[Callable[..., Any], Change]:
    model = Model()
    return model.applied, lambda: setattr(model, "factor", lambda: 4.0)


def which_method_is_inherited() -> tuple[Callable[..., Any], Change]:
    base = type("Base", (Model,), {"factor": lambda self: 3.0, "__module__": __name__})
    kind = type("Mine", (base,), {"factor": lambda self: super(kind, self).factor(), "__module__": __name__})
    return kind().applied, lambda: setattr(base, "factor", lambda self: 4.0)


class Descriptor:
    def __get__(self, instance: Any, owner: Any = None) -> float:
        return float(instance.held["scale"])


class Described:
    scale = Descriptor()

    def __init__(self) -> None:
        self.held = {"scale": 3.0}


def behind_a_descriptor() -> tuple[Callable[..., Any], Change]:
    described = Described()
    return lambda x: x * described.scale, lambda: described.held.update(scale=4.0)


class Field:
    def __init__(self, *default: float) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return getattr(instance, self.name, *self.default)

    def __set__(self, instance: Any, value: float) -> None:
        setattr(instance, self.name, value)


class Fielded:
    given, assumed = Field(), Field(1.0)

    def scaled(self, x: Any) -> Any:
        return x * self.given * self.assumed


def behind_a_descriptor_that_computes_a_name() -> tuple[Callable[..., Any], Change]:
    fielded = Fielded()
    fielded.given = 3.0
    return fielded.scaled, lambda: setattr(fielded, "given", 4.0)


def behind_a_descriptor_that_computes_a_name_of_nothing() -> tuple[Callable[..., Any], Change]:
    fielded = Fielded()
    fielded.given = 3.0
    return fielded.scaled, lambda: setattr(fielded, "assumed", 4.0)


def under_a_computed_name_of_nothing() -> tuple[Callable[..., Any], Change]:
    held = types.SimpleNamespace(w0=3.0)
    return lambda x: x * sum(getattr(held, f"w{k}", 0.0) for k in range(2)), lambda: setattr(held, "w1", 4.0)


def whether_something_is_under_a_computed_name() -> tuple[Callable[..., Any], Change]:
    held = types.SimpleNamespace()
    return lambda x: x * (3 + hasattr(held, f"w{len(x)}")), lambda: setattr(held, "w3", None)


class Translating:
    """Looks up some names under others, and what it takes itself tells nothing."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, "_k" if name == "k" else name)
        return found[0] if name == "large" else found


class Inherited(Translating):
    def __getattribute__(self, name: str) -> Any:
        if name == "held":
            return object.__getattribute__(self, "__dict__")["held"]["k"]
        return super().__getattribute__("k" if name == "kk" else name)

    def scaled(self, x: Any) -> Any:
        return x * self.kk


def by_a_look_up_of_the_users() -> tuple[Callable[..., Any], Change]:
    held = Translating(_k=3.0)
    return lambda x: x * held.k, lambda: setattr(held, "_k", 4.0)


def by_a_look_up_that_is_inherited() -> tuple[Callable[..., Any], Change]:
    held = Inherited(_k=3.0)
    return held.scaled, lambda: setattr(held, "_k", 4.0)


def by_a_look_up_that_gives_something_else() -> tuple[Callable[..., Any], Change]:
    table = {"k": 3.0}
    held = Inherited(held=table)
    return lambda x: x * held.held, lambda: table.update(k=4.0)


def by_a_look_up_that_reads_an_array() -> tuple[Callable[..., Any], Change]:
    large = np.full(10_000, 3.0)
    held = Translating(large=large)
    return lambda x: x * held.large, lambda: large.fill(4.0)


class Meta(type):
    _scale: float

    @property
    def scale(cls) -> float:
        return cls._scale


def behind_a_property_of_a_class() -> tuple[Callable[..., Any], Change]:
    kind: Any = Meta("Mine", (), {"_scale": 3.0, "__module__": __name__})
    return lambda x: x * kind.scale, lambda: setattr(kind, "_scale", 4.0)


PLACES = (
    *(in_a_long_list, in_a_large_dictionary, an_array_far_down_a_long_list, in_a_dictionary_far_down_a_long_list),
    *(in_a_dictionary_whose_keys_are_attributes, in_an_object_that_looks_names_up),
    *(the_order_of_a_dictionary, which_method_an_object_has),
    *(in_an_object_of_a_set, in_an_object_of_a_frozen_set, in_an_object_that_is_a_key),
    *(under_one_of_two_keys_that_are_shown_alike, under_a_weak_key),
    *(behind_a_read_only_view, among_the_values_of_a_dictionary, in_a_chain_of_dictionaries),
    *(in_a_dictionary_written_in_python, in_a_list_written_in_python, an_attribute_of_a_dictionary),
    *(in_an_array_of_python, in_bytes_that_change, in_a_context_variable, by_a_method_of_a_dictionary),
    *(behind_a_weak_reference, under_a_name_that_is_computed, an_array_under_a_name_that_is_computed),
    *(among_all_attributes, which_method_a_class_has, which_method_is_inherited),
    *(behind_a_descriptor, behind_a_property_of_a_class),
    *(behind_a_descriptor_that_computes_a_name, behind_a_descriptor_that_computes_a_name_of_nothing),
    *(by_a_look_up_of_the_users, by_a_look_up_that_is_inherited),
    *(by_a_look_up_that_gives_something_else, by_a_look_up_that_reads_an_array),
    *(under_a_computed_name_of_nothing, whether_something_is_under_a_computed_name),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_value_that_changes_is_seen(jit: Jit, place: Place) -> None:
    assert_seen(jit, place)


def test_what_stays_the_same_is_no_other_trace(jit: Jit) -> None:
    """Equal numbers that were made anew, and containers of arrays that change in place."""
    table, weights = [float(k) for k in range(1000)], [np.ones(3) for _ in range(300)]
    f = jit(lambda x: x * table[500] * weights[290])
    f(X)
    table[:] = [float(k) for k in range(1000)]
    weights[290] += 1
    assert np.array_equal(f(X), np.full(3, 1000.0)) and f.cache_info().traces == 1


@pytest.mark.parametrize("make", [iter, reversed, enumerate, lambda values: zip(values, values, strict=True)])
def test_iterators_of_python_are_read_outside(jit: Jit, make: Callable[..., Any]) -> None:
    values = make([1.0, 2.0, 3.0])
    with pytest.raises(TraceError, match="is read when the function is traced"):
        jit(lambda x: x * np.sum(next(values)))(X)


def test_generators_of_random_numbers_draw_outside(jit: Jit) -> None:
    dice, gauss = random.Random(0), random.Random(0).gauss
    for function in (lambda x: x * dice.random(), lambda x: x * gauss(0, 1)):
        with pytest.raises(UnsupportedError, match="would be drawn once"):
            jit(function)(X)


def test_variables_and_attributes_by_name_are_those_of_python(jit: Jit) -> None:
    def scaled(x: Any) -> Any:
        return vars()["x"] * (3.0 if hasattr(x, "shape") and not hasattr(x, "nothing") else getattr(x, "nothing", 1.0))

    assert np.array_equal(jit(scaled)(X), scaled(X))
