"""Where a function finds arrays of which elements are read while it is traced, and what stays there when it is done."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import sysconfig
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import PolyfuseError, TraceError
from polyfuse.run.dispatch import Jitted
from tests.run.alike import same

Jit = Callable[..., Jitted]
X = np.linspace(0.5, 2, 4)
Pair = namedtuple("Pair", "w b")


class Layer:
    def __init__(self, w: Any) -> None:
        self.w = w

    @property
    def found(self) -> Any:
        return self.w

    def get(self) -> Any:
        return self.w


@dataclass
class Record:
    w: Any


@dataclass(frozen=True, slots=True)
class Fixed:
    w: Any


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w: Any) -> None:
        self.w = w


class Own(dict):  # type: ignore[type-arg]
    """A dictionary of the user's."""


def of_function(w: Any) -> Callable[..., Any]:
    def helper(x: Any) -> Any:
        return x

    helper.w = w  # type: ignore[attr-defined]
    return helper


def of_module(w: Any) -> Any:
    module = types.ModuleType("weights_of_a_user")
    module.w = w  # type: ignore[attr-defined]
    return module


def of_class(w: Any) -> Any:
    return type("Mine", (Layer,), {"w": w, "ws": [w], "__module__": __name__})


Get = Callable[[Any], Any]
HOLDERS: dict[str, tuple[Callable[[Any], Any], Get]] = {
    "an attribute": (Layer, lambda o: o.w),
    "a dataclass": (Record, lambda o: o.w),
    "slots": (Slotted, lambda o: o.w),
    "a dataclass with slots": (Fixed, lambda o: o.w),
    "a class": (of_class, lambda o: o.w),
    "a list in a class": (of_class, lambda o: o.ws[0]),
    "a property": (Layer, lambda o: o.found),
    "a dictionary": (lambda w: {"w": w}, lambda o: o["w"]),
    "a dictionary in a dictionary": (lambda w: {"a": {"w": w}}, lambda o: o["a"]["w"]),
    "the values of a dictionary": (lambda w: {"w": w}, lambda o: next(iter(o.values()))),
    "a list": (lambda w: [w], lambda o: o[0]),
    "a tuple": (lambda w: (1, (w,)), lambda o: o[1][0]),
    "a named tuple": (lambda w: Pair(w, 1), lambda o: o.w),
    "an ordered dictionary": (lambda w: OrderedDict(w=w), lambda o: o["w"]),
    "a dictionary with a default": (lambda w: defaultdict(list, w=w), lambda o: o["w"]),
    "what a dictionary makes": (lambda w: defaultdict(lambda: w), lambda o: o["w"]),
    "a deque": (lambda w: deque([w]), lambda o: o[0]),
    "a simple namespace": (lambda w: types.SimpleNamespace(w=w), lambda o: o.w),
    "a list of an object": (lambda w: Layer([w]), lambda o: o.w[0]),
    "an object in a list": (lambda w: [Layer(w)], lambda o: o[0].w),
    "a module": (of_module, lambda o: o.w),
    "what a function returns": (lambda w: lambda: w, lambda o: o()),
    "what a jitted function is given": (lambda w: pf.jit(lambda: w), lambda o: o()),
    "a default": (lambda w: lambda v=w: v, lambda o: o()),
    "a default by name": (lambda w: lambda *, v=w: v, lambda o: o()),
    "a list by default": (lambda w: lambda v=[w]: v[0], lambda o: o()),
    "a partial application": (lambda w: partial(lambda v: v, w), lambda o: o()),
    "an attribute of a function": (of_function, lambda o: o.w),
    "a method": (lambda w: Layer(w).get, lambda o: o()),
    "a method of an array": (lambda w: w.reshape, lambda o: o(-1)),
    "a method of a dictionary": (lambda w: {"w": w}.get, lambda o: o("w")),
}
UNWATCHED: dict[str, tuple[Callable[[Any], Any], Get]] = {
    "a dictionary of the user's": (lambda w: Own(w=w), lambda o: o["w"]),
    "a view of a dictionary": (lambda w: types.MappingProxyType({"w": w}), lambda o: o["w"]),
    "an array of objects": (lambda w: np.array([None, w], dtype=object), lambda o: o[1]),
    "a polynomial": (lambda w: np.poly1d(w), lambda o: o.coeffs),
    "the attributes of an object": (Layer, lambda o: vars(o)["w"]),
}


@pytest.mark.parametrize("place", [*HOLDERS, *UNWATCHED])
@pytest.mark.parametrize("size", [4, 2000])
def test_contents_are_seen_wherever_the_array_is(jit: Jit, place: str, size: int) -> None:
    make, get = (HOLDERS | UNWATCHED)[place]
    weights = np.arange(1.0, size + 1)
    holder, x = make(weights), np.linspace(0, 1, size)

    def function(x: Any) -> Any:
        return x * get(holder) + get(holder).sum()

    f = jit(function, backend="interpreter")
    for k in range(3):
        same(f(x), function(x))
        same(f(x), function(x))
        assert f.cache_info().traces == k + 1
        weights += 1


class Meta(type):
    """Of classes that nothing stands in for."""


def test_code_that_runs_as_it_is_reads_arrays(jit: Jit) -> None:
    weights, table = np.arange(1.0, 5), {"w": np.arange(2.0)}

    @contextlib.contextmanager
    def lent() -> Any:
        yield weights.sum()

    def helper() -> Any:
        return table["w"].sum()

    class Own(metaclass=Meta):
        def total(self) -> Any:
            return helper()

    own = Own()

    def function(x: Any) -> Any:
        with lent() as total:
            return x * weights + total + own.total() * table["w"][:1]

    f = jit(function, backend="interpreter")
    for k in range(3):
        same(f(X), function(X))
        weights += 1
        table["w"] += k
    assert f.cache_info().traces == 3


@pytest.mark.parametrize("place", HOLDERS)
def test_contents_are_data_wherever_the_array_is(jit: Jit, place: str) -> None:
    make, get = HOLDERS[place]
    weights = np.arange(1.0, 5)
    holder = make(weights)

    def function(x: Any) -> Any:
        return x * get(holder)[::-1] + get(holder)

    f = jit(function, backend="interpreter")
    for _ in range(3):
        same(f(X), function(X))
        weights += 1
    assert f.cache_info().traces == 1


def of_others(name: str) -> Any:
    """A module as of an installed package, which reads arrays in ways of its own."""
    module = types.ModuleType(name)
    module.__file__ = os.path.join(sysconfig.get_path("purelib"), f"{name}.py")
    text = "import ctypes\nimport numpy as np\ndef total(w): return np.asarray(w).sum()\n"
    text += "def second(w): return ctypes.cast(w.ctypes.data, ctypes.POINTER(ctypes.c_double))[1]\n"
    text += "class Model:\n  def fit(self, w): return np.asarray(w)[0]\n"
    text += "  def __call__(self, w): return np.asarray(w)[1]\n"
    text += "class Matrix:\n  __array_priority__ = 20\n  def __rmatmul__(self, w): return np.asarray(w)[3]\n"
    text += "def decorated(f):\n  def g(w): return f(np.asarray(w))\n  g.__module__ = f.__module__\n  return g\n"
    exec(compile(text, module.__file__, "exec"), vars(module))
    return module


LIBRARY = ["total", "second", "fit", "model", "made", "operators", "decorated", "imported", "imported from"]


@pytest.mark.parametrize("name", LIBRARY)
def test_libraries_read_arrays(jit: Jit, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = of_others("library_of_others")
    monkeypatch.setitem(sys.modules, "library_of_others", library)
    weights, second = np.arange(1.0, 5), library.second
    fit, model, matrix = library.Model().fit, library.Model(), library.Matrix()
    decorated = library.decorated(lambda w: w[2] + weights[0])

    def imported(w: Any) -> Any:
        import library_of_others as of_others

        return of_others.total(w)

    def imported_from(w: Any) -> Any:
        from library_of_others import total

        return total(w)

    functions = {
        "total": lambda x: x * weights + library.total(weights[1:]),
        "second": lambda x: x * weights + second(weights),
        "fit": lambda x: x * weights + fit(weights),
        "model": lambda x: x * weights + model(weights) + model.fit(weights),
        "made": lambda x: x * weights + library.Model().fit(weights),
        "imported": lambda x: x * weights + imported(weights),
        "imported from": lambda x: x * weights + imported_from(weights),
        "operators": lambda x: x * weights + weights @ matrix,
        "decorated": lambda x: x * weights + decorated(weights),
    }
    f = jit(functions[name], backend="interpreter")
    for k in range(3):
        same(f(X), functions[name](X))
        assert f.cache_info().traces == k + 1
        weights += 1
    assert isinstance(model, library.Model)


# ---------------------------------------------------------------------------------------------- what stays as it was


def test_nothing_of_the_trace_stays_in_the_users_objects(jit: Jit) -> None:
    layer, table, cache, row = Layer(np.arange(4.0)), {"w": np.arange(4.0)}, {}, [0, 0]
    weights, slots, kind, own = table["w"], Slotted(1), of_class(1), Own()

    def function(x: Any) -> Any:
        if "k" not in cache:
            layer.view = layer.w[1:]  # type: ignore[attr-defined]
            layer.same = layer.w  # type: ignore[attr-defined]
            layer.all = [layer.w, {"twice": layer.w * 2}]  # type: ignore[attr-defined]
            table["view"] = table["w"][::-1]
            table["w2"] = table["w"]
            cache["k"] = layer.w * 3
            row[0] = layer.w[:2]  # type: ignore[call-overload]
            slots.w, kind.w, own["w"] = layer.w[1:], layer.w[1:], layer.w[1:]
        return x * layer.w + table["w"] + layer.view.sum()

    f = jit(function, backend="interpreter")
    same(f(X), function(X))
    held = [layer.view, layer.all[1]["twice"], table["view"], cache["k"], row[0], slots.w, kind.w, own["w"]]  # type: ignore[attr-defined]
    assert all(type(array) is np.ndarray for array in held)
    assert layer.same is layer.w is layer.all[0] and table["w2"] is table["w"] is weights  # type: ignore[attr-defined]
    assert np.shares_memory(layer.view, layer.w) and list(table) == ["w", "view", "w2"]  # type: ignore[attr-defined]


def test_nor_where_the_trace_fails(jit: Jit) -> None:
    layer = Layer(np.arange(4.0))

    def function(x: Any) -> Any:
        layer.view = layer.w[1:]  # type: ignore[attr-defined]
        return x[layer.w.sum() :]

    with pytest.raises(PolyfuseError):
        jit(function)(X)
    assert type(layer.view) is np.ndarray  # type: ignore[attr-defined]


def test_what_is_changed_in_a_container_of_arrays_is_changed(jit: Jit) -> None:
    things: list[Any] = [np.arange(4.0), 1]
    names = {"w": np.arange(4.0), "old": 1}

    def function(x: Any) -> Any:
        if len(things) == 2:
            things.append("new")
            names["new"] = 2
            names.pop("old")
        return x * things[0] + names["w"] + names["new"]

    f = jit(function, backend="interpreter")
    same(f(X), X * things[0] + names["w"] + 2)
    assert things[1:] == [1, "new"] and list(names) == ["w", "new"]
    things[0] += 1
    same(f(X), X * things[0] + names["w"] + 2)


def test_what_is_kept_by_the_identity_of_an_array_stays(jit: Jit) -> None:
    weights, known = np.arange(4.0), {}

    def function(x: Any) -> Any:
        if id(weights) not in known:
            known[id(weights)] = len(weights)
        return x * weights + known[id(weights)]

    same(jit(function, backend="interpreter")(X), X * weights + 4)
    assert known == {id(weights): 4}


def test_nothing_of_a_library_stays_in_the_users_objects(jit: Jit) -> None:
    library, layer = of_others("library_of_others"), Layer(None)

    def function(x: Any) -> Any:
        layer.w = library.total
        return x + layer.w(X)

    same(jit(function, backend="interpreter")(X), X + X.sum())
    assert layer.w is library.total


def test_arrays_of_the_trace_in_a_container_of_arrays_are_an_error(jit: Jit) -> None:
    state = {"w": np.arange(4.0)}

    def step(x: Any) -> Any:
        state["w"] = state["w"] - x
        return x

    with pytest.raises(TraceError, match=r"state\['w'\]"):
        jit(step)(X)


def test_an_array_that_the_function_writes_is_an_error_each_time(jit: Jit) -> None:
    counts = np.zeros(4)

    def count(x: Any) -> Any:
        counts[0] += 1
        return x + counts

    with pytest.raises(TraceError, match="changes counts each time"):
        jit(count)(X)
    filled = np.zeros(4)

    def fill(x: Any) -> Any:
        filled[...] = [1, 2, 3, 4]
        return x * filled

    f = jit(fill, backend="interpreter")
    same(f(X), X * [1, 2, 3, 4])


def test_a_watched_array_that_outlives_the_trace_is_an_ordinary_one(jit: Jit) -> None:
    kept = np.array([None])  # into which no trace looks
    weights = np.arange(4.0)

    def function(x: Any) -> Any:
        kept[0] = weights[1:] if kept[0] is None else kept[0]
        return x + weights

    jit(function, backend="interpreter")(X)
    held = kept[0]
    assert held is not weights and isinstance(held, np.ndarray) and np.shares_memory(held, weights)
    g = jit(lambda x, v: x[1:] * v, backend="interpreter")
    for _ in range(3):
        same(g(X, held), X[1:] * weights[1:])
        same(g(X, np.ones(3)), X[1:])
    h = jit(lambda x: x[1:] * held + held.sum(), backend="interpreter")
    for _ in range(3):
        same(h(X), X[1:] * weights[1:] + weights[1:].sum())
        weights += 1
    assert (held + 1).sum() == 18 and pickle.loads(pickle.dumps(held)).tolist() == [4, 5, 6]


def test_the_users_errors_are_those_of_numpy(jit: Jit) -> None:
    weights, seen = np.arange(4.0), list[str]()

    def function(x: Any) -> Any:
        try:
            weights[7]
        except IndexError as error:
            seen[:] = [str(error)]
        if weights.shape == (4,) and type(hash) and not hasattr(weights, "nothing"):
            return x * weights
        return x

    same(jit(function, backend="interpreter")(X), X * weights)
    with pytest.raises(IndexError) as error:
        weights[7]
    assert seen == [str(error.value)]


