"""Installed packages of which code is traced are watched as the user's own modules are; of others what they hold."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import TraceError
from polyfuse.installed import is_users
from tests.run.outside import Jit, X, assert_seen

PLAIN = """
import numpy as np

RATE, W, count = 3.0, np.full(3, 3.0), 0

class Till:
    default = 1.0

    def __init__(self):
        self.k, self.table = 3.0, {"a": [1.0]}

    def applied(self, x):
        return x * self.k * self.table["a"][0] * self.default

till = Till()

def scaled(x):
    return x * RATE

def by_array(x):
    return (x - 1 + W) * 1

def counting(x):
    global count
    count += 1
    return x * count
"""
JITTED = f"""{PLAIN}
import polyfuse as pf

class Jitted(Till):
    @pf.jit
    def applied(self, x):
        return super().applied(x)

till, scaled, counting = Jitted(), pf.jit(scaled), pf.jit(counting)
"""
NUMBERS = itertools.count()
Install = Callable[[str], Any]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package of this text, of a name that no other has, and imports it."""

    def make(text: str) -> Any:
        name = f"shop{next(NUMBERS)}"
        folder = tmp_path / "site-packages" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder.parent))
        return importlib.import_module(name)

    return make


def test_a_jitted_function_of_a_package(install: Install) -> None:
    shop = install(JITTED)
    np.testing.assert_array_equal(shop.scaled(X), X * 3)
    shop.RATE = 5.0
    np.testing.assert_array_equal(shop.scaled(X), X * 5)


@pytest.mark.parametrize(
    "change",
    [
        lambda till: setattr(till, "k", 5.0),
        lambda till: till.table["a"].__setitem__(0, 5.0),
        lambda till: setattr(type(till), "default", 5.0),
    ],
)
def test_a_jitted_method_of_a_package(install: Install, change: Callable[[Any], None]) -> None:
    till = install(JITTED).till
    np.testing.assert_array_equal(till.applied(X), X * 3)
    change(till)
    np.testing.assert_array_equal(till.applied(X), X * till.k * till.table["a"][0] * till.default)


@pytest.mark.parametrize("text", [PLAIN, JITTED])
@pytest.mark.parametrize(
    ("function", "change"),
    [
        (lambda shop, x: x * shop.RATE, lambda shop: setattr(shop, "RATE", 5.0)),
        (lambda shop, x: x * shop.till.k, lambda shop: setattr(shop.till, "k", 5.0)),
        (lambda shop, x: x * 3 * shop.till.default, lambda shop: setattr(shop.Till, "default", 5.0)),
        (lambda shop, x: x * shop.W, lambda shop: setattr(shop, "W", np.full(3, 5.0))),
        (lambda shop, x: shop.scaled(x), lambda shop: setattr(shop, "RATE", 5.0)),
        (lambda shop, x: shop.by_array(x), lambda shop: setattr(shop, "W", np.full(3, 5.0))),
        (lambda shop, x: shop.till.applied(x), lambda shop: setattr(shop.till, "k", 5.0)),
    ],
)
def test_what_a_function_of_the_users_finds_in_a_package(
    jit: Jit, install: Install, text: str, function: Callable[[Any, Any], Any], change: Callable[[Any], None]
) -> None:
    shop = install(text)
    assert_seen(jit, lambda: (lambda x: function(shop, x), lambda: change(shop)))


@pytest.mark.parametrize("text", [PLAIN, JITTED])
def test_packages_keep_no_count_of_calls(jit: Jit, install: Install, text: str) -> None:
    shop = install(text)
    with pytest.raises(TraceError, match=r"count each time it runs(.|\n)*__init__.py(.|\n)*count \+= 1"):
        jit(lambda x: shop.counting(x))(X)


def test_a_package_whose_code_is_not_traced_is_not_followed(jit: Jit, install: Install) -> None:
    shop = install(PLAIN)
    jit(lambda x: x * (shop.scaled is not shop.by_array))(X)
    assert not is_users(shop.__name__, shop.__file__)
