"""Rows of points: lanes have whole points, whose coordinates no lane and no block is wasted on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def radii(x: Any) -> Any:
    d = x - x.mean(axis=1, keepdims=True)
    return np.sqrt(np.mean(np.sum(d * d, axis=-1), axis=1))


def covariances(x: Any, y: Any) -> Any:
    d, e = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    return np.sum(d[:, :, :, None] * e[:, :, None, :], axis=1)


def composed(density: Any, colour: Any) -> Any:
    weight = np.exp(-(np.cumsum(density, axis=-1) - density)) * (1 - np.exp(-density))
    return weight, np.sum(weight[..., None] * colour, axis=1)


def softmax_of_anchors(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def attended(x: Any, q: Any) -> Any:
    z = -np.sum((x - q[:, None]) ** 2, axis=-1)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.sum((e / e.sum(axis=-1, keepdims=True))[..., None] * x, axis=1)


def ranges(x: Any) -> Any:
    return x.min(axis=1), x.max(axis=1), x.mean(axis=1)


def steps_added(x: Any) -> Any:
    return np.cumsum(x, axis=1)


def shares_so_far(x: Any) -> Any:
    running = np.cumsum(np.exp(x), axis=1)
    return running / running.max(axis=1, keepdims=True)


def lengths(x: Any) -> Any:
    d = x[:, 1:] - x[:, :-1]
    return np.sqrt(np.sum(d * d, axis=-1)).sum(axis=1)


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


CASES = [
    (attended, ("f32[N~50001, K~200, C~3]", "f32[N, C]"), {"N": 5, "K": 132, "C": 3}),
    (radii, ("f32[N~30001, 101, 3]",), {"N": 5}),
    (covariances, ("f32[N~50001, K~128, 3]", "f32[N, K, 3]"), {"N": 5, "K": 100}),
    (covariances, ("f32[N~50001, 77, 3]", "f32[N, 77, 2]"), {"N": 5}),
    (composed, ("f32[N~200001, K~64]", "f32[N, K, 3]"), {"N": 9, "K": 36}),
    (composed, ("f32[N~200001, 63]", "f32[N, 63, 3]"), {"N": 9}),
    (softmax_of_anchors, ("f32[N~30001, K~400, 4]",), {"N": 3, "K": 301}),
    (softmax_of_anchors, ("bf16[N~30001, 200, 4]",), {"N": 3}),
    (attended, ("f32[N~50001, K~200, 3]", "f32[N, 3]"), {"N": 5, "K": 132}),
    (ranges, ("bf16[N~200001, 101, 5]",), {"N": 7}),
    (steps_added, ("f32[N~60001, K~256, 3]",), {"N": 3, "K": 140}),
    (lengths, ("f32[N~30001, 1000, 2]",), {"N": 2}),
    (steps_added, ("f32[N~1092266, 6, 8]",), {"N": 9}),
    (shares_so_far, ("bf16[N~2092266, M~5, 7]",), {"N": 7, "M": 5}),
    (shares_so_far, ("f32[N~8738133, 2, 3]",), {"N": 65}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_lanes_have_whole_points(function: Any, specs: tuple[str, ...], sizes: dict[str, int]) -> None:
    """Covariances of 50001 clouds of 128 points: 54 us on an H100, 338 in panels of three columns each; weights and
    colours of 200001 rays 83 and 224 ([seventh_survey.json](../../benchmarks/results/seventh_survey.json)); prefixes of
    six of eight 141 and 895, where lanes ran along the six."""
    plan = planned(function, *specs)
    assert [k.strategy for k in plan.kernels] == ["points"]
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


def summed(x: Any) -> Any:
    y = x.sum(axis=1)
    return y


def added_up(x: Any) -> Any:
    y = np.cumsum(x, axis=1)
    return y


@pytest.mark.parametrize("function", [summed, added_up])
def test_rows_that_a_block_does_not_hold_go_by_in_a_loop(function: Any) -> None:
    spec = "f32[N~2001, K~60000, 3]"
    plan = planned(function, spec, strategies={"y": "points"})
    (kernel,) = plan.kernels
    assert kernel.strategy == "points" and kernel.schedule.of_kind("loop")
    assert_legal(plan)
    assert_equivalent(planned(function, spec, fuse=False), plan, seeds=(0,), sizes=[{"N": 2, "K": 9004}])


def column_means(x: Any) -> Any:
    return x.mean(axis=0)


def row_sums(x: Any) -> Any:
    return x.sum(axis=-1)


OTHERS = [
    (column_means, ("f32[K~100000, 3]",)),  # one row alone: blocks share it
    (row_sums, ("f32[N~100000, K~300]",)),  # rows of numbers
    (ranges, ("f32[N~20001, K~128, 40]",)),  # what is beside the row is no longer short
    (ranges, ("f32[N~2000001, 5, 3]",)),  # rows that one thread has whole
]


@pytest.mark.parametrize(("function", "specs"), OTHERS, ids=["one", "numbers", "wide", "short"])
def test_other_rows_are_dealt_otherwise(function: Any, specs: tuple[str, ...]) -> None:
    assert "points" not in [k.strategy for k in planned(function, *specs).kernels]
