"""Plans for large arrays of any size, run over small ones of the same class: what is proposed only where there is much
to do is out of the reach of programs that are small themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import Guard
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan

Array = Any
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i16": np.int16, "i32": np.int32, "u8": np.uint8}


def five_points(x: Array) -> Array:
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]


@dataclass(frozen=True)
class Family:
    """A program; the dimensions of its arguments, each letter a size."""

    code: Callable[..., Any]
    arguments: tuple[str, ...]


FAMILIES = {
    "turned": Family(lambda x: x.T * 2, ("nm",)),
    "turned, every second row": Family(lambda x: x[::2].T * 2, ("nm",)),
    "turned, backwards": Family(lambda x: x[:, ::-1].T * 2, ("nm",)),
    "turned, scaled": Family(lambda x, s: x.T * s, ("nm", "n")),
    "added to one that is turned": Family(lambda x, y: x + y.T, ("nm", "mn")),
    "last axes turned": Family(lambda x: x.swapaxes(1, 2) * 2, ("abc",)),
    "axes reversed": Family(lambda x: np.moveaxis(x, (0, 1, 2), (2, 1, 0)) * 2, ("abc",)),
    "last axis in front": Family(lambda x: np.moveaxis(x, 2, 0) * 2, ("abc",)),
    "differences": Family(lambda x: x[:, 1:] - x[:, :-1], ("nm",)),
    "three neighbours": Family(lambda x: x[:, 2:] + x[:, 1:-1] + x[:, :-2], ("nm",)),
    "apart by one": Family(lambda x, y: x[:, :-1] + y[:, 1:], ("nm", "nm")),
    "less a border": Family(lambda x: x[1:-1, 1:-1] * 2, ("nm",)),
    "less three columns": Family(lambda x: x[:, 3:] * 2, ("nm",)),
    "rolled": Family(lambda x: np.roll(x, 3, axis=1) + x, ("nm",)),
    "five points": Family(five_points, ("nm",)),
    "gains and biases": Family(lambda x, w, b: (x - b) * w, ("nm", "m", "m")),
    "joined": Family(lambda x, y: np.concatenate([x * 2, y], axis=1), ("nm", "nk")),
    "triangle": Family(lambda x: np.tril(x), ("nm",)),
    "sums of columns": Family(lambda x: x.sum(axis=0), ("nm",)),
    "means of columns": Family(lambda x: x.mean(axis=0), ("nm",)),
    "largest of columns": Family(lambda x: x.max(axis=0), ("nm",)),
    "sums and largest of columns": Family(lambda x: (x.sum(axis=0), x.max(axis=0)), ("nm",)),
    "products of columns": Family(lambda x, y: (x * y).sum(axis=0), ("nm", "nm")),
    "sums between": Family(lambda x: x.sum(axis=1), ("abc",)),
    "sums between, of few": Family(lambda x: x.sum(axis=1), ("dlc",)),
    "largest between, of few": Family(lambda x: x - x.max(axis=1, keepdims=True), ("dlc",)),
    "prefixes between": Family(lambda x: np.cumsum(x, axis=1), ("abc",)),
    "prefixes between, of few": Family(lambda x: np.cumsum(x, axis=1), ("dlw",)),
    "prefixes of columns": Family(lambda x: np.cumsum(x, axis=0), ("nm",)),
    "sums of rows": Family(lambda x: x.sum(axis=1), ("nm",)),
    "largest of rows": Family(lambda x: x.max(axis=1), ("nm",)),
    "places of the least of rows": Family(lambda x: x.argmin(axis=1), ("nm",)),
    "rows that have some": Family(lambda x: np.any(x > 1, axis=1), ("nm",)),
    "places of the largest between": Family(lambda x: x.argmax(axis=2), ("abc",)),
    "less the largest of a row": Family(lambda x: np.exp(x - x.max(axis=1, keepdims=True)), ("nm",)),
}
SMALL = (0, 16, 32, 48, 64, 80, 112)
"""What is added to the remainder by 16 of a size, of which vectors and sectors have no more elements."""


def drawn_sizes(dice: Random) -> dict[str, int]:
    """Large ones: about square, or long with short rows; and those of three dimensions."""
    n, m = dice.randint(1500, 9000), dice.randint(1500, 9000)
    if dice.random() < 0.3:
        n, m = dice.randint(100_000, 900_000), dice.randint(20, 300)
    few = {"d": 2 + n % 8, "l": 9000 + 10 * n % 80_000, "w": 600 + m % 2400}
    return {"n": n, "m": m, "k": dice.randint(300, 2000), **{name: dice.randint(60, 500) for name in "abc"}, **few}


def holds(plan: Plan, sizes: Mapping[str, int]) -> bool:
    """Whether the plan is for these sizes; what its guards say of joined dimensions follows from those of sizes."""
    guards = [*plan.guards, *[guard for schedule in plan.schedules for guard in schedule.guards]]
    asked = [guard for guard in guards if isinstance(guard, Guard) and guard.expression.names() <= sizes.keys()]
    return all(guard.holds(sizes) for guard in asked if not guard.advisory)


def values(shape: Sequence[int], dtype: str, seed: int) -> Array:
    random = np.random.default_rng(seed)
    kind = DTYPES[dtype]
    return random.standard_normal(shape).astype(kind) if dtype[0] == "f" else random.integers(0, 9, shape).astype(kind)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", FAMILIES)
def test_results_are_those_of_numpy(case: str, seed: int) -> None:
    family, dice = FAMILIES[case], Random(f"{case} {seed}")
    large, dtype = drawn_sizes(dice), dice.choice(list(DTYPES))
    specs = [f"{dtype}[{', '.join(f'{name.upper()}~{large[name]}' for name in dims)}]" for dims in family.arguments]
    plan = pf.jit(family.code).plan(*map(pf.spec, specs), target="h200")
    for _ in range(3):
        small = {name: max(4, dice.choice(SMALL) + size % 16) for name, size in large.items()}
        if not holds(plan, {name.upper(): size for name, size in small.items()}):
            continue
        arrays = [values([small[name] for name in dims], dtype, seed) for dims in family.arguments]
        exact = family.code(*[a.astype(np.float64) if dtype[0] == "f" else a for a in arrays])
        for found, wanted in zip(run_plan(plan, arrays), exact if isinstance(exact, tuple) else (exact,), strict=True):
            if dtype[0] == "f":
                error = {"f16": 2e-2, "f32": 2e-4, "f64": 1e-9}[dtype] * max(1.0, np.abs(wanted).max())
                np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=error)
            else:
                np.testing.assert_array_equal(found, wanted.astype(found.dtype))
