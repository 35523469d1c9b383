"""On a CPU argmax and argmin are an extreme, and the first place that is equal to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.options import Options
from polyfuse.plan import Plan

KINDS = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int64, np.bool_]
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "largest of rows": lambda x: x.argmax(1),
    "least of columns": lambda x: x.argmin(0),
    "of all": lambda x: (x.argmax(), x.argmin()),
    "with the extreme": lambda x: (x.max(1), x.argmax(1)),
    "kept": lambda x: np.argmax(x, axis=1, keepdims=True),
    "of a slice turned": lambda x: x[::2, ::-1].T.argmin(0),
    "chooses": lambda x: np.take_along_axis(x, x.argmax(1)[:, None], 1),
}


def drawn(dtype: Any, shape: tuple[int, ...] = (37, 131)) -> Any:
    """With ties, zeros of both signs, and rows of NaN and of infinities."""
    x = np.random.default_rng(3).integers(-3, 4, shape).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x[1], x[2], x[3, 5:9], x[4] = np.nan, -np.inf, np.nan, 0
        x[4, ::2] = -0.0
    return x


def has_pairs(plan: Plan) -> bool:
    """Whether some reduction carries a value and its place."""
    return any(getattr(s, "monoid", None) in ("argmax", "argmin") for s in plan.scop.statements)


@pytest.mark.parametrize("dtype", KINDS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_places_are_those_of_numpy(name: str, dtype: Any) -> None:
    function, x = FUNCTIONS[name], drawn(dtype)
    jitted = pf.jit(function)
    assert not has_pairs(jitted.plan(x, target="cpu"))
    found, wanted = jitted(x), function(x)
    for one, other in zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]:
        np.testing.assert_array_equal(one, other)
        assert np.asarray(one).dtype == np.asarray(other).dtype


EXACT: dict[str, Callable[[Any], Any]] = {
    "the nearest": lambda x: np.abs(x - 0.25).argmin(1),
    "of a product": lambda x: (x * 1.1).argmax(1),
    "of a clipped array": lambda x: np.clip(x, -1, 1).argmax(1),
    "of a condition": lambda x: (x > 0.5).argmax(1),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "of an exponential": lambda x: np.exp(x).argmax(1),
    "of what may be contracted": lambda x: (x * 1.1 + x).argmax(1),
    "of what may be contracted behind a negative": lambda x: (0.5 - (x * 1.1)).argmin(1),
    "of sums": lambda x: x.reshape(x.shape[0], -1, 1).sum(2).argmax(1),
}


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_what_has_other_bits_in_other_vectors_stays_a_pair(name: str) -> None:
    x = np.random.default_rng(4).standard_normal((29, 1003)).astype(np.float32)
    function = (EXACT | OTHERS)[name]
    jitted = pf.jit(function)
    assert has_pairs(jitted.plan(x, target="cpu")) == (name in OTHERS)
    np.testing.assert_array_equal(jitted(x), function(x))


HALVES: dict[str, Callable[[Any], Any]] = {
    "of a product": lambda x: (x * np.float16(1.1)).argmax(),
    "the nearest": lambda x: np.abs(x - np.float16(0.25)).argmin(),
    "of what is rounded to them": lambda x: (x.astype(np.float32) * 1.0001).astype(np.float16).argmax(),
    "of integers that are": lambda x: (x * 100).astype(np.int32).astype(np.float16).argmax(),
}


@pytest.mark.parametrize("name", HALVES)
def test_computed_halves_stay_pairs(name: str) -> None:
    """Their extreme is rounded where it is stored, and they are not."""
    x = np.random.default_rng(6).standard_normal(300_000).astype(np.float16)
    jitted = pf.jit(HALVES[name])
    assert has_pairs(jitted.plan(x, target="cpu"))
    value = {"of a product": x * np.float16(1.1), "the nearest": -np.abs(x - np.float16(0.25))}.get(name, x)
    assert value[jitted(x)] == value.max()


def test_halves_that_are_read_and_chosen_are_compared() -> None:
    x = np.random.default_rng(7).standard_normal(300_000).astype(np.float16)
    jitted = pf.jit(lambda x: (np.maximum(-x, 0).argmax(), x.astype(np.float32).argmin()))
    assert not has_pairs(jitted.plan(x, target="cpu"))
    assert jitted(x) == (np.maximum(-x, 0).argmax(), x.argmin())


def test_a_gpu_has_pairs() -> None:
    assert has_pairs(pf.jit(FUNCTIONS["largest of rows"]).plan(drawn(np.float32), target="h200"))


def test_places_need_no_check_of_bounds() -> None:
    """What stands for no place is the last one: an index that nothing can move out of the row."""
    assert Options().bounds != "assume"
    x = np.random.default_rng(5).standard_normal((40, 600))
    plan = pf.jit(FUNCTIONS["chooses"]).plan(x, target="cpu")
    assert not plan.sites


def test_a_row_without_elements_is_refused_as_by_numpy() -> None:
    with pytest.raises(pf.PolyfuseError, match="size 0 has no value"):
        pf.jit(FUNCTIONS["largest of rows"])(np.zeros((3, 0)))
    assert pf.jit(FUNCTIONS["largest of rows"])(np.zeros((0, 3))).shape == (0,)
