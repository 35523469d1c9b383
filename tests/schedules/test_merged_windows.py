"""Which windows of registers become one: of all pairs the one that saves most, again and again."""

from __future__ import annotations

import random
import sys
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.face.interpreted import run_plan
from polyfuse.places.windows import Place, windows
from polyfuse.schedule import Digit
from polyfuse.testing import assert_equivalent

DIGITS = {"b": Digit("b", "block", Affine.symbol("N")), "q": Digit("q", "slot", Affine.of(4))}
Box = tuple[tuple[int, int], tuple[int, int]]


def _places(seed: int, count: int) -> list[Place]:
    """Slots of a thread at `count` places near each other."""
    source = random.Random(seed)
    spread = 2 * count
    at = [(source.randrange(spread), source.randrange(6)) for _ in range(count)]
    return [(digit("b") * 64 + digit("q") + row, digit("b") * 8 + column) for row, column in dict.fromkeys(at)]


def _volume(box: Box) -> int:
    (a, b), (c, d) = box
    return (b - a + 1) * (d - c + 1)


def _union(one: Box, other: Box) -> Box:
    (a, b), (c, d) = ((min(p, r), max(q, s)) for (p, q), (r, s) in zip(one, other, strict=True))
    return (a, b), (c, d)


def _by_definition(places: list[Place]) -> list[list[Place]]:
    alive: dict[int, tuple[Box, list[Place]]] = {}
    for k, (row, column) in enumerate(places):
        box = (row.constant, row.constant + 3), (column.constant, column.constant)
        alive[k] = box, [(row, column)]
    pairs = list(combinations(alive, 2))
    while pairs:
        boxes = [(alive[a][0], alive[b][0]) for a, b in pairs]
        saved = [_volume(one) + _volume(other) - _volume(_union(one, other)) for one, other in boxes]
        if max(saved) <= 0:
            break
        a, b = pairs[saved.index(max(saved))]
        box, inside = alive.pop(b)
        alive[a] = _union(alive[a][0], box), [*alive[a][1], *inside]
        pairs = [p for p in pairs if a not in p and b not in p]
        pairs += [(min(a, c), max(a, c)) for c in alive if c != a]
    return [inside for _, inside in alive.values()]


@pytest.mark.parametrize("seed", range(20))
def test_the_pair_that_saves_most_becomes_one(seed: int) -> None:
    places = _places(seed, 3 + 2 * seed)
    found = windows(places, DIGITS, {"q"}, 1)
    assert [list(w.places) for w in found] == _by_definition(places)
    assert len(found) < len(places) or seed < 2


def test_pairs_are_looked_at_once_for_each_window_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs at every step were 1,300,000 for 200 places in a row."""
    module, looked = sys.modules["polyfuse.places.windows"], 0
    union = module._union

    def counted(one: Box, other: Box) -> Box:
        nonlocal looked
        looked += 1
        return union(one, other)

    monkeypatch.setattr(module, "_union", counted)
    places: list[Place] = [(digit("b") * 999 + row,) for row in range(200)]
    assert len(windows([(p + digit("q"),) for (p,) in places], DIGITS, {"q"}, 1)) == 1
    assert looked < 2 * 200**2


def test_strides_that_double_are_planned() -> None:
    """Windows of 2**90 elements: a list was made of as many, and prices overflowed."""

    def halves(x: Any) -> Any:
        for _ in range(90):
            a, b = x[:, ::2], x[:, 1::2]
            x = np.concatenate([a + b, a - b], axis=1)
        return x

    plan = pf.jit(halves, planning_seconds=0.5).plan(pf.spec("f32[256, 1024]"), target="h200")
    assert not plan.fallback
    assert len(plan.kernels) < 200  # of 270 operations, in half a second of planning


def test_results_of_the_same_strided_elements_share_a_kernel() -> None:
    """Sums and differences of neighbours: 133 us by the price of an H200 for 8192 x 8192, 196 where each read them."""

    def haar(x: Any) -> Any:
        return (x[:, ::2] + x[:, 1::2]) * 0.5, (x[:, ::2] - x[:, 1::2]) * 0.5

    def reversed_twice(x: Any) -> Any:
        return x[:, ::-1] * 2, x[:, ::-1] + 1

    for function in (haar, reversed_twice):
        plan = pf.jit(function).plan(pf.spec("f32[N~8192, 8192]"), target="h200")
        assert len(plan.kernels) == 1
        apart = pf.jit(function, fuse=False).plan(pf.spec("f32[N~8192, 8192]"), target="h200")
        assert_equivalent(apart, plan, seeds=(0,), sizes=[{"N": 3}])


def _columns(*columns: int, stride: int = 2) -> list[Place]:
    """Rows of a thread at some columns of what it steps over."""
    return [(digit("b") * 64 + digit("q"), digit("t") * stride + column) for column in columns]


THREADS = DIGITS | {"t": Digit("t", "thread", Affine.of(32))}


def test_neighbours_of_one_element_per_thread_are_loaded_in_vectors() -> None:
    """2*t and 2*t + 1 are a vector of two, whatever runs along the row; one alone is none."""
    (both,) = windows(_columns(0, 1), THREADS, {"q"}, 4, loaded=True)
    assert both.vector == 2 and both.registers == 8
    (alone,) = windows(_columns(1), THREADS, {"q"}, 4, loaded=True)
    assert alone.vector == 1 and not alone.taken


def test_what_lies_side_by_side_is_one_window_of_an_array() -> None:
    """It has one address for each row; what is computed keeps windows of its own, which nothing has to hold at once."""
    (window,) = windows(_columns(0, 1, 2), THREADS, {"q"}, 2, loaded=True)
    assert window.registers == 16 and len(window.places) == 3
    assert len(windows(_columns(0, 1, 2), THREADS, {"q"}, 2)) == 2
    assert len(windows(_columns(0, 1, 2, stride=1), THREADS, {"q"}, 1)) == 3


@pytest.mark.parametrize("shape", [(9, 23, 40), (3, 112, 112), (1, 3, 4)])
def test_vectors_of_neighbours_have_the_results_of_numpy(shape: tuple[int, ...]) -> None:
    def haar(x: Any) -> Any:
        a, b = x[:, :, 0::2], x[:, :, 1::2]
        return a + b, a - b, x[:, 1:, 0::2] * x[:, :-1, 1::2]

    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    plan = pf.jit(haar).plan(pf.spec(f"f32[N~4096, H~{shape[1]}, {shape[2]}]"), target="h200")
    for found, exact in zip(run_plan(plan, (x,)), haar(x), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-6)
