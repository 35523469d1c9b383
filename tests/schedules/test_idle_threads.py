"""Threads beyond the ends of short rows pass a kernel by; the others need no masks for what follows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Barrier, If
from polyfuse.verify.kernel import verify_kernel

Array = Any


def largest(x: Array) -> Array:
    """Of 3 x 3 around every second element."""
    h, w = (x.shape[-2] - 3) // 2 + 1, (x.shape[-1] - 3) // 2 + 1
    parts = [x[:, i : i + 2 * h - 1 : 2, j : j + 2 * w - 1 : 2] for i in range(3) for j in range(3)]
    found = parts[0]
    for part in parts[1:]:
        found = np.maximum(found, part)
    return found


def differences(x: Array) -> tuple[Array, Array]:
    return x[:, 1:, 1:] - x[:, :-1, 1:], x[:, 1:, 1:] - x[:, 1:, :-1]


def of_two_lengths(x: Array) -> tuple[Array, Array]:
    """One result is longer than the other: a thread may store one alone."""
    return x[:, 1:, 1:] - x[:, :-1, 1:], x[:, 1:, :] + x[:, :-1, :]


def branches(function: Any, spec: str) -> list[If]:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    return [op for launch in plan.launches for op in launch.kernel.body if isinstance(op, If) and not op.uniform]


def test_short_rows_are_read_without_masks_along_them() -> None:
    """103 million bfloat16 in images of 112 x 112 took an H200 83 us, no block of 64 lanes inside of a row; 70 so."""
    plan = pf.jit(largest).plan(pf.spec("bf16[N~8192, 112, 112]"), target="h200")
    (branch,) = branches(largest, "bf16[N~8192, 112, 112]")
    assert not branch.orelse
    text = plan.source()
    inside = text[text.index("    if ") :]
    assert "load(" in inside and not re.search(r"mask=[^\n]*col", inside)


def test_long_rows_have_no_such_branch() -> None:
    assert not branches(largest, "bf16[N~8, 4097, 4097]")
    assert not branches(differences, "f32[N~8, 4096, 4096]")


@pytest.mark.parametrize("function", [largest, differences, of_two_lengths])
@pytest.mark.parametrize("shape", [(3, 112, 112), (2, 57, 56), (1, 3, 3), (2, 64, 129), (5, 9, 33)])
def test_results_are_those_of_numpy(function: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    plan = pf.jit(function).plan(pf.spec(f"f32[N~8192, {shape[1]}, {shape[2]}]"), target="h200")
    expected = function(x)
    results = run_plan(plan, (x,))
    for found, exact in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_threads_that_meet_do_not_pass_each_other_by() -> None:
    plan = pf.jit(largest).plan(pf.spec("bf16[N~8192, 112, 112]"), target="h200")
    (launch,) = plan.launches
    (branch,) = launch.kernel.body
    assert isinstance(branch, If)
    verify_kernel(launch.kernel)
    met = replace(branch, body=(*branch.body, Barrier()))
    with pytest.raises(KernelError, match="a barrier stands where some threads of the block may not come"):
        verify_kernel(replace(launch.kernel, body=(met,)))

    def turned(x: Array) -> Array:
        return x + np.swapaxes(x, 1, 2)

    assert not branches(turned, "f32[N~8192, 40, 40]")  # through shared memory
    assert not branches(lambda x: x - x.max(axis=2, keepdims=True), "f32[N~8192, 40, 45]")


def test_sizes_of_a_class_share_the_kernel() -> None:
    """The branch is for the sizes that were expected, and right for others."""
    plan = pf.jit(largest).plan(pf.spec("f32[N~8192, H~112, W~112]"), target="h200")
    for shape in ((2, 112, 112), (1, 300, 420), (2, 6, 4)):
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(run_plan(plan, (x,))[0], largest(x))
