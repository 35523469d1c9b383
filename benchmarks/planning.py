"""How long planning takes as programs grow: residual blocks of a normalisation, pointwise operations and a reduction.

    python -m benchmarks.planning          seconds for about 10, 100 and 1,000 operations (the last takes a while)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.plan import Plan

OPERATIONS_PER_BLOCK = 20  # statements that one block adds to the program


def residual_blocks(count: int) -> Callable[..., Any]:
    """``x`` through `count` blocks: x + gelu(layernorm(x) * gain + bias), scaled by the largest magnitude of a row."""

    def program(x: Any, gain: Any, bias: Any) -> Any:
        for _ in range(count):
            centred = x - x.mean(axis=-1, keepdims=True)
            deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
            x = x + pf.gelu(centred / deviation * gain + bias)
            x = x / (1 + np.abs(x).max(axis=-1, keepdims=True))
        return x

    return program


def planned(operations: int) -> tuple[Plan, float]:
    """The plan of a program of about that many operations for an H200, and the seconds that planning took."""
    function = pf.jit(residual_blocks(max(1, operations // OPERATIONS_PER_BLOCK)))
    specs = [pf.spec(text) for text in ("f32[M~16384, 4096]", "f32[4096]", "f32[4096]")]
    start = time.perf_counter()
    plan = function.plan(*specs, target="h200")
    return plan, time.perf_counter() - start


def main() -> None:
    planned(1)  # imports
    for operations in (10, 100, 1000):
        plan, seconds = planned(operations)
        print(f"{len(plan.scop.statements):5d} statements  {len(plan.launches):3d} kernels  {seconds:6.2f} s")


if __name__ == "__main__":
    main()
