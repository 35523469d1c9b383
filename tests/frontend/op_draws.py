"""Random arguments for one row of the operation table: shapes, dtypes, layouts, axes, slices.

A row names its arrays, for example ``x:ij y:jk:float i:@a``: name, shape, kind.

shape   letters       one size per letter, the same for equal letters; capitals are at least 1, digits mean themselves
        *             any rank up to 3; several of them broadcast together
        +             any rank from 1 to 4
        =             the shape of the first array
        @a, @         integers that index axis `a` of x, or x flattened; of any rank up to 2
kind    any, number, real, float, integer, bool, double
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
KINDS: dict[str, tuple[str, ...]] = {
    "any": (*FLOATS, *FLOATS, *INTEGERS, "bool"),
    "number": (*FLOATS, *FLOATS, *INTEGERS),
    "signed": (*FLOATS, "int8", "int16", "int32", "int64"),
    "real": ("float32", "float64", "int32", "int64"),
    "float": (*FLOATS, "float32", "float64"),
    "single": ("float32", "float64"),
    "double": ("float64",),
    "integer": INTEGERS,
    "bool": ("bool",),
    "bits": (*INTEGERS, "bool"),
    "index": ("int32", "int64"),
}
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 9)
DOMAINS: dict[str, tuple[float, float]] = {
    "any": (-3, 3),
    "positive": (0.25, 3),
    "unit": (-0.9, 0.9),
    "above one": (1.1, 3),
    "small": (0, 3),
}
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


def size(rng: random.Random, least: int = 0) -> int:
    return max(rng.choice(SIZES), least)


def shapes(rng: random.Random, parts: dict[str, str]) -> dict[str, tuple[int, ...]]:
    """The shape of every array but index arrays."""
    letters: dict[str, int] = {}
    base = tuple(size(rng) for _ in range(rng.randint(0, 3)))
    found: dict[str, tuple[int, ...]] = {}
    for name, text in parts.items():
        if text.startswith("@"):
            continue
        if text == "*":
            found[name] = _broadcasting(rng, base) if list(parts.values()).count("*") > 1 else base
        elif text == "+":
            found[name] = tuple(size(rng) for _ in range(rng.randint(1, 4)))
        elif text == "=":
            found[name] = next(iter(found.values()))
        else:
            found[name] = tuple(
                int(c) if c.isdigit() else letters.setdefault(c, size(rng, int(c.isupper()))) for c in text
            )
    return found


def _broadcasting(rng: random.Random, base: tuple[int, ...]) -> tuple[int, ...]:
    kept = base[rng.randint(0, len(base)) if rng.random() < 0.3 else 0 :]
    return tuple(1 if rng.random() < 0.2 else n for n in kept)


def values(rng: random.Random, shape: tuple[int, ...], dtype: str, domain: str, special: bool) -> Array:
    """Random values of a domain in a random layout."""
    numbers = np.random.default_rng(rng.getrandbits(32))
    low, high = DOMAINS[domain]
    kind = np.dtype(dtype)
    if kind.kind == "b":
        drawn = numbers.random(shape) < 0.5
    elif kind.kind == "f":
        drawn = np.asarray(numbers.uniform(low, high, shape)).astype(kind)
        if special and rng.random() < 0.3:
            mask = numbers.random(shape) < 0.2
            drawn = np.where(mask, numbers.choice(np.array(SPECIAL, kind), shape), drawn)
    else:
        least = max(int(np.ceil(low)), 0 if kind.kind == "u" else -9)
        drawn = numbers.integers(least, int(high) + 3, shape).astype(kind)
    return laid_out(rng, np.asarray(drawn, kind))


def laid_out(rng: random.Random, drawn: Array) -> Array:
    """The same values: contiguous, transposed in memory, strided, reversed or with an offset."""
    layout = rng.choice(("plain", "plain", "transposed", "strided", "reversed", "offset"))
    if not drawn.ndim or layout == "plain":
        return drawn
    if layout == "transposed":
        return np.asfortranarray(drawn)
    axis = rng.randrange(drawn.ndim)
    place = [slice(None)] * drawn.ndim
    if layout == "reversed":
        place[axis] = slice(None, None, -1)
        return np.ascontiguousarray(drawn[tuple(place)])[tuple(place)]
    grown = list(drawn.shape)
    grown[axis] = 2 * grown[axis] if layout == "strided" else grown[axis] + 1
    place[axis] = slice(None, None, 2) if layout == "strided" else slice(1, None)
    memory = np.zeros(grown, drawn.dtype)
    memory[tuple(place)] = drawn
    return memory[tuple(place)]


def indices(rng: random.Random, extent: int) -> Array:
    """Integers in [-extent, extent); none of an empty axis."""
    shape = tuple(size(rng) for _ in range(rng.randint(0, 2))) if extent else (0,)
    numbers = np.random.default_rng(rng.getrandbits(32))
    drawn = numbers.integers(-extent, extent, shape) if extent else np.zeros(shape)
    return np.asarray(drawn).astype(rng.choice(("int64", "int32")))


# ---------------------------------------------------------------------------------------------- numbers of the row


def axis(rng: random.Random, x: Array) -> int:
    return rng.randrange(-x.ndim, x.ndim) if x.ndim else 0


def axes(rng: random.Random, x: Array) -> Any:
    """None, one axis or several."""
    if not x.ndim or rng.random() < 0.25:
        return None
    if rng.random() < 0.5:
        return axis(rng, x)
    chosen = rng.sample(range(x.ndim), rng.randint(0, x.ndim))
    return tuple(k - x.ndim if rng.random() < 0.3 else k for k in chosen)


def _slice(rng: random.Random, extent: int) -> Any:
    def bound() -> Any:
        return rng.choice((None, rng.randint(-extent - 2, extent + 2)))

    return slice(bound(), bound(), rng.choice((None, 1, 2, 3, -1, -2)))


def subscript(rng: random.Random, x: Array) -> Any:
    """Integers, slices of any step, an ellipsis and None."""
    parts: list[Any] = []
    for extent in x.shape[: rng.randint(0, x.ndim)]:
        if extent and rng.random() < 0.25:
            parts.append(rng.randrange(-extent, extent))
        else:
            parts.append(_slice(rng, extent))
    if rng.random() < 0.3:
        parts.append(Ellipsis)
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), None)
    return tuple(parts)


def reshaped(rng: random.Random, x: Array) -> tuple[int, ...]:
    """Sizes of the same volume: neighbours merged, and one of them split."""
    sizes = list(x.shape)
    while len(sizes) > 1 and rng.random() < 0.5:
        k = rng.randrange(len(sizes) - 1)
        sizes[k : k + 2] = [sizes[k] * sizes[k + 1]]
    if sizes and rng.random() < 0.5:
        k = rng.randrange(len(sizes))
        factors = [f for f in (1, 2, 3) if sizes[k] % f == 0]
        f = rng.choice(factors)
        sizes[k : k + 1] = [f, sizes[k] // f]
    if x.size and sizes and rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    return tuple(sizes)


def larger(rng: random.Random, x: Array) -> tuple[int, ...]:
    """A shape that x broadcasts to."""
    grown = tuple(size(rng) if n == 1 else n for n in x.shape)
    return (*(size(rng) for _ in range(rng.randint(0, 2))), *grown)


def permutation(rng: random.Random, x: Array) -> tuple[int, ...]:
    return tuple(rng.sample(range(x.ndim), x.ndim))


def widths(rng: random.Random, x: Array) -> Any:
    """Pad widths of all spellings, at most what every mode allows."""
    most = max(min((n - 1 for n in x.shape), default=0), 0)
    each = [(rng.randint(0, most), rng.randint(0, most)) for _ in x.shape]
    return rng.choice((most, [each[0]], each)) if each else 0


NUMBERS: dict[str, Callable[[random.Random, Array], Any]] = {
    "a": axis,
    "A": axes,
    "keep": lambda rng, x: rng.random() < 0.5,
    "n": lambda rng, x: rng.randint(-3, 3),
    "w": lambda rng, x: rng.randint(1, 3),
    "c": lambda rng, x: rng.choice((-2, 0.5, 2, 3)),
    "perm": permutation,
    "e": lambda rng, x: rng.randrange(-x.ndim - 1, x.ndim + 1),
    "s": subscript,
    "shape": reshaped,
    "wide": larger,
    "pads": widths,
    "dt": lambda rng, x: rng.choice(("float32", "float64", "int32", "int64")),
    "cast": lambda rng, x: rng.choice(KINDS["any"]),
    "b": axis,
    "pair": lambda rng, x: tuple(rng.sample(range(x.ndim), 2)) if x.ndim > 1 else (0, 1),
}
