"""Outputs joined from equal parts of the same arrays are stored as stacks: each array is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_legal

Function = Callable[..., Any]


def both(x, y):
    return np.concatenate([x + y, x - y])


def beside(x, y):
    return np.concatenate([np.cos(x) * y, np.sin(x) * y], axis=1)


def three(x, y):
    return np.vstack([x * y + 1, x - y * 2, y + x])


def butterfly(x):
    half = x.shape[0] // 2
    return np.concatenate([x[:half] + x[half:], x[:half] - x[half:]])


def haar(x):
    joined = np.concatenate([x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2]], axis=1)
    return (joined * 0.5).astype(np.float64)


def crossed(x, y):
    return np.concatenate([x.T + y.T, x.T - y.T], axis=0)


TWO = ("f32[N~8000, M~8001]",) * 2
STACKED: tuple[tuple[Function, tuple[str, ...], tuple[tuple[int, ...], ...]], ...] = (
    (both, TWO, ((5, 7), (1, 300), (0, 3))),
    (beside, TWO, ((5, 7), (3, 129))),
    (three, TWO, ((5, 7), (2, 300))),
    (butterfly, ("f32[8192, M~8001]",), ((8192, 3),)),
    (haar, ("f32[N~8000, 8192]",), ((3, 8192),)),
    (crossed, ("f16[N~8000, M~8000]",) * 2, ((33, 70),)),
    (both, ("f64[N~30000000]",) * 2, ((1001,),)),
)


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize(("function", "specs", "shapes"), STACKED)
def test_what_parts_share_is_read_once(
    function: Function, specs: tuple[str, ...], shapes: tuple[tuple[int, ...], ...], target: str
) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target=target)
    if target == "h200":
        assert len(plan.kernels) == 1
        sizes = plan.cost_analysis().sizes
        arrays = [*plan.program.arguments, *plan.program.outputs]
        bytes_ = sum(int(np.prod([n.evaluate(sizes) for n in a.shape])) * a.dtype.itemsize for a in arrays)
        assert plan.cost_analysis().hbm_bytes.at(**sizes) == bytes_
    (value,) = plan.scop.outputs
    assert len(plan.scop.shape(value)) == len(plan.program.outputs[0].shape) + 1
    assert_legal(plan)
    for shape in shapes:
        arrays = [
            np.random.default_rng(k).integers(-4, 5, shape).astype(pf.spec(spec).dtype.numpy)
            for k, spec in enumerate(specs)
        ]
        found = pf.jit(function, backend="interpreter", target=target)(*arrays)
        expected = function(*arrays)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def unequal(x, y):
    return np.concatenate([x + y, (x - y)[1:]])


def apart(x, y):
    return np.concatenate([x * 2, y + 1])


def copies(x, y):
    return np.concatenate([x, y, x])


def twice(x, y):
    joined = np.concatenate([x + y, x - y])
    return joined, joined.sum(axis=0)


def test_parts_that_a_block_exchanges_stay_beside_each_other() -> None:
    plan = pf.jit(beside).plan(pf.spec("f32[N~1000000, 64]"), pf.spec("f32[N~1000000, 64]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.parameters["lanes"] == 16 and len(plan.scop.shape(plan.scop.outputs[0])) == 2
    bytes_ = kernel.cost.bytes_read + kernel.cost.bytes_written
    assert bytes_ == plan.cost_analysis().hbm_bytes.at(**plan.cost_analysis().sizes) == 4 * 64 * 4 * 1000000


def test_more_parts_than_a_thread_exchanges_are_a_stack() -> None:
    def function(x):
        return np.concatenate([x + k for k in range(6)], axis=1)

    plan = pf.jit(function).plan(pf.spec("f32[N~300000, 64]"), target="h200")
    assert len(plan.scop.shape(plan.scop.outputs[0])) == 3
    cost = plan.cost_analysis()
    assert cost.seconds < 1.4 * (plan.target.launch + cost.hbm_bytes.at(**cost.sizes) / plan.target.bandwidth)


def scaled_by_rows(x, y):
    return np.concatenate([x + y, x - y]) * np.concatenate([x, y])


@pytest.mark.parametrize("function", [unequal, apart, copies, twice, scaled_by_rows])
def test_others_are_joined_as_they_are(function: Function) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, TWO), target="h200")
    assert len(plan.scop.shape(plan.scop.outputs[0])) == 2
    x, y = (np.random.default_rng(k).integers(-4, 5, (6, 9)).astype(np.float32) for k in range(2))
    expected = function(x, y)
    found = pf.jit(function, backend="interpreter", target="h200")(x, y)
    for mine, exact in zip(*[r if isinstance(r, tuple) else (r,) for r in (found, expected)], strict=True):
        np.testing.assert_array_equal(mine, exact)


def test_it_is_written_where_the_caller_says() -> None:
    x, y = (np.random.default_rng(k).standard_normal((30, 41)).astype(np.float32) for k in range(2))
    out = np.full((60, 41), np.nan, np.float32)
    pf.jit(both)(x, y, out=out)
    np.testing.assert_array_equal(out, both(x, y))
    wide = np.full((60, 90), np.nan, np.float32)
    pf.jit(both)(x, y, out=wide[:, 3:44])  # rows that do not follow each other
    np.testing.assert_array_equal(wide[:, 3:44], both(x, y))
    assert np.isnan(wide[:, :3]).all() and np.isnan(wide[:, 44:]).all()
    with pytest.raises(pf.errors.ArgumentError, match=r"the result is f32\[60, 41\]"):
        pf.jit(both)(x, y, out=out[:40])
