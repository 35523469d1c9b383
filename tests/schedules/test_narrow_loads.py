"""Bytes that become floats: threads take so many that enough of them are on their way."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_equivalent


def normalised(x):
    return (x.astype(np.float32) / 255 - 0.5) * 4


@pytest.mark.parametrize("shape", ["u8[N~4096, M~12288]", "u8[4096, 4096, 3]", "i8[N~50000000]"])
def test_enough_bytes_are_on_their_way(shape: str) -> None:
    (kernel,) = pf.jit(normalised).plan(pf.spec(shape), target="h200").kernels
    tile = dict(kernel.parameters)
    assert tile["vector"] == 4  # a warp writes whole lines
    assert tile["vector"] * tile["unroll"] >= 32


@pytest.mark.parametrize("shape", ["f32[N~4096, M~12288]", "bf16[N~4096, M~12288]"])
def test_wide_loads_stay_as_they_are(shape: str) -> None:
    (kernel,) = pf.jit(lambda x: x * 2).plan(pf.spec(shape), target="h200").kernels
    tile = dict(kernel.parameters)
    assert tile["vector"] * tile["unroll"] == (8 if shape.startswith("f32") else 16)


def test_every_element_is_computed() -> None:
    spec = pf.spec("u8[N~50000000]")
    loose, plan = (pf.jit(normalised).plan(spec, target="h200", fuse=fuse) for fuse in (False, True))
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": n} for n in (1, 4095, 4096, 5003)])
