"""Of many arrays that are joined a CPU core reads, in each block that lies in one of them, that one alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.lower.context import Context
from polyfuse.schedule import Digit
from polyfuse.sets import at_least_zero


def sines(count: int) -> Callable[[Any], Any]:
    return lambda x: np.stack([np.sin(x * k) for k in range(1, count + 1)])


def bodies(source: str) -> list[str]:
    """The text of each interior, and last that of the border."""
    return re.split(r"\n *(?:if|elif|else).*:\n", source[source.rindex("def ") :])[1:]


@pytest.mark.parametrize("count", [3, 8, 20])
def test_each_part_has_an_interior_with_one_load(count: int) -> None:
    arrays = [np.empty(100_000 + k, np.float32) for k in range(count)]
    source = pf.jit(lambda *parts: np.concatenate(parts)).plan(*arrays, target="cpu").source()
    *inside, border = bodies(source)
    assert len(inside) == count
    assert all(body.count("load(") == 1 and "where(" not in body for body in inside)
    assert len({re.search(r"load\((\w+)", body)[1] for body in inside}) == count  # type: ignore[index]
    assert border.count("load(") == count


def test_two_parts_have_one() -> None:
    arrays = [np.empty(100_000, np.float32) for _ in range(2)]
    source = pf.jit(lambda *parts: np.concatenate(parts)).plan(*arrays, target="cpu").source()
    assert len(bodies(source)) == 2


def test_parts_within_a_row_have_none() -> None:
    """A block has all of a row, and goes through its parts one by one: `test_cut_rows`."""
    arrays = [np.empty((4000, 50), np.float32) for _ in range(8)]
    source = pf.jit(lambda *parts: np.concatenate(parts, 1)).plan(*arrays, target="cpu").source()
    assert "else:" not in source


@pytest.mark.parametrize("count", [3, 5, 13])
@pytest.mark.parametrize("size", [1, 31, 4095, 4097, 20_001])
def test_results(count: int, size: int) -> None:
    """Parts of any length, also shorter than a block, at sizes beside those of the plan."""
    joined = pf.jit(lambda *parts: np.concatenate([p * 2 if k % 2 else p for k, p in enumerate(parts)]))
    for other in (size, size + 1, max(1, size // 2)):
        arrays = [np.random.default_rng(k).standard_normal(other + k) for k in range(count)]
        np.testing.assert_array_equal(joined(*arrays), np.concatenate([a * (1 + k % 2) for k, a in enumerate(arrays)]))
    x = np.random.default_rng(9).standard_normal(size)
    np.testing.assert_allclose(pf.jit(sines(count))(x), sines(count)(x), rtol=1e-12, atol=1e-15)


def test_choices_between_computed_parts_are_decided() -> None:
    """A block of sine number 3 computes no other."""
    plan = pf.jit(sines(6), fuse=True).plan(np.empty(100_000, np.float32), target="cpu")
    (*inside, _) = bodies(plan.source())
    assert len(inside) == 6 and all(body.count("sin(") + body.count("load(") <= 2 for body in inside)


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        (8 * digit("b") + digit("v") - Affine.symbol("n"), True),  # from 8 b >= n
        (Affine.symbol("n") - 8 * digit("b") - digit("v") - 1, False),
        (8 * digit("b") - digit("v") - Affine.symbol("n"), None),  # but for the first of its elements
        (8 * digit("b") + digit("v") - Affine.symbol("n") - 1, None),
        (digit("v"), True),
        (7 - digit("v"), True),
        (6 - digit("v"), None),
        (8 * digit("b") + Affine.symbol("m") - Affine.symbol("n"), True),
        (8 * digit("b") - Affine.symbol("m") - Affine.symbol("n"), None),
    ],
    ids=str,
)
def test_what_follows_by_coefficients_is_what_isl_says(condition: Affine, outcome: bool | None) -> None:
    v, b = Digit("v", "slot", Affine.of(8), 0), Digit("b", "block", Affine.symbol("k"), 0)
    sizes = at_least_zero([Affine.symbol("n"), Affine.symbol("m"), digit("v"), 7 - digit("v"), digit("b")])
    known = at_least_zero([8 * digit("b") - Affine.symbol("n")])
    context = Context((*sizes, *known), {"v": v, "b": b})
    assert context.outcome(condition) is outcome
    if context._follows(condition, context.constraints):
        assert outcome is True
