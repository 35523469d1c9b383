"""The random programs of the benchmarks, small, against NumPy in float64."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polyfuse as pf
from benchmarks.random_programs import SIZES, drawn

DTYPES = {"f32": np.float32, "f64": np.float64, "u8": np.uint8, "i32": np.int32}
SEEDS = [seed for seed in range(60) if drawn(seed, 20_000).inputs[0][0] in DTYPES]


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_numpy(seed: int) -> None:
    program, random = drawn(seed, 20_000), np.random.default_rng(seed)
    arrays = [
        (random.integers(0, 200, shape) if dtype in ("u8", "i32") else random.standard_normal(shape))
        .astype(DTYPES[dtype])
        for dtype, shape in program.inputs
    ]
    results = pf.jit(program.function(np))(*arrays)
    wanted = program.function(np)(*[array.astype(np.float64) for array in arrays])
    pairs = zip(*[r if isinstance(r, tuple) else (r,) for r in (results, wanted)], strict=True)
    for mine, exact in pairs:
        assert mine.shape == np.shape(exact)
        scale = max(1.0, np.max(np.abs(exact), initial=0.0))
        np.testing.assert_allclose(mine, exact, rtol=0, atol=(1e-10 if mine.dtype == np.float64 else 1e-4) * scale)


def test_seeds_repeat_and_sizes_are_as_asked() -> None:
    for seed in range(50):
        program = drawn(seed)
        assert program == drawn(seed)
        (dtype, shape), *_ = program.inputs
        size = np.prod(shape) * SIZES[dtype]
        assert 70e6 < size < 310e6
        assert re.match(r"def f\(a0", program.text)
