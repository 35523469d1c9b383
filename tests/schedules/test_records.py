"""Results that are records of a few elements: a thread makes one, and a block stores its own through shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.legality.rules import prove
from polyfuse.testing import assert_legal
from polyfuse.verdict import Hazard
from tests.legality.schedules import placed


def rotations(q):
    w, x, y, z = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    first = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    second = [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    third = [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return np.stack([*first, *second, *third], axis=-1).reshape(-1, 3, 3)


def inverses(m):
    a, b, c, d, e, f, g, h, i = (m[:, r, s] for r in range(3) for s in range(3))
    x, y, z = e * i - f * h, f * g - d * i, d * h - e * g
    rows = [x, c * h - b * i, b * f - c * e, y, a * i - c * g, c * d - a * f, z, b * g - a * h, a * e - b * d]
    return np.stack(rows, -1) / (a * x + b * y + c * z)[:, None]


def skew(v):
    x, y, z, o = v[:, 0], v[:, 1], v[:, 2], np.zeros_like(v[:, 0])
    return np.stack([np.stack([o, -z, y], -1), np.stack([z, o, -x], -1), np.stack([-y, x, o], -1)], -2)


def monomials(x, y):
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], -1)


def octaves(p):
    scaled = p[:, :, None] * (2.0 ** np.arange(10)).astype(np.float32)
    flat = (p.shape[0], -1)
    return np.concatenate([p, np.sin(scaled).reshape(flat), np.cos(scaled).reshape(flat)], -1)


def luma_and_chroma(x):
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    return np.stack([0.3 * r + 0.6 * g + 0.1 * b, b - 0.2 * r - 0.3 * g, r - 0.4 * g - 0.1 * b], -1)


def with_norms(v):
    """A record, one of another size, and a number."""
    x, y, z = v[:, 0], v[:, 1], v[:, 2]
    return np.stack([y - z, z - x, x - y], -1), np.stack([x, y, z, x * y, y * z, z * x], -1), x * x + y * y + z * z


CASES: tuple[tuple[Callable[..., Any], tuple[str, ...], tuple[dict[str, int], ...]], ...] = (
    (rotations, ("f32[N~20000003, 4]",), ({"N": 1}, {"N": 125}, {"N": 126}, {"N": 127}, {"N": 1000}, {"N": 0})),
    (inverses, ("f64[N~4000001, 3, 3]",), ({"N": 130}, {"N": 3})),
    (skew, ("f32[N~20000003, 3]",), ({"N": 300},)),
    (monomials, ("f32[N~20000003]", "f32[N]"), ({"N": 252}, {"N": 77})),
    (luma_and_chroma, ("f32[H~6001, W~4001, 3]",), ({"H": 3, "W": 131},)),
    (with_norms, ("f32[N~20000003, 3]",), ({"N": 129}, {"N": 40})),
)


@pytest.mark.parametrize(("function", "specs", "sizes"), CASES)
def test_threads_make_records_and_blocks_store_them(
    function: Callable[..., Any], specs: tuple[str, ...], sizes: tuple[dict[str, int], ...]
) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "records"
    assert_legal(plan)
    for size in sizes:
        arrays = []
        for k, argument in enumerate(plan.program.arguments):
            shape = [n.evaluate(size) for n in argument.shape]
            arrays.append((np.random.default_rng(k).normal(size=shape) + 2).astype(argument.dtype.numpy))
        expected = function(*arrays)
        found = run_plan(plan, arrays)
        for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(mine, exact, rtol=2e-4, atol=1e-5 * np.abs(exact).max(initial=1))


def test_a_record_is_computed_once_and_stored_side_by_side() -> None:
    """On an H200 20 million matrices: 302 us where threads had three elements of each, 257 so."""
    plan = pf.jit(rotations).plan(pf.spec("f32[N~20000003, 4]"), target="h200")
    (schedule,) = [kernel.schedule for kernel in plan.kernels]
    by_role = {role: [p for p in schedule.placed if p.role == role] for role in ("put", "get", "store")}
    assert {role: len(found) for role, found in by_role.items()} == {"put": 1, "get": 1, "store": 1}
    (launch,) = plan.launches
    assert launch.schedules[0].block_threads == 126
    source = plan.source()
    assert "1134 * block(0) + thread()" in source
    assert "// 3 % 3" not in source  # digits that together are the thread
    assert "and all that it stores lies in it" in plan.explain()


def test_octaves_of_coordinates_are_whole_in_a_thread() -> None:
    plan = pf.jit(octaves).plan(pf.spec("f32[1048577, 3]"), target="h200")
    assert plan.cost_analysis().seconds < 260e-6


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: np.stack([x[:, 1], x[:, 0], x[:, 3], x[:, 2]], -1), ("f32[20000000, 4]",)),  # one access of a thread
        (lambda x: x * 2 + 1, ("f32[20000000, 9]",)),  # nothing meets inside of a record
        (rotations, ("f32[100, 4]",)),  # hardly anything to do
    ],
)
def test_what_is_stored_well_by_its_threads_is_no_record(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    assert all(kernel.strategy != "records" for kernel in plan.kernels)


def test_a_record_that_is_not_put_whole_is_refused() -> None:
    plan = pf.jit(rotations).plan(pf.spec("f32[N~20000003, 4]"), target="h200")
    (kernel,) = plan.kernels
    schedule = kernel.schedule
    (put,) = [p for p in schedule.placed if p.role == "put"]
    assert prove(kernel.group.scop, schedule)
    row, first, second = put.place
    for place in ((row, first, first), (row + 1, first, second)):
        tampered = schedule
        for name in (put.name, put.providers[0]):
            tampered = placed(tampered, name, place=place)
        verdict = prove(kernel.group.scop, tampered)
        assert not verdict and verdict.hazard in (Hazard.SCOPE, Hazard.COVERAGE, Hazard.CAPACITY)


def decayed(r: Any) -> Any:
    v = r * r
    for k in (1, 2, 4, 8, 16):
        v = v + np.concatenate([v[:, :k] * 0, v[:, :-k]], axis=1) * 0.94**k
    return np.sqrt(v)


def test_rows_of_any_length_beside_short_ones_are_no_records() -> None:
    """The price of a thread that has all of such a row divided by its length, which was nothing: a plan without fusion
    for whoever asked for these tiles."""
    function = pf.jit(decayed, tiles={"sqrt": {"rows": 2, "columns": 4}})
    plan = function.plan(pf.spec("f32[N~16384, M~5040]"), target="h200")
    assert not plan.fallback and all(kernel.strategy != "records" for kernel in plan.kernels)
