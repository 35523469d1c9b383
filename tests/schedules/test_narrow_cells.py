"""16-bit floats wait in shared memory as memory has them: in half of the room, in the words that were loaded."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.face.interpreted import run_plan
from tests.schedules.normalisations import softmax

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def standardised(x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


NARROW = [
    (standardised, "bf16[N~4096, M~32768]", "bf16", 32768),
    (standardised, "f16[N~2048, M~65536]", "f16", 65536),
    (standardised, "bf16[N~2000, M~50257]", "bf16", 50257),
    (softmax, "bf16[N~4096, M~32768]", "f32", 32768),  # exponentials take the cells of what they are of
    (standardised, "f32[N~4096, M~32768]", "f32", 32768),
]


@pytest.mark.parametrize(("function", "spec", "kept", "length"), NARROW)
def test_short_floats_wait_as_memory_has_them(function: Any, spec: str, kept: str, length: int) -> None:
    """With four bytes for each, instance norms of 512 x 512 took an H200 138 us, and 105 so."""
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    (launch,), (view,) = plan.launches, plan.kernels
    kernel = launch.kernel
    assert {str(c.dtype) for c in kernel.cells} == {kept}
    assert 0 <= view.cost.shared - sum(map(kernel.cell_bytes, kernel.cells)) < 64  # what clusters exchange
    dtype = DTYPES[spec.partition("[")[0]]
    x = np.random.default_rng(length).standard_normal((2, length), np.float32).astype(dtype)
    x[0, 3], x[1, -1] = 40.0, -30.0
    (found,) = run_plan(plan, [x])
    expected = function(x.astype(np.float64))
    tolerance = {4: 1e-4, 2: 2e-2}[np.dtype(dtype).itemsize]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_waits_may_be_no_number(value: float) -> None:
    plan = pf.jit(standardised).plan(pf.spec("bf16[N~4096, M~32768]"), target="h200")
    x = np.random.default_rng(1).standard_normal((3, 32768), np.float32).astype(ml_dtypes.bfloat16)
    x[1, 30000] = value
    (found,) = run_plan(plan, [x])
    with np.errstate(invalid="ignore"):
        expected = standardised(x.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.ptx
def test_pairs_go_from_memory_to_cells_as_they_are() -> None:
    """What is loaded in words is kept in these words: nothing is rounded again on the way."""
    (launch,) = pf.jit(standardised).plan(pf.spec("bf16[4096, 32768]"), target="h200").launches
    kernel = launch.kernel
    made = compile_kernel(
        print_kernel(kernel), kernel.name, kernel.parameters, kernel.block_threads, (9, 0), kernel.minimum_blocks
    )
    elements = 64  # of a thread, each of which is rounded once, where it is stored
    assert len(re.findall(r"cvt\.rn\.bf16x2\.f32", made.ptx)) == elements // 2
    if find_ptxas():
        resources = assemble(made).resources
        assert resources is not None and resources.registers <= 64 and resources.spilled_bytes <= 16
