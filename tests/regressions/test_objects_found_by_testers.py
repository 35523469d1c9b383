"""What a tester found of objects: constructors that run again, attributes that are no fields, changes to copies; and of
planning that took minutes."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, TraceError
from polyfuse.planning import choose

X = np.arange(6.0).reshape(2, 3)


@dataclasses.dataclass
class Scaled:
    a: Any

    def __post_init__(self) -> None:
        self.a = self.a * 2


@dataclasses.dataclass(frozen=True)
class Halved:
    a: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", self.a / 2)


@dataclasses.dataclass
class Times:
    a: Any
    k: dataclasses.InitVar[int] = 2

    def __post_init__(self, k: int) -> None:
        self.a = self.a * k


@dataclasses.dataclass
class Doubling:
    a: Any

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)


@dataclasses.dataclass
class Strict:
    a: Any

    def __post_init__(self) -> None:
        if not isinstance(self.a, np.ndarray):
            raise TypeError("a must be an array")


@dataclasses.dataclass
class Keeping:
    """What it finds out of its field is no field."""

    a: Any

    def __post_init__(self) -> None:
        self.rows, self.function, self.lock = len(self.a), np.tanh, object()

    def value(self) -> Any:
        return self.function(self.a) * self.rows


class Listed(list):  # type: ignore[type-arg]
    k = 2


class Named(dict):  # type: ignore[type-arg]
    k = 2.0


@dataclasses.dataclass
class Classed:
    a: Any
    k: ClassVar[float] = 1.0


OBJECTS = (Scaled(X), Halved(X), Times(X, 3), Doubling(X), Strict(X))


@pytest.mark.parametrize("given", OBJECTS, ids=lambda g: type(g).__name__)
def test_constructors_of_arguments_do_not_run_again(given: Any) -> None:
    np.testing.assert_array_equal(pf.jit(lambda d: d.a + 1)(given), given.a + 1)
    found = pf.jit(lambda d: d)(given)
    assert type(found) is type(given)
    np.testing.assert_array_equal(found.a, given.a)


@pytest.mark.parametrize("kind", [Scaled, Halved, Times, Doubling, Strict], ids=lambda k: k.__name__)
def test_constructors_of_results_do_not_run_again(kind: type) -> None:
    found = pf.jit(lambda y: [kind(y * 3)])(X)
    np.testing.assert_array_equal(found[0].a, kind(X * 3).a)


def test_what_an_object_has_besides_its_fields_is_there() -> None:
    given = Keeping(X)
    np.testing.assert_allclose(pf.jit(lambda d: d.value())(given), given.value())
    assert pf.jit(lambda y: Keeping(y * 2))(X).rows == 2


@pytest.mark.parametrize("function", [lambda d: (d[0] if isinstance(d, list) else d["a"]) * d.k, lambda d: d.a * d.k])
def test_an_attribute_of_an_instance_comes_before_that_of_its_class(function: Callable[..., Any]) -> None:
    """The class's was used."""
    of_items = (lambda: Listed([X]), lambda: Named(a=X))
    for make in of_items if "isinstance" in function.__code__.co_names else (lambda: Classed(X),):
        jitted = pf.jit(function)
        for k in (5, 7, 7.5):
            given = make()
            given.k = k
            np.testing.assert_array_equal(jitted(given), function(given))
        np.testing.assert_array_equal(jitted(make()), function(make()))


UNUSED: dict[str, Any] = {
    "a lock": threading.Lock(),
    "a lock in a dictionary": {"lock": threading.Lock(), "rate": 0.1},
    "an object in a tuple": (X, object()),
    "a large integer": 2**70,
    "texts": np.array(["a"]),
    "a complex number": 1j,
    "sets": [1, {1}],
}


@pytest.mark.parametrize("case", UNUSED)
def test_attributes_that_nothing_uses_are_in_nobodys_way(case: str) -> None:
    given = Classed(X)
    given.other = UNUSED[case]  # type: ignore[attr-defined]
    jitted = pf.jit(lambda d: d.a * 2)
    for _ in range(2):
        np.testing.assert_array_equal(jitted(given), X * 2)


class Factor:
    def __init__(self, value: float) -> None:
        self.value = value


@pytest.mark.parametrize(
    "function", [lambda d: d.a * d.other.value, lambda d: d.a * d.other, lambda d: d.a if d.other else 0]
)
def test_attributes_that_a_call_cannot_pass_are_refused_where_they_are_used(function: Callable[..., Any]) -> None:
    """What changes in them would go unseen."""
    given = Classed(X)
    given.other = Factor(2.0)  # type: ignore[attr-defined]
    with pytest.raises(TraceError, match=r"d.other is a Factor, neither an array"):
        pf.jit(function)(given)


class Numbered(list):  # type: ignore[type-arg]
    def __new__(cls, n: int, *items: Any) -> Numbered:
        return super().__new__(cls)

    def __init__(self, n: int, *items: Any) -> None:
        super().__init__(items)


class Ordered(OrderedDict):  # type: ignore[type-arg]
    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value * 2)


@pytest.mark.parametrize(
    ("function", "given"), [(lambda o: o[0] + 1, Numbered(3, X)), (lambda o: o["a"] + 1, Ordered(a=X))]
)
def test_methods_that_make_containers_do_not_run_again(function: Callable[..., Any], given: Any) -> None:
    np.testing.assert_array_equal(pf.jit(function)(given), function(given))
    assert type(pf.jit(lambda o: o)(given)) is type(given)


@dataclasses.dataclass
class Box:
    inner: Any
    history: list[str] = dataclasses.field(default_factory=list)


def boxed(b: Any) -> Any:
    b.history.append("s")
    return Box(b)


@pytest.mark.parametrize(
    "function",
    [
        boxed,
        lambda b: (b.inner * 2, b.history.append("s") or b.history),
        lambda b: [b.history.append("s") or b],
    ],
)
def test_what_a_result_holds_may_be_changed(function: Callable[..., Any]) -> None:
    assert "s" in str(pf.jit(function)(Box(X)))


def appends(x: Any, log: list[int]) -> Any:
    log.append(3)
    return x * len(log)


def counts(x: Any, seen: list[int] = []) -> Any:  # noqa: B006
    seen.append(1)
    return x * len(seen)


def counts_in(x: Any, *, seen: dict[str, int] = {}) -> Any:  # noqa: B006
    seen["n"] = seen.get("n", 0) + 1
    return x * seen["n"]


def renames(d: dict[str, Any]) -> Any:
    d["mode"] = "b"
    return d["x"] * 2


def drops(d: dict[str, Any]) -> Any:
    d.pop("mode")
    return d["x"] * 2


@pytest.mark.parametrize(
    ("function", "given", "where"),
    [
        (appends, lambda: (X, [1]), r"log\[1\]"),
        (counts, lambda: (X,), r"seen\[0\]"),
        (counts_in, lambda: (X,), r"seen\['n'\]"),
        (renames, lambda: ({"x": X, "mode": "a"},), r"d\['mode'\]"),
        (drops, lambda: ({"x": X, "mode": "a"},), r"d\['mode'\]"),
    ],
)
def test_changes_of_what_the_caller_passed_are_no_part_of_a_program(
    function: Callable[..., Any], given: Callable[[], tuple[Any, ...]], where: str
) -> None:
    """They were made to copies, once."""
    with pytest.raises(TraceError, match=rf"{function.__name__} changes what the caller passed \({where}\)"):
        pf.jit(function)(*given())


def empties(d: dict[str, Any]) -> Any:
    d["l"] = []
    return d["x"] * 2


def reorders(d: dict[str, Any]) -> Any:
    d["x"] = d.pop("x")
    return d["x"] * 2


@pytest.mark.parametrize("function", [empties, reorders])
def test_changes_without_a_leaf_are_seen(function: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match="changes what the caller passed:"):
        pf.jit(function)({"x": X, "mode": "a"})


def test_what_is_returned_may_be_changed() -> None:
    assert pf.jit(lambda d: d.update(mode="b") or d)({"x": X, "mode": "a"})["mode"] == "b"
    assert pf.jit(lambda x, **more: x * more.pop("k"))(X, k=2)[0, 1] == 2


@pytest.mark.parametrize("function", [np.mean, np.nanmean, np.var])
@pytest.mark.parametrize("x", [X, X > 2, np.zeros((0, 4))], ids=["floats", "truths", "none"])
def test_means_are_no_truth_values(function: Callable[..., Any], x: Any) -> None:
    """They did not compile."""
    with pytest.raises(DTypeError, match="dtype= is that of their sums"):
        pf.jit(lambda x: function(x, axis=0, dtype=bool))(x)


def rounds(y: Any) -> Any:
    for _ in range(100):
        y = y - y.max(axis=-1, keepdims=True) * 0.5
    return y


def multiples(x: Any) -> Any:
    return np.concatenate([x * i for i in range(150)], axis=0)


@pytest.mark.parametrize(("function", "spec"), [(rounds, "f64[5, 7]"), (multiples, "f64[2, 3]")])
@pytest.mark.parametrize("target", ["cpu", "h200"])
def test_long_programs_of_little_time_are_not_searched(
    function: Callable[..., Any], spec: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning took a minute and two, with some 1,700 prices."""
    priced, price = [], choose._priced

    def counted(*args: Any) -> Any:
        priced.append(1)
        return price(*args)

    monkeypatch.setattr(choose, "_priced", counted)
    plan = pf.jit(function).plan(pf.spec(spec), target=target)
    assert len(plan.kernels) == 1 and len(priced) < 30
