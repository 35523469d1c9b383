"""The assertions themselves: they pass where they should, and fail with something to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.testing import assert_equivalent, assert_legal, assert_refused, assert_schedule
from polyfuse.text.apply import apply_text
from polyfuse.verdict import LEGAL, Hazard, Kind
from tests.schedules import programs
from tests.schedules.programs import both, plan
from tests.schedules.test_explain import gathered


def test_a_schedule_is_compared_by_its_text() -> None:
    given = plan(programs.softmax, "f32[N~65536, 4096]")
    assert_schedule(
        given,
        """
        kernel m_d_s_y   rows lanes=256 chunks=4 vector=4   grid N   block 256
          m = max(x, axis=1)   register, combine block
          d = x - m            register
          e = exp(d)           register
          s = sum(e, axis=1)   register, combine block
          y = e / s            global
        """,
    )
    with pytest.raises(AssertionError) as caught:
        assert_schedule(given, str(given).replace("e = exp(d)           register", "e = exp(d)   shared"))
    assert "-  e = exp(d) shared" in str(caught.value) and "+  e = exp(d) register" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: (x.argmin(axis=1), x.argmax(axis=0)), ("f32[N, 64]",)),
        (programs.softmax, ("f32[N, 64]",)),
        (programs.softmax, ("f64[M, N~200]",)),
        (programs.gate, ("f32[M, N]", "f16[M, N]", "f32[N]")),
        (programs.rows_then_columns, ("f32[M, N]",)),
        (gathered, ("f32[M, 64]", "i32[K]")),
        (lambda x: np.cumsum(x * 2, axis=1), ("i32[M, N~100]",)),
        (lambda x, y: x + y.T, ("f32[M, N]", "f32[N, M]")),
        (lambda x, y: np.where(x > y, x, -y), ("f32[N]", "f32[N]")),
    ],
)
def test_fused_and_unfused_compute_the_same(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    loose, fused = both(function, *specs, library=False)
    assert_equivalent(loose, fused, seeds=(1,))
    assert_legal(loose)
    assert_legal(fused)


def test_an_edited_schedule_still_computes_the_same() -> None:
    original = plan(programs.softmax, "f32[N, 4096]")
    wider = apply_text(str(original).replace("block 256", "block 512"), original)
    assert_equivalent(original, wider, seeds=(3,), sizes=[{"N": 5}])


@pytest.mark.parametrize(
    ("sizes", "words"),
    [({"M": 3}, "say nothing of N"), ({}, "say nothing of N"), ({"N": 0}, "not positive"), ({"N": -1}, "not positive")],
)
def test_sizes_that_plans_are_not_made_for(sizes: dict[str, int], words: str) -> None:
    loose, fused = both(programs.softmax, "f32[N, 64]")
    with pytest.raises(AssertionError, match=words):
        assert_equivalent(loose, fused, sizes=[sizes])


def test_results_without_elements_are_compared() -> None:
    loose, fused = both(lambda x: np.exp(x[2:]) * 2 + x[2:], "f32[N]")
    assert_equivalent(loose, fused, sizes=[{"N": 2}, {"N": 3}])


def test_plans_that_differ_are_told_apart() -> None:
    sums, differences = (plan(f, "f32[N]", "f32[N]") for f in (lambda x, y: x + y, lambda x, y: x - y))
    with pytest.raises(AssertionError, match="the plans differ in"):
        assert_equivalent(sums, differences)


def test_refusals() -> None:
    given = plan(gathered, "f32[M, 64]", "i32[K]")
    assert assert_refused(given, "e", "y", hazard=Hazard.SCOPE, says="gathered").witness is not None
    assert_refused(lambda: plan(gathered, "f32[M, 64]", "i32[K]", together=("e", "y")), hazard=Hazard.SCOPE)
    apart = plan(programs.rows_then_columns, "f32[M~4096, N~65536]")
    assert_refused(apart.why_not("sum", "c"), kind=Kind.UNPROFITABLE)
    with pytest.raises(TypeError, match="takes the names of two values, not 0"):
        assert_refused(given)
    for subject in (LEGAL, lambda: None, lambda: apply_text("", apart)):
        with pytest.raises(AssertionError):
            assert_refused(subject)
