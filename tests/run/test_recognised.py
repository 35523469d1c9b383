"""Calls recognised by written-out text: the same results and refusals as calls by key, for whatever they look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import ArgumentError
from polyfuse.run.dispatch import Jitted
from polyfuse.run.recognised import MISSED

Jit = Callable[..., Jitted]
SCALE = 2.0


def draw(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def misaligned(n: int) -> np.ndarray:
    return draw(n + 1)[1:]


def by_text(f: Jitted, *args: Any, **kwargs: Any) -> bool:
    return f._latest(args, kwargs) is not MISSED


def mixed(x, tree, scale=1.5, *, power=2, label="none"):
    shifted = x * scale + tree["b"][0]
    return shifted**power if label == "none" else shifted + tree["k"]


X, Y = draw(6, 8), draw(6, 8)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X, {"b": [Y], "k": 3}), {}),
    ((X, {"b": [Y], "k": 4}), {}),
    ((X, {"b": [Y], "k": 3.0}), {}),
    ((X, {"b": (Y,), "k": 3}), {}),
    ((X, {"k": 3, "b": [Y]}), {}),
    ((X, {"b": [X], "k": 3}), {}),
    ((X, {"b": [Y], "k": True}), {}),
    ((X, {"b": [Y], "k": 3}, 0.5), {}),
    ((X, {"b": [Y], "k": 3}, 2), {}),
    ((X, {"b": [Y], "k": 3}), {"scale": 0.5}),
    ((X, {"b": [Y], "k": 3}), {"label": "other"}),
    ((X, {"b": [Y], "k": 3}), {"label": "none"}),
    ((X, {"b": [Y], "k": 3}), {"power": 3}),
    ((X, {"b": [Y], "k": 3}), {"power": 3, "scale": 2.0}),
    ((X, {"b": [Y], "k": 3}), {"scale": 2.0, "power": 3}),
    ((X.T.copy().T, {"b": [Y], "k": 3}), {}),
    ((X[:, ::-1], {"b": [Y], "k": 3}), {}),
    ((X.astype("f8"), {"b": [Y], "k": 3}), {}),
    ((X, {"b": [Y[0]], "k": 3}), {}),
    ((misaligned(8), {"b": [Y], "k": 3}), {}),
]


def test_calls_of_every_look_are_told_apart(jit: Jit) -> None:
    f = jit(mixed)
    for _ in range(3):
        for args, kwargs in CALLS:
            for _ in range(2):
                np.testing.assert_allclose(f(*args, **kwargs), mixed(*args, **kwargs), rtol=1e-5, atol=1e-6)
    for args, kwargs in CALLS:
        f(*args, **kwargs)
        assert by_text(f, *args, **kwargs)


@pytest.mark.parametrize("wrong", [(), (X,), (X, {}), (X, {"b": [], "k": 3}), (X, [Y]), (X, {"b": [Y], "k": 1 << 70})])
def test_calls_that_are_refused_stay_refused(jit: Jit, wrong: tuple[Any, ...]) -> None:
    f = jit(mixed)
    for _ in range(3):
        f(X, {"b": [Y], "k": 3})
    for _ in range(2):
        with pytest.raises((ArgumentError, KeyError, IndexError, TypeError)):
            f(*wrong)


def test_more_calls_in_turn_than_are_recognised(jit: Jit) -> None:
    f = jit(lambda x: x + 1)
    arrays = [draw(n, 3) for n in range(2, 12)]
    for _ in range(3):
        for x in arrays:
            np.testing.assert_array_equal(f(x), x + 1)
    assert f.cache_info().misses == len(arrays)
    assert len(f._recent) == 4


def test_what_the_function_reads_elsewhere_is_asked_for(jit: Jit) -> None:
    global SCALE
    weights = draw(8)
    f, g = jit(lambda x: x * SCALE), jit(lambda x: x * weights)
    try:
        for scale in (2.0, 3.0, 2.0):
            SCALE = scale
            weights[:] = scale
            for _ in range(3):
                np.testing.assert_array_equal(f(X), X * np.float32(scale))
                np.testing.assert_array_equal(g(X), X * weights)
            assert by_text(f, X) and by_text(g, X)
    finally:
        SCALE = 2.0


def test_variable_and_static_parameters(jit: Jit) -> None:
    def total(*arrays, mode, **more):
        found = sum(arrays[1:], arrays[0])
        return found + more["last"] if mode == "last" else found * len(more)

    f = jit(total, static=("mode",))
    calls = [((X,), {"mode": "last", "last": Y}), ((X, Y), {"mode": "last", "last": Y}), ((X, Y), {"mode": 1, "a": X})]
    calls += [((X, Y), {"mode": True, "a": X}), ((X, Y), {"mode": 1, "b": X}), ((X, X), {"mode": 1, "a": X, "b": Y})]
    for _ in range(3):
        for args, kwargs in calls:
            for _ in range(2):
                np.testing.assert_allclose(f(*args, **kwargs), total(*args, **kwargs), rtol=1e-6)
            assert by_text(f, *args, **kwargs)


# ---------------------------------------------------------------------------------------------- out=


def two(x, y):
    return x + y, x - y


def test_results_in_the_arrays_of_out(jit: Jit) -> None:
    f, whole = jit(two), np.zeros((20, 8), "f4")
    outs = [(whole[:6], whole[6:12]), [whole[:6], whole[12:18]], (whole[0:6], np.zeros((8, 6), "f4").T)]
    for _ in range(3):
        for out in outs:
            for _ in range(2):
                assert f(X, Y, out=out) is out
                np.testing.assert_array_equal(out[0], X + Y)
                np.testing.assert_array_equal(out[1], X - Y)
    f(X, Y, out=outs[0])
    assert by_text(f, X, Y, out=outs[0]) and not by_text(f, X, Y, out=outs[2])
    with pytest.raises(ArgumentError, match="share memory"):
        f(X, Y, out=(whole[:6], whole[2:8]))
    outs[0][1].flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        f(X, Y, out=outs[0])
    with pytest.raises(ArgumentError, match="out holds 1"):
        f(X, Y, out=(whole[:6],))


@pytest.mark.parametrize("function", [lambda x: x + 1, lambda x, **more: x + 1, lambda *x: x[0] + 1])
def test_out_of_none_is_not_taken_for_out_of_an_array(jit: Jit, function: Callable[..., Any]) -> None:
    f, x, y = jit(function), np.arange(6.0), np.zeros(6)
    for _ in range(3):
        assert np.array_equal(f(x, out=None), x + 1)
    assert f(x, out=y) is y
    np.testing.assert_array_equal(y, x + 1)
    with pytest.raises(ArgumentError, match="out"):
        f(x, out=np.zeros(5))
    assert np.array_equal(f(x, out=None), x + 1)


@pytest.mark.parametrize("first", ["apart", "same", "over"])
def test_out_may_begin_to_overlap_an_argument(jit: Jit, first: str) -> None:
    """The text is made for one way in which they lie, and the others come after."""
    f, memory = jit(lambda x, y: x[::-1] * 2 + y), draw(16, 8)
    ways = {"apart": (memory[:6], memory[8:14]), "same": (memory[:6], memory[:6]), "over": (memory[:6], memory[3:9])}
    for way in (first, *ways, first):
        for _ in range(3):
            x, out = ways[way]
            memory[:] = draw(16, 8)
            expected = x[::-1] * 2 + Y
            f(x, Y, out=out)
            np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_in_place_where_it_is_proved(jit: Jit) -> None:
    f, x = jit(lambda x: np.sqrt(np.abs(x)) + 1), draw(6, 8)
    for _ in range(4):
        expected = np.sqrt(np.abs(x)) + 1
        assert f(x, out=x) is x
        np.testing.assert_allclose(x, expected, rtol=1e-6)


# ---------------------------------------------------------------------------------------------- what else calls do


def test_donated_arguments_keep_their_rules(jit: Jit) -> None:
    def step(x, y):
        x[...] = x * 2
        return x + y

    f = jit(step, donate="x")
    for _ in range(4):
        x = draw(6, 8)
        expected = x * 2 + Y
        np.testing.assert_allclose(f(x, Y), expected, rtol=1e-6)
        x = draw(12, 8)
        f(x[:6], x[3:9])  # overlaps: not taken


def test_scalar_results_and_intermediates(jit: Jit) -> None:
    f, g = jit(lambda x: (x.max(), x - x.mean())), jit(lambda x: np.exp(x).sum(axis=0) / x.std(), fuse=False)
    for _ in range(4):
        top, rest = f(X)
        assert isinstance(top, np.float32) and top == X.max()
        np.testing.assert_allclose(rest, X - X.mean(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(g(X), np.exp(X).sum(axis=0) / X.std(), rtol=1e-5)
    assert by_text(f, X) and by_text(g, X)


def test_the_text_holds_no_array_alive(jit: Jit) -> None:
    import gc
    import weakref

    f, x, y = jit(two), draw(6, 8), draw(6, 8)
    for _ in range(3):
        f(x, y, out=(z := np.empty_like(x), np.empty_like(x)))
        f(x, y)
    refs = [weakref.ref(a) for a in (x, y, z)]
    del x, y, z
    gc.collect()
    assert not any(ref() is not None for ref in refs)


def test_flags_and_keys_of_all_kinds_are_recognised(jit: Jit) -> None:
    """Flags are checked as they are recognised, and keys by their types besides."""
    f = jit(lambda x, table, flag: x * table[0] if flag else x)
    for flag in (True, False, True, True, False, False):
        for key in (0, False):
            np.testing.assert_array_equal(f(X, {key: Y}, flag), X * Y if flag else X)
            np.testing.assert_array_equal(f(X, {key: Y}, flag), X * Y if flag else X)
            assert by_text(f, X, {key: Y}, flag)
            assert not by_text(f, X, {key: Y}, not flag)
            assert not by_text(f, X, {float(key): Y}, flag)
