"""Calls with NumPy arrays on the CPU: right answers, and as few traces, plans and compilations as possible."""

from __future__ import annotations

import enum
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from polyfuse.errors import ArgumentError, OptionError, PolyfuseError, TraceError
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]
RNG = np.random.default_rng(0)


def chain(x, y):
    return np.maximum((x + y) * 2, 0) - 1


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def assert_close(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------------------------------- one plan per class


def test_a_second_call_only_launches(jit: Jit) -> None:
    f = jit(chain)
    x, y = random(40, 70), random(40, 70)
    assert_close(f(x, y), chain(x, y))
    assert_close(f(y, x), chain(y, x))
    info = f.cache_info()
    assert (info.hits, info.misses, info.traces, info.plans, info.compilations) == (1, 1, 1, 1, 1)
    f.cache_clear()
    assert f.cache_info().records == 0


def test_many_shapes_share_few_kernels(jit: Jit) -> None:
    f = jit(softmax)
    for _ in range(30):
        x = random(int(RNG.integers(2, 60)), int(RNG.integers(2, 300)))
        assert_close(f(x), softmax(x))
    info = f.cache_info()
    assert info.traces == 1
    assert info.plans <= 4
    assert info.compilations <= 4


def test_sizes_zero_and_one_specialise(jit: Jit) -> None:
    f = jit(lambda x, y: x + y)
    pairs = [((3, 4), (1, 4)), ((3, 4), (3, 1)), ((3, 4), (3, 4)), ((0, 4), (1, 4)), ((3, 4), (4,)), ((1,), (5,))]
    for first, second in pairs:
        x, y = random(*first), random(*second)
        assert_close(f(x, y), x + y)
    assert f.cache_info().traces == 6


def test_a_branch_on_a_size_is_a_guard(jit: Jit) -> None:
    f = jit(lambda x: x * 2 if x.shape[0] > 10 else x * 3)
    for n in (5, 20, 7, 30):
        x = random(n)
        assert_close(f(x), x * 2 if n > 10 else x * 3)
    info = f.cache_info()
    assert info.traces == 2
    assert all(len(guards) == 1 for guards in info.guards)


def test_shapes_that_do_not_broadcast_are_refused(jit: Jit) -> None:
    f = jit(chain)
    f(random(4, 5), random(4, 5))
    with pytest.raises(PolyfuseError):
        f(random(4, 5), random(4, 6))
    assert_close(f(random(4, 5) * 0, random(4, 5) * 0), np.full((4, 5), -1, np.float32))


# ---------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[:, ::3],
        lambda a: a[::-1],
        lambda a: a[::-2, ::-1],
        lambda a: a.T,
        lambda a: a[3:, 5:],
        lambda a: np.broadcast_to(a[0], a.shape),
        lambda a: np.asfortranarray(a),
        lambda a: a[:, 2:3],
        lambda a: a[:, :0],
        lambda a: a[5],
        lambda a: a[5, 7],
    ],
)
def test_every_memory_order_is_read_right(jit: Jit, view: Callable[[np.ndarray], np.ndarray]) -> None:
    x = view(random(20, 30))
    f = jit(lambda x: x * 2 + 1)
    assert_close(f(x), x * 2 + 1)


def test_unaligned_arrays_are_copied_first(jit: Jit) -> None:
    memory = np.zeros(4 * 100 + 1, np.uint8)
    x = memory[1:].view(np.float32)
    x[...] = random(100)
    record = np.zeros(100, [("tag", "u1"), ("value", "f4")])
    record["value"] = x
    f = jit(lambda x: x * 2)
    assert_close(f(x), x * 2)
    assert_close(f(record["value"]), x * 2)
    x += 1
    assert_close(f(x), x * 2)


def test_scalars_are_passed_by_value(jit: Jit) -> None:
    f = jit(lambda x, a, b=2.5: x * a + b)
    x = random(50)
    for a in (1.5, -2.0, float("inf"), 3, True):
        assert_close(f(x, a), x * a + np.float32(2.5))
    assert_close(f(x, 2.0, b=7), x * np.float32(2) + np.float32(7))
    assert f.cache_info().traces == 4
    with pytest.raises(ArgumentError, match="64 bits"):
        f(x, 1 << 64)


def test_numpy_scalars_are_arrays_of_rank_zero(jit: Jit) -> None:
    f = jit(lambda x, a: x * a)
    x = random(10)
    assert_close(f(x, np.float64(2)), x * np.float64(2))
    assert_close(f(x, np.float32(2)), x * np.float32(2))


def test_control_flow_on_a_scalar_fixes_it(jit: Jit) -> None:
    f = jit(lambda x, flag: x * 2 if flag else -x)
    x = random(10)
    for flag in (True, False, True, False):
        assert_close(f(x, flag), x * 2 if flag else -x)
    assert f.cache_info().traces == 2


def test_static_arguments_are_part_of_the_program(jit: Jit) -> None:
    f = jit(lambda x, axis, mode: x.sum(axis=axis) if mode == "sum" else x.max(axis=axis), static=("axis",))
    x = random(8, 9)
    for axis in (0, 1):
        assert_close(f(x, axis, "sum"), x.sum(axis=axis))
        assert_close(f(x, axis, mode="max"), x.max(axis=axis))
    assert f.cache_info().traces == 4
    with pytest.raises(ArgumentError, match="hashable"):
        f(x, [0], "sum")
    with pytest.raises(OptionError, match="no parameter"):
        jit(softmax, static="dim")


def test_a_static_argument_may_be_an_argument_as_well(jit: Jit) -> None:
    f = jit(lambda n, v, *, times: np.full(n, v) * times, static=("n", "times"))
    f_of_arguments = jit(lambda x, *rest: x * rest[0] + rest[1], static="rest")
    np.testing.assert_array_equal(f(2, 2, times=2), [4, 4])  # one object thrice
    np.testing.assert_array_equal(f(2, 3, times=2), [6, 6])
    np.testing.assert_array_equal(f_of_arguments(7, 7, 7), 56)
    assert f.cache_info().traces == f_of_arguments.cache_info().traces == 1


class Mode(enum.IntEnum):
    DOUBLED = 2
    TRIPLED = 3


class Rate(float, enum.Enum):
    LOW = 0.5


def test_enums_that_are_numbers_are_part_of_the_program(jit: Jit) -> None:
    def function(x, t):
        mode, rate = t["mode"], t["rate"]
        return (x * 2 + mode if mode is Mode.DOUBLED else x[mode] * mode), x * rate, x * (2.5 * mode)

    f = jit(function)
    x = random(8, 9)
    for _ in range(2):
        for mode in Mode:
            t = {"mode": mode, "rate": Rate.LOW}
            for found, expected in zip(f(x, t), function(x, t), strict=True):
                assert_close(found, expected)  # NumPy takes them for numbers of 64 bits
    assert f.cache_info().traces == 2


def test_slices_are_part_of_the_program(jit: Jit) -> None:
    f = jit(lambda x, part: x[part] * 2)
    x = random(4, 6)
    parts = [slice(1, 3), slice(None, None, -1), (slice(None), slice(2, 5)), slice(1, 3)]
    for part in parts:
        assert_close(f(x, part), x[part] * 2)
    assert f.cache_info().traces == 3


def test_static_zeros_differ_by_sign(jit: Jit) -> None:
    f = jit(lambda x, a: x * a, static="a")
    x = np.ones(3, np.float32)
    assert not np.signbit(f(x, 0.0)).any()
    assert np.signbit(f(x, -0.0)).all()


@dataclass
class Layer:
    weight: np.ndarray
    bias: np.ndarray


class Pair(NamedTuple):
    first: Any
    second: Any


def test_nested_arguments_and_results(jit: Jit) -> None:
    def f(layers, pair, *rest, **named):
        total = sum(layer.weight * layer.bias for layer in layers)
        return {"total": total, "pair": Pair(pair.second, [pair.first, named["scale"] * rest[0]]), "none": None}

    layers = [Layer(random(3, 4), random(4)), Layer(random(3, 4), random(4))]
    arguments = (layers, Pair(random(2), random(5)), random(6))
    g = jit(f)
    for _ in range(2):
        got, expected = g(*arguments, scale=2.0), f(*arguments, scale=np.float32(2))
        assert_close(got["total"], expected["total"])
        assert_close(got["pair"].first, expected["pair"].first)
        assert_close(got["pair"].second[0], expected["pair"].second[0])
        assert_close(got["pair"].second[1], expected["pair"].second[1])
        assert got["none"] is None
    assert g.cache_info().hits == 1


def test_structure_is_part_of_the_key(jit: Jit) -> None:
    f = jit(lambda a, b: (a[0] if isinstance(a, tuple) else a) - (b[0] if isinstance(b, tuple) else b))
    x, y = random(5), random(5)
    assert_close(f((x,), y), x - y)
    assert_close(f(x, (y,)), x - y)
    assert f.cache_info().traces == 2


def test_other_objects_are_refused_by_name(jit: Jit) -> None:
    f = jit(lambda x, options: x)
    with pytest.raises(ArgumentError, match=r"options\['k'\] is a object"):
        f(random(3), {"k": object()})
    with pytest.raises(ArgumentError, match="x is a masked array"):
        f(np.ma.masked_array([1.0]), 1)
    with pytest.raises(ArgumentError, match=r"options\[1\] has dtype complex64"):
        f(random(3), (1, np.zeros(3, np.complex64)))
    with pytest.raises(ArgumentError, match="missing a required argument"):
        f(random(3))


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: {1, 2}, "frozenset"), (lambda: frozenset((1, 2)), "frozenset"), (lambda: iter([1]), "list"),
        (lambda: (k for k in (1, 2)), "list"), (lambda: {1: 2}.keys(), "list"), (lambda: bytearray(b"1"), "bytes"),
        (lambda: types.SimpleNamespace(a=1), "dataclass"), (object, "static"),
    ],
)  # fmt: skip
def test_advice_for_other_objects_names_what_works(jit: Jit, make: Callable[[], Any], advice: str) -> None:
    with pytest.raises(ArgumentError, match="options is a ") as raised:
        jit(lambda x, options: x)(random(3), make())
    assert advice in raised.value.advice
    assert (advice == "static") == raised.value.advice.startswith("If it never changes")
    with pytest.raises(ArgumentError, match=r"options is static(?s:.*)Use a frozenset"):
        jit(lambda x, options: x, static="options")(random(3), {1, 2})


def test_texts_of_numpy_are_texts(jit: Jit) -> None:
    f = jit(lambda x, how: x * 2 if how == "double" else x)
    for how, factor in (("double", 2), (np.str_("double"), 2), (np.str_("single"), 1), (np.str_("double"), 2)):
        assert_close(f(np.ones(3), how), np.full(3, float(factor)))


@pytest.mark.parametrize(
    "number", [np.datetime64(1, "s"), np.complex64(1), np.timedelta64(1, "s"), np.longdouble(1), np.void(b"1")]
)
def test_numbers_of_other_dtypes_are_refused_by_name(jit: Jit, number: Any) -> None:
    f = jit(lambda x, options: x)
    with pytest.raises(ArgumentError, match="options has dtype"):
        f(random(3), number)
    with pytest.raises(ArgumentError, match=r"options\['k'\]\[0\] has dtype"):
        f(random(3), {"k": [number]})


def test_keywords_may_have_any_name(jit: Jit) -> None:
    f, x = jit(lambda **kw: kw["self"] + kw["args"]), random(3)
    for _ in range(3):
        assert_close(f(self=x, args=x), x + x)
    for ready in (f.bind(self=x, args=x), f.graph(self=x, args=x)):
        assert_close(ready(), x + x)
    assert_close(f.compile(self=x, args=x)(self=x, args=x), x + x)
    assert len(f.plan(self=x, args=x, fuse=False).kernels) == 1
    with pytest.raises(OptionError, match="unknown option 'other'"):
        jit(lambda x: x).plan(x, other=1)


def test_methods(jit: Jit) -> None:
    class Model:
        scale = 3.0

        def __hash__(self) -> int:
            return 7

    def call(self, x):
        return x * self.scale

    Model.call = jit(call, static="self")
    x = random(4)
    assert_close(Model().call(x), x * np.float32(3))


def test_a_jitted_function_inside_another_is_inlined(jit: Jit) -> None:
    inner = jit(softmax)
    f = jit(lambda x: inner(x) * 2)
    x = random(5, 6)
    assert_close(f(x), softmax(x) * 2)
    assert inner.cache_info().traces == 0


USES: list[Callable[[Any, Any], Any]] = [
    lambda f, x: f(x, out=np.empty((5, 6))), lambda f, x: f.bind(x)(), lambda f, x: f.plan(x), lambda f, x: f.graph(x),
]  # fmt: skip


@pytest.mark.parametrize("use", USES, ids=["out", "bind", "plan", "graph"])
@pytest.mark.parametrize("held", ["by name", "in a list"])
def test_a_jitted_function_inside_another_has_no_arrays_and_plans_of_its_own(
    jit: Jit, use: Callable[[Any, Any], Any], held: str
) -> None:
    inner = jit(softmax)
    several = [inner]
    outer = jit(lambda x: use(inner if held == "by name" else several[0], x))
    with pytest.raises(TraceError, match="softmax is a part of the jitted function that calls it"):
        outer(random(5, 6))


def test_a_jitted_function_is_one_object_inside_another(jit: Jit) -> None:
    inner = jit(softmax)
    names = {inner: 2.0}

    def helper(x):
        return x * names[inner] if inner.__name__ == "softmax" else x

    x = random(5, 6)
    assert_close(jit(lambda x: helper(inner(x)) * names[inner])(x), softmax(x) * 4)


# ---------------------------------------------------------------------------------------------- results


def test_results_of_rank_zero_are_numpy_scalars(jit: Jit) -> None:
    f = jit(lambda x: (x.sum(), x.max(axis=0)))
    x = random(50)
    total, largest = f(x)
    assert isinstance(total, np.float32)
    assert isinstance(largest, np.float32)
    assert largest == x.max()


def test_outputs_alias_nothing(jit: Jit) -> None:
    f = jit(lambda x: (x, x, x[::2], x * 1))
    x = random(10)
    results = f(x)
    for k, a in enumerate(results):
        assert not np.shares_memory(a, x)
        assert not any(np.shares_memory(a, b) for b in results[:k])
    assert_close(results[0], x)
    assert_close(results[1], x)
    assert_close(results[2], np.ascontiguousarray(x[::2]))


def test_empty_arrays_launch_nothing(jit: Jit) -> None:
    f = jit(lambda x: (x * 2, x.sum(axis=0), x.sum(axis=1)))
    for shape in ((0, 4), (4, 0), (0, 0)):
        x = random(*shape)
        for got, expected in zip(f(x), (x * 2, x.sum(axis=0), x.sum(axis=1)), strict=True):
            assert_close(got, expected)


def test_functions_without_arrays(jit: Jit) -> None:
    f = jit(lambda n: np.full((3, 4), 2.0) * n)
    assert_close(f(2.0), np.full((3, 4), 4.0))


def test_intermediates_between_kernels_live_in_the_workspace(jit: Jit) -> None:
    f = jit(lambda x: np.exp(np.sin(np.cos(x) * 2) + 1).sum(axis=0), fuse=False)
    x = random(30, 40)
    assert_close(f(x), np.exp(np.sin(np.cos(x) * 2) + 1).sum(axis=0))
    assert f.cache_info().compilations > 2


# ---------------------------------------------------------------------------------------------- captured values

WEIGHT = random(8)
SCALE = 2.0


def uses_globals(x):
    return x * WEIGHT * SCALE


def test_captured_arrays_are_read_at_each_call(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    f = jit(uses_globals)
    x = random(8)
    assert_close(f(x), uses_globals(x))
    WEIGHT[...] = random(8)
    assert_close(f(x), uses_globals(x))
    assert f.cache_info().hits == 1
    monkeypatch.setitem(globals(), "WEIGHT", random(8))
    assert_close(f(x), uses_globals(x))
    monkeypatch.setitem(globals(), "WEIGHT", random(1))
    assert_close(f(x), uses_globals(x))
    monkeypatch.setitem(globals(), "WEIGHT", 5.0)
    assert_close(f(x), uses_globals(x))


def test_rebound_globals_and_closures_are_seen(jit: Jit, monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 2.0

    def closed(x):
        return x * factor

    f, g = jit(uses_globals), jit(closed)
    x = random(8)
    assert_close(f(x), uses_globals(x))
    assert_close(g(x), closed(x))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    factor = 4.0
    assert_close(f(x), uses_globals(x))
    assert_close(g(x), closed(x))
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert_close(f(x), uses_globals(x))
    assert f.cache_info().traces == 2


class Settings:
    def __init__(self) -> None:
        self.weight, self.scale = random(8), 2.0

    def __hash__(self) -> int:
        return 1

    def apply(self, x):
        return x * self.weight * self.scale


SETTINGS = {"layer": Settings(), "offset": 1.0}


def uses_containers(x):
    return SETTINGS["layer"].apply(x) + SETTINGS["offset"]


def test_attributes_and_items_that_change_are_seen(jit: Jit) -> None:
    f, x = jit(uses_containers), random(8)
    assert_close(f(x), uses_containers(x))
    assert_close(f(x), uses_containers(x))
    assert f.cache_info().hits == 1
    SETTINGS["layer"].weight = random(8)
    assert_close(f(x), uses_containers(x))
    SETTINGS["layer"].scale = 5.0
    assert_close(f(x), uses_containers(x))
    SETTINGS["offset"] = -1.0
    assert_close(f(x), uses_containers(x))


def test_attributes_of_static_arguments_that_change_are_seen(jit: Jit) -> None:
    settings, x = Settings(), random(8)
    f = jit(lambda x, settings: x * settings.weight * settings.scale, static="settings")
    assert_close(f(x, settings), x * settings.weight * np.float32(settings.scale))
    settings.scale = 7.0
    assert_close(f(x, settings), x * settings.weight * np.float32(settings.scale))
    settings.weight = random(8)
    assert_close(f(x, settings), x * settings.weight * np.float32(settings.scale))


# ---------------------------------------------------------------------------------------------- threads


def test_concurrent_first_calls_compile_once(jit: Jit) -> None:
    f = jit(softmax)
    inputs = [random(16, 64) for _ in range(8)]
    results: list[Any] = [None] * 8
    barrier = threading.Barrier(8)

    def call(k: int) -> None:
        barrier.wait()
        for _ in range(20):
            results[k] = f(inputs[k])

    threads = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(inputs, results, strict=True):
        assert_close(y, softmax(x))
    info = f.cache_info()
    assert (info.traces, info.plans, info.compilations, info.misses) == (1, 1, 1, 1)
