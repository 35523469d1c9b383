"""``out=``: right whatever it overlaps, and refused where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import ArgumentError
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]


def shifted(x):
    return x[::-1] * 2 + 1


def values(n: int = 40) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def test_out_is_written_and_returned(jit: Jit) -> None:
    f, x, out = jit(shifted), values(), np.zeros(40, np.float32)
    assert f(x, out=out) is out
    np.testing.assert_array_equal(out, shifted(x))
    f(x + 1, out=out)
    np.testing.assert_array_equal(out, shifted(x + 1))
    assert f.cache_info().hits == 1


@pytest.mark.parametrize("offset", [0, 4, 8, -4])
def test_out_may_overlap_an_argument(jit: Jit, offset: int) -> None:
    memory = values(64)
    x, out = memory[8:48], memory[8 + offset : 48 + offset]
    expected = shifted(x.copy())
    jit(shifted)(x, out=out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("step", [2, -1, -2])
def test_out_may_be_strided(jit: Jit, step: int) -> None:
    memory = np.zeros(200, np.float32)
    out = memory[::step][:40]
    jit(shifted)(values(), out=out)
    np.testing.assert_array_equal(out, shifted(values()))


def test_out_at_an_odd_vector(jit: Jit) -> None:
    memory = np.zeros(50, np.float32)
    for start in range(4):
        out = memory[start : start + 40]
        jit(shifted)(values(), out=out)
        np.testing.assert_array_equal(out, shifted(values()))


def test_out_of_several_results(jit: Jit) -> None:
    f = jit(lambda x: {"a": x * 2, "b": (x + 1, x.sum())})
    out = {"a": np.zeros(40, np.float32), "b": (np.zeros(40, np.float32), np.zeros((), np.float32))}
    assert f(values(), out=out) is out
    np.testing.assert_array_equal(out["a"], values() * 2)
    np.testing.assert_array_equal(out["b"][0], values() + 1)
    assert out["b"][1] == values().sum()


def test_a_parameter_called_out_is_the_users(jit: Jit) -> None:
    def f(x, out):
        return x - out

    np.testing.assert_array_equal(jit(f)(values(), out=values()), values() * 0)


READ_ONLY = np.zeros(40, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.zeros(41, np.float32), r"f32\[41\], the result is f32\[40\]"),
        (np.zeros(40, np.float64), r"f64\[40\], the result is f32\[40\]"),
        ((np.zeros(40, np.float32),) * 2, "holds 2 arrays"),
        ([1.0], "is a float"),
        (READ_ONLY, "read-only"),
        (np.broadcast_to(np.zeros(1, np.float32), (40,)), "read-only|broadcast"),
        (np.zeros(161, np.uint8)[1:].view(np.float32), "not aligned"),
        (np.zeros(40, ">f4"), "byte order"),
    ],
)
def test_what_does_not_fit(jit: Jit, out: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        jit(shifted)(values(), out=out)


def test_out_whose_rows_lie_between_each_other(jit: Jit) -> None:
    """Strides of 3 and 2 elements: no two elements share an address."""
    memory = np.zeros(6, np.float32)
    out = np.lib.stride_tricks.as_strided(memory, (2, 2), (12, 8))
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    jit(shifted)(x, out=out)
    np.testing.assert_array_equal(out, shifted(x))
    with pytest.raises(ArgumentError, match="elements share addresses"):
        jit(shifted)(x, out=np.lib.stride_tricks.as_strided(memory, (2, 2), (8, 8)))


def test_targets_that_share_memory_are_refused(jit: Jit) -> None:
    memory = np.zeros(80, np.float32)
    with pytest.raises(ArgumentError, match="share memory"):
        jit(lambda x: (x, x + 1))(values(), out=(memory[:40], memory[39:79]))


@pytest.mark.parametrize("side", ["columns", "every other row", "backwards"])
def test_targets_may_lie_between_each_other(jit: Jit, side: str) -> None:
    memory = np.zeros((8, 20), np.float32)
    outs = {
        "columns": (memory[:, :10], memory[:, 10:]),
        "every other row": (memory[::2], memory[1::2]),
        "backwards": (memory[::-2, ::-1], memory[::2]),
    }[side]
    x, f = np.arange(outs[0].size, dtype=np.float32).reshape(outs[0].shape), jit(lambda x: (x + 1, x[::-1] * 2))
    for _ in range(3):
        f(x, out=outs)
        np.testing.assert_array_equal(outs[0], x + 1)
        np.testing.assert_array_equal(outs[1], x[::-1] * 2)


def test_results_in_memory_maps(jit: Jit, tmp_path: Path) -> None:
    x, out = values(), np.memmap(tmp_path / "results", np.float32, "w+", shape=(40,))
    f = jit(shifted)
    for _ in range(3):
        out[:] = 0
        assert f(x, out=out) is out
        np.testing.assert_array_equal(out, shifted(x))
    read = np.memmap(tmp_path / "results", np.float32, "r", shape=(40,))
    with pytest.raises(ArgumentError, match="read-only"):
        f(x, out=read)


def test_donated_arguments_are_written_in_place(jit: Jit) -> None:
    def step(x, y):
        x[...] = x * 2 + y
        return x.sum()

    x, y = values(), np.ones(40, np.float32)
    total = jit(step, donate="x")(x, y)
    np.testing.assert_array_equal(x, values() * 2 + 1)
    assert total == x.sum()


def test_bound_calls_launch_again(jit: Jit) -> None:
    f, x = jit(shifted), values()
    bound = f.bind(x)
    first = bound()
    np.testing.assert_array_equal(first, shifted(x))
    x += 1
    assert bound() is first
    np.testing.assert_array_equal(first, shifted(x))
    onto = f.bind(x, out=x)
    expected = shifted(x.copy())
    assert onto() is x
    np.testing.assert_array_equal(x, expected)
