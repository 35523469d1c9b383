"""Globals that a function reads are seen when they change; those that have the name of something else are no part."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from polyfuse.run.mentions import global_names
from tests.run.outside import Jit, X

CODE = """
import sys
t = 3.0

class Held:
    def __init__(self):
        self.value = 3.0
    @property
    def t(self):
        return self.value

held, table = Held(), {"t": 3.0}

def an_attribute(x): return x * held.t
def a_key(x): return x * table["t"]
def a_name_in_a_class(x):
    class Made:
        t = 3.0
    return x * held.value

def read(x): return x * t
def read_in_a_nested_function(x): return (lambda: x * t)()
def read_in_a_class_body(x):
    class Made:
        factor = t
    return x * Made.factor
def read_by_name(x): return x * globals()["t"]
def by_name(name): return globals()[name]
def read_by_name_in_a_helper(x): return x * by_name("t")
def read_of_a_module(x): return x * sys.modules[__name__].t
def read_of_an_imported_module(x):
    import globals_of_a_user
    return x * globals_of_a_user.t
def read_evaluated(x): return x * eval("t")
"""
NOT_READ = ("an_attribute", "a_key", "a_name_in_a_class")
READ = (
    *("read", "read_in_a_nested_function", "read_in_a_class_body", "read_by_name", "read_by_name_in_a_helper"),
    *("read_of_a_module", "read_of_an_imported_module", "read_evaluated"),
)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("globals_of_a_user")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(CODE, vars(module))
    return module


@pytest.mark.parametrize("name", READ)
def test_a_global_that_is_read_is_seen(jit: Jit, module: Any, name: str) -> None:
    f = jit(getattr(module, name))
    assert np.array_equal(f(X), 3 * X)
    module.t = 4.0
    assert np.array_equal(f(X), 4 * X)


@pytest.mark.parametrize("name", NOT_READ)
def test_a_global_named_as_an_attribute_is_not_read(jit: Jit, module: Any, name: str) -> None:
    """``for t in times: f(x)`` beside an attribute `t` is one trace."""
    f = jit(getattr(module, name))
    for t in (3.0, 4.0, 5.0):
        module.t = t
        assert np.array_equal(f(X), 3 * X)
    assert f.cache_info().traces == 1


def stores(x: Any) -> Any:
    global _stored
    _stored = x.stored_attribute
    x.other_attribute = len(x.attribute())
    del x.third_attribute
    return x


def test_names_of_attributes_are_no_names_of_globals() -> None:
    assert global_names(stores.__code__).keys() == {"_stored", "len"}
