"""Transposes of rows that begin anywhere: boxes that asynchronous copies fill as memory lies, results in whole words."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.verify.kernel import verify_kernel

CASES = {
    "halves": (lambda x: x.T + 1, ("bf16[N~8193, M~8191]",), ((65, 255),)),
    "halves beside rows": (lambda x, y: x.T * 2 + y, ("f16[N~8193, M~8191]", "f16[M~8191, N~8193]"), ((65, 23), (23, 65))),
    "halves, every second row at a word": (lambda x: x.T + 1, ("bf16[N~8194, M~8190]",), ((66, 254),)),
    "whole sectors of odd rows": (lambda x: x.T + 1, ("bf16[N~8192, M~8191]",), ((32, 263),)),
    "bytes": (lambda x: x.T + 1, ("u8[N~16381, M~16383]",), ((141, 47),)),
    "bytes to words": (lambda x: x.T * np.float32(0.5), ("u8[N~8193, M~8191]",), ((41, 47),)),
    "words": (lambda x: x.T + 1, ("f32[N~8193, M~8191]",), ((41, 135),)),
    "the last axis in front": (lambda x: x.transpose(2, 0, 1) + 1, ("bf16[N~301, M~403, K~405]",), ((5, 11, 61),)),
    "axes reversed": (lambda x: x.transpose(2, 1, 0) + 1, ("bf16[N~301, M~403, K~405]",), ((67, 3, 61),)),
    "the last axes of planes": (lambda x: x.transpose(0, 2, 1) + 1, ("f16[N~301, M~403, K~405]",), ((3, 67, 61),)),
}  # fmt: skip
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "u8": np.uint8}


def planned(case: str) -> Plan:
    function, specs, _ = CASES[case]
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200")


def arrays(case: str, sizes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 100, shape).astype(TYPES[spec.partition("[")[0]])
        for spec, shape in zip(CASES[case][1], sizes, strict=True)
    ]


@pytest.mark.parametrize("case", CASES)
def test_tiles_are_copied_as_they_lie(case: str) -> None:
    plan = planned(case)
    assert dict(plan.kernels[0].parameters).get("copied") == 1
    copies = [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, ir.AsyncCopy)]
    assert copies and all(op.cut for op in copies)
    verify_kernel(plan.launches[0].kernel)


@pytest.mark.parametrize("case", CASES)
def test_results_agree(case: str) -> None:
    function, _, sizes = CASES[case]
    plan, arguments = planned(case), arrays(case, sizes)
    (found,) = run_plan(plan, arguments)
    exact = function(*[a.astype(np.float64) for a in arguments])
    np.testing.assert_array_equal(found.astype(np.float64), exact)
