"""Python's garbage collector beside the planner."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import polyfuse as pf
from polyfuse.run import variants
from polyfuse.run.garbage import OBJECTS, rarely_collected


@pytest.fixture(autouse=True)
def _usual() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_cycles_are_looked_for_seldom_and_as_often_as_before_afterwards() -> None:
    gc.set_threshold(700, 10, 5)
    with pytest.raises(ValueError, match="stops"), rarely_collected():
        assert gc.get_threshold() == (OBJECTS, 10, 5)
        raise ValueError("stops")
    assert gc.get_threshold() == (700, 10, 5)


@pytest.mark.parametrize("first", [0, 2 * OBJECTS])
def test_settings_that_look_less_often_stay(first: int) -> None:
    gc.set_threshold(first, 10, 5)
    with rarely_collected():
        assert gc.get_threshold() == (first, 10, 5)


def test_kernels_are_compiled_without_looking_through_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.set_threshold(700, 10, 5)
    seen = []
    real = variants._compiled
    monkeypatch.setattr(variants, "_compiled", lambda *given: (seen.append(gc.get_threshold()[0]), real(*given))[1])
    pf.jit(lambda x: x + 1).compile(pf.spec("f32[64]"), target="h200", backend="interpreter")
    assert seen == [OBJECTS] and gc.get_threshold() == (700, 10, 5)
