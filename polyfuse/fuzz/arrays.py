"""Arguments of random programs as values: what they hold and how they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from polyfuse.dtypes import BY_NAME, DType, integer_limits

Array = np.ndarray[Any, Any]


BEHIND = 256
"""Bytes behind an array: what several vectors of any processor reach.  LLVM 22 read such without a mask."""


def _conspicuous(dtype: DType) -> Any:
    if dtype.kind == "b":
        return True
    return np.nan if dtype.is_float else integer_limits(dtype).max


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """One array argument.  `strides`: in elements, None for C order; they may be negative, zero or overlap.  `offset`:
    elements by which its memory starts behind an aligned address."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    fill: str = "normal"
    seed: int = 0
    strides: tuple[int, ...] | None = None
    offset: int = 0

    @property
    def is_plain(self) -> bool:
        return self.strides is None and self.offset == 0

    def memory(self) -> tuple[Array, int, tuple[int, ...]]:
        """(memory, start, strides): new elements in one axis, where the array starts in them, its strides in elements.
        Memory in front of the array and behind it holds what shows in any result."""
        dtype = BY_NAME[self.dtype]
        strides = self.strides if self.strides is not None else c_strides(self.shape)
        if 0 in self.shape:
            return aligned(1, dtype), 0, strides
        reach = [(n - 1) * s for n, s in zip(self.shape, strides, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        values = FILLS[self.fill](np.random.default_rng(self.seed), high - low + 1, dtype)
        end = self.offset + len(values)
        memory = aligned(end + BEHIND // dtype.itemsize, dtype)
        memory[:] = _conspicuous(dtype)
        memory[self.offset : end] = values
        return memory, self.offset - low, strides

    def made(self) -> Array:
        """A new array as described."""
        if 0 in self.shape:
            return np.zeros(self.shape, BY_NAME[self.dtype].numpy)
        memory, start, strides = self.memory()
        view = as_strided(memory[start:], self.shape, [s * memory.itemsize for s in strides], writeable=True)
        return np.asarray(view)


def c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of C order, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(1, n)
    return tuple(reversed(strides))


def aligned(count: int, dtype: DType) -> Array:
    """`count` elements whose address divides by 64."""
    raw = np.zeros(count * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * dtype.itemsize].view(dtype.numpy)


def _normal(rng: np.random.Generator, count: int, dtype: DType) -> Array:
    match dtype.kind:
        case "b":
            return rng.integers(0, 2, count).astype(np.bool_)
        case "i":
            return rng.integers(-9, 10, count).astype(dtype.numpy)
        case "u":
            return rng.integers(0, 10, count).astype(dtype.numpy)
    return rng.standard_normal(count).astype(dtype.numpy)


def _whole(rng: np.random.Generator, count: int, dtype: DType) -> Array:
    """Small whole numbers: sums and products of them are exact, ties and zeros are frequent."""
    return rng.integers(0 if dtype.kind in "bu" else -3, 4, count).astype(dtype.numpy)


def _positive(rng: np.random.Generator, count: int, dtype: DType) -> Array:
    if not dtype.is_float:
        return _whole(rng, count, dtype)
    return rng.uniform(0.1, 2.0, count).astype(dtype.numpy)


def _special(rng: np.random.Generator, count: int, dtype: DType) -> Array:
    """Ordinary numbers with NaN, infinities and zeros of both signs among them; of integers the extremes."""
    values = _normal(rng, count, dtype)
    if dtype.kind == "b":
        return values
    if dtype.is_float:
        chosen = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]).astype(dtype.numpy)
    else:
        limits = integer_limits(dtype)
        chosen = np.array([limits.min, limits.max, 0, 1], dtype.numpy)
    here = rng.random(count) < 0.2
    values[here] = rng.choice(chosen, int(here.sum()))
    return values


def _extreme(rng: np.random.Generator, count: int, dtype: DType) -> Array:
    """The whole range: of floats every exponent, subnormal numbers included; of integers every bit pattern."""
    bits = rng.integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype.kind == "b":
        return (bits & 1).astype(np.bool_)
    values = bits.view(dtype.numpy).copy()
    if dtype.is_float:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values[~np.isfinite(values)] = 1
    return values


FILLS: Mapping[str, Callable[[np.random.Generator, int, DType], Array]] = {
    "normal": _normal,
    "whole": _whole,
    "positive": _positive,
    "special": _special,
    "extreme": _extreme,
}
