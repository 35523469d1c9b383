"""The maximum and the minimum of a core: NaN of either side, 0.0 over -0.0, and what a loop waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cpu.fragments import object_code
from tests.backends.cpu_kernels import evaluate

SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-45, -1e-45, 3.5, -3.5]


def bits(x: Any) -> Any:
    """Patterns of numbers; all NaN alike."""
    x = np.asarray(x)
    return np.where(np.isnan(x), 1, x.view(f"i{x.itemsize}"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_pairs_of_special_numbers(dtype: Any) -> None:
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(SPECIAL, SPECIAL))
    largest, least = evaluate(["maximum(x, y)", "minimum(x, y)"], {"x": x, "y": y}, [dtype, dtype])
    either = np.isnan(x) | np.isnan(y)
    zeros = (x == 0) & (y == 0)
    one, other = np.signbit(x), np.signbit(y)
    wanted = np.where(zeros, np.where(one & other, dtype(-0.0), dtype(0.0)), np.where(x > y, x, y))
    np.testing.assert_array_equal(bits(largest), bits(np.where(either, dtype(np.nan), wanted)))
    wanted = np.where(zeros, np.where(one | other, dtype(-0.0), dtype(0.0)), np.where(x < y, x, y))
    np.testing.assert_array_equal(bits(least), bits(np.where(either, dtype(np.nan), wanted)))


extremes = pf.jit(lambda x: (x.max(), x.min(), x.argmax(), x.argmin()))
COUNTS = [1, 2, 15, 16, 17, 33, 100, 65536 + 19, 262144 + 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", COUNTS)
def test_a_nan_anywhere_is_found(count: int, dtype: Any) -> None:
    for at in sorted({0, 1, 14, 15, 16, 17, 31, 32, count // 2, count - 16, count - 2, count - 1}):
        if 0 <= at < count:
            x = np.random.default_rng(at).standard_normal(count).astype(dtype)
            x[at] = np.nan
            if at + 1 < count:
                x[-1] = np.nan  # the first counts
            largest, least, where, place = extremes(x)
            assert np.isnan(largest) and np.isnan(least)
            assert where == place == at


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.int16])
@pytest.mark.parametrize("count", COUNTS)
def test_of_equal_elements_the_first_counts(count: int, dtype: Any) -> None:
    for low, high in ((0, 1), (0, 0)) if np.dtype(dtype).kind != "f" else ((0, 1), (-np.inf, np.inf), (np.inf, np.inf)):
        x = np.full(count, low, dtype)
        x[count // 3 :: max(1, count // 5)] = high
        assert tuple(map(float, extremes(x))) == (x.max(), x.min(), x.argmax(), x.argmin())


@pytest.mark.parametrize("count", COUNTS)
def test_of_zeros_alone_the_sign_is_kept(count: int) -> None:
    largest, least, *_ = extremes(np.full(count, -0.0))
    assert np.signbit(largest) and np.signbit(least)
    largest, least, *_ = extremes(np.full(count, 0.0))
    assert not np.signbit(largest) and not np.signbit(least)


def test_nothing_has_no_extreme() -> None:
    for function in (lambda x: x.max(), lambda x: x.argmin()):
        with pytest.raises(ValueError, match=r"."):
            pf.jit(function)(np.empty(0))


def new() -> float:
    """A number of which no kernel is stored yet."""
    return float(np.random.default_rng().random())


def code_of(monkeypatch: pytest.MonkeyPatch, function: Any, x: Any) -> list[str]:
    """The optimised code of all kernels of a multiple of a function's result."""
    texts: list[str] = []

    def watched(module: Any) -> bytes:
        texts.append(str(module))
        return object_code.object_code(module)

    factor = new()
    monkeypatch.setattr("polyfuse.backends.numba_cpu.fragments.entry.object_code", watched)
    pf.jit(lambda x: function(x) * factor)(x)
    return texts


def test_a_loop_waits_for_what_it_holds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's own maximum begins with the sign of what is held: shifts, tests and choices that a trip waits for."""
    texts = code_of(monkeypatch, lambda x: x.max(), np.random.default_rng(0).standard_normal(300007))
    loops = [text for text in texts if "llvm.maximum.v16f64" not in text and "fcmp ogt <16 x double>" in text]
    assert loops, "the loop over a share compares what it reads with what it holds"
    assert not any("llvm.masked.load" in text for text in loops)


def loads_of_eight(monkeypatch: pytest.MonkeyPatch, function: Any) -> int:
    """Loads of a register of eight float64 in the code of a function of rows."""
    return sum(text.count("load <16 x double>") for text in code_of(monkeypatch, function, np.ones((301, 1007))))


def test_loops_of_unknown_length_are_not_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """But those of prefixes are, in which one trip waits for the other."""
    assert loads_of_eight(monkeypatch, lambda x: x[::-1]) <= 2  # and what is left of a row
    assert loads_of_eight(monkeypatch, lambda x: np.cumsum(x, 1)) > 2
