"""Values that a function finds outside of its arguments: a call sees them as they are, wherever they are kept."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.installed import is_users
from polyfuse.run.captures import watch
from polyfuse.run.reach import reach
from tests.run.outside import Change, Jit, Place, X, assert_seen


class Settings:
    scale = 3.0

    def __init__(self, value: float = 3.0) -> None:
        self.value = value

    @property
    def doubled(self) -> float:
        return 2 * self.value

    def by_class(self, x: Any) -> Any:
        return x * self.scale

    def __call__(self, x: Any) -> Any:
        return x * self.value


class Slots:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 3.0


def in_a_module() -> tuple[Callable[..., Any], Change]:
    module = types.ModuleType("settings_of_a_user")
    module.scale = 3.0  # type: ignore[attr-defined]
    return lambda x: x * module.scale, lambda: setattr(module, "scale", 4.0)


def in_a_class() -> tuple[Callable[..., Any], Change]:
    kind = type("Mine", (Settings,), {"scale": 3.0, "__module__": __name__})
    return lambda x: x * kind.scale, lambda: setattr(kind, "scale", 4.0)


def in_the_class_of_a_method() -> tuple[Callable[..., Any], Change]:
    kind = type("Mine", (Settings,), {"scale": 3.0, "__module__": __name__})
    return kind().by_class, lambda: setattr(kind, "scale", 4.0)


def in_a_slot() -> tuple[Callable[..., Any], Change]:
    slots = Slots()
    return lambda x: x * slots.value, lambda: setattr(slots, "value", 4.0)


def behind_a_property() -> tuple[Callable[..., Any], Change]:
    settings = Settings(1.5)
    return lambda x: x * settings.doubled, lambda: setattr(settings, "value", 2.0)


def in_an_object_that_is_called() -> tuple[Callable[..., Any], Change]:
    settings = Settings()
    return settings, lambda: setattr(settings, "value", 4.0)


def in_a_partial_application() -> tuple[Callable[..., Any], Change]:
    settings = Settings()
    return partial(lambda held, x: x * held.value, settings), lambda: setattr(settings, "value", 4.0)


def on_the_function_itself() -> tuple[Callable[..., Any], Change]:
    def scaled(x: Any) -> Any:
        return x * scaled.scale  # type: ignore[attr-defined]

    scaled.scale = 3.0  # type: ignore[attr-defined]
    return scaled, lambda: setattr(scaled, "scale", 4.0)


def under_a_key_that_the_code_does_not_name() -> tuple[Callable[..., Any], Change]:
    key, table = "scale", {"scale": 3.0}
    return lambda x: x * table[key], lambda: table.update(scale=4.0)


def among_all_values_of_a_dictionary() -> tuple[Callable[..., Any], Change]:
    table = {"a": 3.0}
    return lambda x: x * sum(table.values()), lambda: table.update(b=1.0)


def how_long_a_list_is() -> tuple[Callable[..., Any], Change]:
    rows = [0.0, 0.0, 0.0]
    return lambda x: x * len(rows), lambda: rows.append(0.0)


def in_a_set() -> tuple[Callable[..., Any], Change]:
    some = {1.0, 2.0}
    return lambda x: x * sum(some), lambda: some.add(0.5)


def an_element_of_an_array() -> tuple[Callable[..., Any], Change]:
    table = np.array([0.0, 3.0])
    return lambda x: x * table[1], lambda: table.__setitem__(1, 4.0)


def an_array_of_rank_zero() -> tuple[Callable[..., Any], Change]:
    scale = np.array(3.0)
    return lambda x: x * scale, lambda: scale.__setitem__((), 4.0)


def far_down() -> tuple[Callable[..., Any], Change]:
    inner = types.SimpleNamespace(e=3.0)
    top = types.SimpleNamespace(a=types.SimpleNamespace(b=types.SimpleNamespace(c=types.SimpleNamespace(d=inner))))
    return lambda x: x * top.a.b.c.d.e, lambda: setattr(inner, "e", 4.0)


def module_with(**names: Any) -> types.ModuleType:
    module = types.ModuleType("helpers_of_a_user")
    exec("def helper(x): return x * scale", vars(module))
    vars(module).update(names)
    return module


def in_a_helper_of_another_module() -> tuple[Callable[..., Any], Change]:
    module = module_with(scale=3.0)
    helper = module.helper
    return lambda x: helper(x), lambda: setattr(module, "scale", 4.0)


def behind_a_module() -> tuple[Callable[..., Any], Change]:
    module = module_with(scale=3.0)
    return lambda x: module.helper(x), lambda: setattr(module, "scale", 4.0)


def in_a_jitted_helper() -> tuple[Callable[..., Any], Change]:
    module = module_with(scale=3.0)
    helper = pf.jit(module.helper)
    return lambda x: helper(x), lambda: setattr(module, "scale", 4.0)


def in_a_helper_that_is_partly_applied() -> tuple[Callable[..., Any], Change]:
    settings = Settings()
    helper = partial(lambda held, x: held(x), settings)
    return lambda x: helper(x), lambda: setattr(settings, "value", 4.0)


def in_a_table_of_functions() -> tuple[Callable[..., Any], Change]:
    module = module_with(scale=3.0)
    table = {"helper": module.helper}
    return lambda x: table["helper"](x), lambda: setattr(module, "scale", 4.0)


def in_a_method_of_an_attribute() -> tuple[Callable[..., Any], Change]:
    module = module_with(scale=3.0)
    kind = type("Mine", (), {"apply": lambda self, x: module.helper(x), "__module__": __name__})
    held = types.SimpleNamespace(layer=kind())
    return lambda x: held.layer.apply(x), lambda: setattr(module, "scale", 4.0)


def in_what_a_helper_is_given() -> tuple[Callable[..., Any], Change]:
    settings = Settings()

    def helper(x: Any, given: Any) -> Any:
        return x * given.value

    return lambda x: helper(x, settings), lambda: setattr(settings, "value", 4.0)


def which_function_it_is() -> tuple[Callable[..., Any], Change]:
    table = {"act": lambda x: x * 3}
    return lambda x: table["act"](x), lambda: table.update(act=lambda x: x * 4)


def which_function_an_attribute_is() -> tuple[Callable[..., Any], Change]:
    held = types.SimpleNamespace(act=lambda x: x * 3)
    return lambda x: held.act(x), lambda: setattr(held, "act", lambda x: x * 4)


def which_helper_a_module_has() -> tuple[Callable[..., Any], Change]:
    module = module_with(scale=3.0)
    exec("def outer(x): return helper(x)", vars(module))
    return module.outer, lambda: exec("def helper(x): return x * 4", vars(module))


PLACES = (
    *(in_a_module, in_a_class, in_the_class_of_a_method, in_a_slot, behind_a_property, in_an_object_that_is_called),
    *(in_a_partial_application, on_the_function_itself, under_a_key_that_the_code_does_not_name),
    *(among_all_values_of_a_dictionary, how_long_a_list_is, in_a_set, an_element_of_an_array, an_array_of_rank_zero),
    *(far_down, in_a_helper_of_another_module, behind_a_module, in_a_jitted_helper, in_a_table_of_functions),
    *(in_a_helper_that_is_partly_applied, in_a_method_of_an_attribute, in_what_a_helper_is_given),
    *(which_function_it_is, which_function_an_attribute_is, which_helper_a_module_has),
)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_value_that_changes_is_seen(jit: Jit, place: Place) -> None:
    assert_seen(jit, place)


def test_small_arrays_that_are_captured_or_viewed_are_not_compared(jit: Jit) -> None:
    """Their contents are data, which no trace depends on."""
    weights, bias = np.full(3, 2.0), np.ones((3, 1))
    f = jit(lambda x: x * weights + bias[:, 0])
    assert np.array_equal(f(X), np.full(3, 3.0))
    weights += 1
    bias += 1
    assert np.array_equal(f(X), np.full(3, 5.0)) and f.cache_info().traces == 1


@pytest.mark.parametrize("function", [lambda x, w: x * w[::-1] + w, lambda x, w: x + w + w.reshape(3, 1)[:, 0]])
def test_an_array_in_place_of_one_that_is_captured_and_viewed_is_seen(jit: Jit, function: Callable[..., Any]) -> None:
    weights = np.arange(3.0)
    f = jit(lambda x: function(x, weights))
    for k in range(4):
        if k != 2:
            weights = np.arange(3.0) + k
        else:
            weights += 5
        assert np.array_equal(f(X), function(X, weights))


def test_what_libraries_hold_is_not_watched() -> None:
    assert not watch(reach(lambda x: np.sin(x) * np.pi + np.float32(2), {}).cells, ()).plain


def test_libraries_are_no_code_of_the_users_wherever_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install --target`: what NumPy keeps for itself would be watched, and found changed after its first use."""
    monkeypatch.setattr("polyfuse.installed._BESIDE", "/opt/site/")
    is_users.cache_clear()
    try:
        assert not is_users("numpy.lib._twodim_base_impl", "/opt/site/numpy/lib/_twodim_base_impl.py")
        assert is_users("mine.model", "/opt/mine/model.py")
        assert is_users("mine.model", "/opt/site/mine/model.py")  # a folder may be both
    finally:
        is_users.cache_clear()
