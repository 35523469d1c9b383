"""Reshapes in between become finer dimensions: one kernel, no division in an index, the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, dimension
from polyfuse.dtypes import i64
from polyfuse.expr import View, iota, view
from polyfuse.rewrites.refinement import relabelled, settled
from polyfuse.testing import assert_equivalent

Function = Callable[..., Any]


def group_norm(x, g):
    n, c, h, w = x.shape
    y = x.reshape(n, 4, c // 4 * h * w)
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return y.reshape(n, c, h, w) * g[:, None, None]


def interleaved(x, y):
    return np.stack((x + y, x - y), axis=-1).reshape(x.shape[0], -1)


def rotated(x, y):
    """Pairs of neighbours, as rotary embeddings write them, in a longer chain."""
    return np.exp(np.stack((x * y - y, x + y), axis=-1).reshape(x.shape[0], -1) / 8) + 1


def heads(x, y):
    return ((x - y).reshape(x.shape[0], 4, -1).transpose(1, 0, 2) * 2).transpose(1, 0, 2).reshape(x.shape[0], -1)


def block_argmax(x, y):
    z = (x + y).reshape(x.shape[0], -1)
    return np.repeat(z, 2, axis=1).argmax(axis=1)


CASES: dict[str, tuple[Function, tuple[str, ...], tuple[str, ...]]] = {
    "group norm": (group_norm, ("f32[N~64, 8, 12, 6]", "f32[8]"), ("f32[3, 8, 12, 6]", "f32[8]")),
    "interleaved": (interleaved, ("f32[N~4096, M~4096]",) * 2, ("f32[5, 9]",) * 2),
    "rotated": (rotated, ("f32[N~4096, M~4096]",) * 2, ("f32[5, 16]",) * 2),
    "heads": (heads, ("f32[N~8192, 512]",) * 2, ("f32[3, 512]",) * 2),
    "the first of two equal ones": (block_argmax, ("f32[N~4096, 96]",) * 2, ("f32[7, 96]",) * 2),
    "repeated": (lambda x, y: np.repeat(x * y, 3, axis=1), ("f32[N~4096, M~999]",) * 2, ("f32[5, 7]",) * 2),
    "tiled": (lambda x, y: np.tile(x * y, (2, 3)), ("f32[N~4096, M~999]",) * 2, ("f32[5, 7]",) * 2),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_numpys(case: str) -> None:
    function, _, shapes = CASES[case]
    draw = np.random.default_rng(1)
    arrays = [draw.standard_normal([int(n) for n in s[4:-1].split(",")]).astype(np.float32) for s in shapes]
    plan = pf.jit(function, backend="interpreter").plan(*arrays, target="h200")
    found = pf.jit(function, backend="interpreter")(*arrays)
    wanted = function(*arrays)
    assert plan.target.kind == "cuda"
    assert found.shape == wanted.shape and found.dtype == wanted.dtype and np.allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in CASES if c != "tiled"])
def test_nothing_divides(case: str) -> None:
    function, specs, _ = CASES[case]
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    assert "floor" not in str(plan)


@pytest.mark.parametrize("case", ["interleaved", "rotated", "heads", "repeated", "the first of two equal ones"])
def test_a_reshape_costs_no_kernel(case: str) -> None:
    function, specs, _ = CASES[case]
    assert len(pf.jit(function).plan(*map(pf.spec, specs), target="h200").kernels) == 1


def test_unfused_and_fused_agree() -> None:
    specs = [pf.spec(s) for s in CASES["group norm"][1]]
    loose, plan = (pf.jit(group_norm).plan(*specs, target="h200", fuse=fuse) for fuse in (False, True))
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 2}])


def test_two_shapes_of_one_value_are_two_results() -> None:
    def function(x):
        y = np.stack((x, -x), axis=-1)
        return y, y.reshape(x.shape[0], -1), y.reshape(-1)

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for found, wanted in zip(pf.jit(function, backend="interpreter")(x), function(x), strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
def test_a_result_in_another_shape_takes_no_argument(backend: str) -> None:
    """The donated array has the shape that the result is computed in, not the one it is returned in."""
    function = pf.jit(lambda x: np.exp(x).reshape(x.shape[0], -1), donate="x", backend=backend)
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2) / 10
    wanted = np.exp(x).reshape(3, -1)
    found = function(x.copy())
    assert found.shape == (3, 8) and np.allclose(found, wanted)


def test_floors_that_extents_decide() -> None:
    j, k = dimension(0), dimension(1)
    node = view(iota([Affine.of(9), Affine.of(40)], j, i64), [Affine.of(9), Affine.of(56)], [j, (56 * j + k) // 56])
    whole = settled(node)
    assert isinstance(whole, View) and whole.index == (j, j)
    half = view(iota([Affine.of(99)], j, i64), [Affine.of(9), Affine.of(57)], [(56 * j + k) // 56])
    assert settled(half) is half


def test_only_equal_parts_are_taken_apart() -> None:
    n = Affine.symbol("n")
    of_even = view(iota([n], dimension(0), i64), [2 * n], [dimension(0) // 2])
    assert relabelled(of_even) is not of_even
    of_any = view(iota([n], dimension(0), i64), [n], [dimension(0) // 2])
    assert relabelled(of_any) is of_any


def test_parts_of_a_dimension_run_together() -> None:
    """Means of 64 neighbours and what is left of them: one read."""

    def centred(x):
        parts = x.reshape(x.shape[0], -1, 64)
        return (parts - parts.mean(axis=-1, keepdims=True)).reshape(x.shape)

    (kernel,) = pf.jit(centred).plan(pf.spec("f32[N~16384, 4096]"), target="h200").kernels
    assert kernel.strategy == "rows" and dict(kernel.parameters)["lanes"] < 32
