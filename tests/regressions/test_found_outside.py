"""What a function finds outside of its arguments, and what changes there between calls: each was seen once too late."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import math
import operator
import random
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf

X = np.ones(3)


class Thing:
    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


def first(function: Callable[..., Any]) -> float:
    return float(function(X)[0])


# ---------------------------------------------------------------------------------------------- what is not there


def test_attributes_that_were_absent() -> None:
    one, other, third = Thing(), Thing(), types.SimpleNamespace()

    def asked(x: Any) -> Any:
        return x + one.bias if hasattr(one, "bias") else x

    def defaulted(x: Any) -> Any:
        return x * getattr(other, "scale", 1.0)

    def tried(x: Any) -> Any:
        try:
            return x * third.gain
        except AttributeError:
            return x

    functions = [pf.jit(f) for f in (asked, defaulted, tried)]
    assert [first(f) for f in functions] == [1, 1, 1]
    one.bias, other.scale, third.gain = 5.0, 6.0, 7.0
    assert [first(f) for f in functions] == [6, 6, 7]
    del one.bias, other.scale, third.gain
    assert [first(f) for f in functions] == [1, 1, 1]


def test_none_is_something() -> None:
    held = Thing(bias=None)
    f = pf.jit(lambda x: x * (2 if hasattr(held, "bias") else 5))
    assert first(f) == 2
    del held.bias
    assert first(f) == 5


def test_methods_and_globals_that_were_absent() -> None:
    class Layer:
        @pf.jit
        def forward(self, x: Any) -> Any:
            return self.scaled(x) if hasattr(self, "scaled") else x

    layer, space = Layer(), {"pf": pf}
    exec("def f(x):\n  try: return x * SCALE\n  except NameError: return x\n", space)
    exec("def g(x): return x * globals().get('GAIN', 1)\n", space)
    f, g = pf.jit(space["f"]), pf.jit(space["g"])
    assert (first(layer.forward), first(f), first(g)) == (1, 1, 1)
    Layer.scaled = lambda self, x: x * 4  # type: ignore[attr-defined]
    space["SCALE"], space["GAIN"] = 5.0, 6.0
    assert (first(layer.forward), first(f), first(g)) == (4, 5, 6)


def test_all_attributes_of_an_object() -> None:
    held, record = Thing(a=1), dataclasses.make_dataclass("Record", [("a", int), ("b", float)])(1, 2.0)
    f = pf.jit(lambda x: x * sum(vars(held).values()))
    g = pf.jit(lambda x: x * held.__dict__.get("c", 1))
    h = pf.jit(lambda x: x * dataclasses.astuple(record)[0])
    assert (first(f), first(g), first(h)) == (1, 1, 1)
    held.b, held.c, record.a = 10, 20, 3
    assert (first(f), first(g), first(h)) == (31, 20, 3)


# ---------------------------------------------------------------------------------------------- behind other code


def test_partial_applications_and_functions_of_c() -> None:
    class Layer:
        k = 2

        def forward(self, x: Any, b: Any) -> Any:
            return x * self.k + b

        step = functools.partialmethod(forward, b=1)

        def __call__(self, x: Any) -> Any:
            return x * self.k

        def value(self) -> Any:
            return self.k

    layer = Layer()
    bound, called = functools.partial(layer.forward, b=1), functools.partial(layer)
    table, get, ask = {"step": bound}, operator.attrgetter("k"), operator.methodcaller("value")
    functions = [
        pf.jit(lambda x: bound(x)),
        pf.jit(lambda x: called(x)),
        pf.jit(lambda x: table["step"](x)),
        pf.jit(lambda x: layer.step(x)),
        pf.jit(lambda x: x * get(layer)),
        pf.jit(lambda x: x * ask(layer)),
    ]
    assert [first(f) for f in functions] == [3, 2, 3, 3, 2, 2]
    layer.k = 7
    assert [first(f) for f in functions] == [8, 7, 8, 8, 7, 7]


def test_defaults_of_helpers() -> None:
    held = Thing(k=2)

    def helper(x: Any, one: Any = held, pair: Any = ([2],)) -> Any:
        return x * one.k + pair[0][0]

    f = pf.jit(lambda x: helper(x))
    assert first(f) == 4
    held.k = 5
    assert first(f) == 7
    helper.__defaults__[1][0][0] = 3  # type: ignore[index]
    assert first(f) == 8


def test_special_methods_that_are_called() -> None:
    class Value:
        def __init__(self, k: int) -> None:
            self.k = k

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Value) and self.k == other.k

        __hash__ = None  # type: ignore[assignment]

        def __repr__(self) -> str:
            return "V" * self.k

    a, b = Value(1), Value(2)
    f, g = pf.jit(lambda x: x * (2 if a == b else 1)), pf.jit(lambda x: x * len(f"{a!r}"))
    assert (first(f), first(g)) == (1, 1)
    a.k = 2
    assert (first(f), first(g)) == (2, 2)


def test_functions_that_say_they_are_others() -> None:
    held = Thing(k=2)

    @functools.wraps(math.sqrt)
    def scaled(v: Any) -> Any:
        return v * held.k

    f, g = pf.jit(lambda x: scaled(x)), pf.jit(scaled)
    assert (first(f), first(g)) == (2, 2)
    held.k = 5
    assert (first(f), first(g)) == (5, 5)


def test_objects_far_down() -> None:
    deep = Thing(k=2)
    for _ in range(15):
        deep = Thing(next=deep)

    def below(x: Any) -> Any:
        one = deep
        while hasattr(one, "next"):
            one = one.next
        return x * one.k

    f = pf.jit(below)
    assert first(f) == 2
    one = deep
    while hasattr(one, "next"):
        one = one.next
    one.k = 9
    assert first(f) == 9


# ---------------------------------------------------------------------------------------------- which object


def test_what_is_the_same() -> None:
    class Model:
        def __init__(self) -> None:
            self.w_in = np.ones(3)
            self.w_out = self.w_in

        @pf.jit
        def forward(self, x: Any) -> Any:
            return x * self.w_in * (2 if self.w_out is self.w_in else 3)

    model, one, other = Model(), Thing(), Thing()
    held = Thing(current=one)
    f = pf.jit(lambda x: x * (2 if held.current is one else 3))
    assert (first(model.forward), first(f)) == (2, 2)
    model.w_out, held.current = np.ones(3), other
    assert (first(model.forward), first(f)) == (3, 3)


def test_what_two_runs_change_and_change_back_is_refused() -> None:
    class Simulation:
        def __init__(self) -> None:
            self.a, self.b = np.ones(3), np.full(3, 2.0)

        def step(self, x: Any) -> Any:
            self.a, self.b = self.b, self.a
            return x * self.a

    arrays = [np.ones(3), np.full(3, 2.0)]

    def turned(x: Any) -> Any:
        arrays.reverse()
        return x * arrays[0]

    for function in (Simulation().step, turned):
        with pytest.raises(pf.errors.TraceError, match="each time it runs"):
            pf.jit(function)(X)


def test_tables_that_are_made_once_stay() -> None:
    table: dict[str, Any] = {}

    def made(x: Any) -> Any:
        if "w" not in table:
            table["w"] = 2.0
        return x * table["w"]

    f = pf.jit(made)
    assert (first(f), first(f)) == (2, 2)


# ---------------------------------------------------------------------------------------------- iterators


def _counting() -> Any:
    yield from itertools.count(1)


ITERATORS: dict[str, Callable[[], Any]] = {
    "count": lambda: itertools.count(1),
    "generator": _counting,
    "iterator": lambda: iter([1.0, 2.0]),
    "nditer": lambda: np.nditer(np.arange(1.0, 5)),
    "flat": lambda: np.arange(1.0, 5).flat,
    "reader": lambda: csv.reader(["1", "2"]),
}


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
def test_iterators_that_the_function_finds_are_refused(make: Callable[[], Any]) -> None:
    alone, held, listed = make(), {"c": make()}, [make()]

    def helper(c: Any = make()) -> Any:  # noqa: B008
        return next(c)

    for function in (
        lambda x: x * next(alone),
        lambda x: x * next(held["c"]),
        lambda x: x * next(listed[0]),
        lambda x: x * helper(),
    ):
        with pytest.raises(pf.errors.TraceError, match="is read when the function is traced"):
            pf.jit(function)(X)


@pytest.mark.parametrize("make", [lambda: random.Random(0), lambda: np.random.default_rng(0)])
def test_generators_of_random_numbers_in_containers_are_refused(make: Callable[[], Any]) -> None:
    held = {"r": make()}

    def helper(r: Any = make()) -> Any:  # noqa: B008
        return r.random()

    for function in (lambda x: x * held["r"].random(), lambda x: x * helper()):
        with pytest.raises(pf.errors.TraceError, match="would be drawn once"):
            pf.jit(function)(X)


# ---------------------------------------------------------------------------------------------- where files lie

PROGRAM = """
import numpy as np, polyfuse as pf
K = 2
@pf.jit
def f(x): return x * K
x = np.ones(3); f(x); K = 5
print(f(x)[0])
"""


def run(path: Path, **environment: str) -> str:
    import os

    settings = {**os.environ, **environment}
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=settings, check=True)
    return found.stdout


def test_a_folder_is_not_one_of_packages_by_a_part_of_its_name(tmp_path: Path) -> None:
    (folder := tmp_path / "my-packages").mkdir()
    (folder / "main.py").write_text(PROGRAM)
    assert run(folder / "main.py", POLYFUSE_CACHE="off") == "5.0\n"


def test_libraries_may_lie_beside_the_users_code(tmp_path: Path) -> None:
    """`pip install --target .`"""
    (tmp_path / "numpy").symlink_to(Path(np.__file__).parent)
    (tmp_path / "main.py").write_text(PROGRAM)
    assert run(tmp_path / "main.py", POLYFUSE_CACHE="off") == "5.0\n"


def test_a_module_may_be_called_as_one_of_pythons(tmp_path: Path) -> None:
    (tmp_path / "profile.py").write_text("K = 2\ndef scale(x): return x * K\n")
    (tmp_path / "main.py").write_text(
        "import numpy as np, polyfuse as pf, profile\nf = pf.jit(lambda x: profile.scale(x))\n"
        "f(np.ones(3)); profile.K = 5; print(f(np.ones(3))[0])\n"
    )
    assert run(tmp_path / "main.py", POLYFUSE_CACHE="off") == "5.0\n"


FAULTS = ["x[i] * 2", "np.take(x, i) + 1", "(x * 3)[i]", "scattered(x, i)"]


@pytest.mark.parametrize("expression", FAULTS)
def test_an_index_fault_names_the_line_of_this_program(tmp_path: Path, expression: str) -> None:
    """A plan from the disk brought the file and the line of whoever had compiled it first."""
    text = (
        "import numpy as np, polyfuse as pf\n{above}"
        "def scattered(x, i):\n    y = x * 1\n    y[i] = 2\n    return y\n"
        "@pf.jit\ndef f(x, i):\n    return {expression}  # {who}\n"
        "try: f(np.ones(3), np.array([{index}]))\nexcept IndexError as e: print(e)\n"
    )
    cache = {"POLYFUSE_CACHE": str(tmp_path / "cache")}
    for who, above, index in (("alice", "", 1), ("bob", "# further down\n\n", 7)):
        file = tmp_path / f"{who}.py"
        file.write_text(text.format(above=above, expression=expression, who=who, index=index))
        found = run(file, **cache)
    assert "bob.py" in found and "alice" not in found
    assert ("y[i] = 2" if "scattered" in expression else "# bob") in found


def test_helpers_that_call_each_other_too_deeply() -> None:
    """It was a RecursionError out of polyfuse's own code."""
    space: dict[str, Any] = {}
    lines = [f"def h{k}(x): return h{k + 1}(x)" for k in range(400)]
    exec("\n".join([*lines, "def h400(x): return x * 2"]), space)
    with pytest.raises(pf.errors.TraceError, match="deeper into each other"):
        pf.jit(space["h0"])(X)
