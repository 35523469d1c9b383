"""Calls with a smaller batch run a plan whose long blocks would leave processors idle no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import is_advisory
from polyfuse.plan import Plan
from polyfuse.run.sizes import hold


def planned(function: Callable[..., Any], spec: str) -> Plan:
    return pf.jit(function).plan(pf.spec(spec), target="h200")


def largest_between(x: Any) -> Any:
    return x.max(axis=1)


def elementwise(x: Any) -> Any:
    return np.tanh(x) + 1


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("function", "shape"), [(largest_between, "N~{}, 4096, 1023"), (softmax, "N~{}, 131072")], ids=["columns", "rows"]
)
def test_a_batch_too_small_for_the_processors_has_a_plan_of_its_own(function: Callable[..., Any], shape: str) -> None:
    plan = planned(function, f"f32[{shape.format(64)}]")
    assert hold(plan.guards, {"N": 64}) and hold(plan.guards, {"N": 40})
    assert not hold(plan.guards, {"N": 1})
    right = [g for g in plan.guards if not is_advisory(g)]
    assert hold(right, {"N": 1})  # slow, not wrong


def test_a_plan_of_its_own_has_more_and_shorter_blocks() -> None:
    """The one for 64 images has 8 for each of them, all of which take as long as the whole."""
    many, few = (planned(largest_between, f"f32[N~{batch}, 4096, 1023]") for batch in (64, 2))
    assert many.kernels[0].cost.blocks == 64 * 8
    assert few.kernels[0].cost.blocks >= 4 * 2 * 8 and few.kernels[0].seconds < many.kernels[0].seconds / 8


def test_short_blocks_serve_any_batch() -> None:
    for function, spec in ((elementwise, "f32[N~64, 1000003]"), (softmax, "f32[N~64, 1000]")):
        assert hold(planned(function, spec).guards, {"N": 1})
