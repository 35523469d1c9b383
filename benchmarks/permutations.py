"""Random permutations beside plain copies: `python -m benchmarks.permutations FIRST LAST [--save FILE]`.

A seed is an array of 200 MB of two to five dimensions, any dtype and even or odd sizes, and an order of them.  Each
result is compared with torch's, in memory that was poisoned, then timed beside a copy of the array and torch's
`contiguous`.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from benchmarks import seeds

BYTES = 200_000_000
SIZES = {"f32": 4, "bf16": 2, "u8": 1, "f64": 8}
BELOW = 200
NEAR = (1.1, 1.25)
"""Times what a copy takes, up to which permutations are counted."""
COLUMNS = ["seed", "dtype", "shape", "order", "measured, us", "copy, us", "torch, us", "predicted, us", "strategies"]


def drawn(seed: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Dtype, shape, and the order of its dimensions, of a seed."""
    random = Random(seed)
    dtype, rank = random.choice(["f32", "bf16", "u8", "f64", "f32", "bf16"]), random.choice([2, 3, 3, 4, 4, 5])
    elements = BYTES / SIZES[dtype]
    while True:
        logs = [random.random() ** 1.5 + 0.03 for _ in range(rank)]
        shape = [max(2, round(math.exp(math.log(elements) * x / sum(logs)))) for x in logs]
        if random.random() < 0.5:
            shape = [(n + 7) // 8 * 8 if n > 8 else n for n in shape]
        if 0.6 * elements < math.prod(shape) < 1.6 * elements:
            break
    while True:
        order = list(range(rank))
        random.shuffle(order)
        if order != sorted(order):
            return dtype, tuple(shape), tuple(order)


def measured(seed: int) -> list[Any]:
    """The row of one permutation.  Raises `AssertionError` where an element is wrong."""
    import numpy as np

    import polyfuse as pf
    from benchmarks import gpu
    from benchmarks.programs import Input

    dtype, shape, order = drawn(seed)
    sets = [gpu.draw(Input(shape, dtype, BELOW if dtype == "u8" else 0)) for _ in range(2)]
    function = pf.jit(lambda x: np.ascontiguousarray(np.transpose(x, order)))
    gpu.poison(function(sets[0]))
    assert bool((function(sets[0]) == sets[0].permute(order)).all()), "elements differ"
    mine, _ = gpu.microseconds([partial(function, x) for x in sets], 15)
    copy, _ = gpu.microseconds([x.clone for x in sets], 15)
    torch, _ = gpu.microseconds([x.permute(order).contiguous for x in sets], 9)
    plan = function.plan(sets[0])
    figures = [round(t, 1) for t in (mine, copy, torch, 1e6 * plan.cost_analysis().seconds)]
    return [seed, dtype, list(shape), list(order), *figures, ", ".join(k.schedule.strategy for k in plan.kernels)]


def summary(rows: Sequence[Sequence[Any]]) -> str:
    """How many are near a copy."""
    times = [row[4] / row[5] for row in rows]
    near = " and ".join(f"{sum(t <= most for t in times)} in at most {most} times" for most in NEAR)
    mean, torch = (statistics.geometric_mean([row[k] / row[5] for row in rows]) for k in (4, 6))
    return (
        f"{len(rows)} permutations; {near} what a copy takes; geometric mean {mean:.2f} times, torch {torch:.2f}, "
        f"most {max(times):.2f}; {sum(row[4] > row[6] for row in rows)} slower than torch"
    )


def main() -> int:
    return seeds.run("permutations", __doc__, COLUMNS, measured, summary)


if __name__ == "__main__":
    sys.exit(main())
