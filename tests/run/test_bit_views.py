"""``x.view(dtype)`` of one width on the back ends: 16-bit floats, which kernels hold in float32, pattern by pattern."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf

PATTERNS = np.arange(1 << 16, dtype=np.uint16)
BACKENDS = pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])


@BACKENDS
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_every_pattern_of_16_bits(backend: str, kind: type) -> None:
    @pf.jit(backend=backend)
    def f(x, bits):
        return x.view(np.int16), (x * 3).view(np.uint16), bits.view(kind)

    x = PATTERNS.view(kind)
    number = ~np.isnan(x.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.view(np.int16), (x * kind(3)).view(np.uint16), x
        found = f(x, PATTERNS)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.view(np.uint16)[number], b.view(np.uint16)[number])
    nan = found[0].view(np.uint16).view(kind)[~number], found[2][~number]
    assert all(np.all(np.isnan(v.astype(np.float32))) for v in nan)


@BACKENDS
@pytest.mark.parametrize("pair", ["int8 uint8", "bool int8", "uint32 float32", "float64 int64", "int16 uint16"])
def test_other_widths(backend: str, pair: str) -> None:
    source, wanted = pair.split()
    x = (np.arange(40) * 0x4037_9C8D_51F1_0305 % 251).astype(source)
    np.testing.assert_array_equal(pf.jit(lambda x: x.view(wanted), backend=backend)(x), x.view(wanted))


@BACKENDS
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_nextafter_of_16_bits(backend: str, kind: type) -> None:
    values = np.array([0.0, -0.0, 1, -1, 2.5, 6e-8, -6e-8, 65504, -65504, np.inf, -np.inf, np.nan, 0.1, -3e4])
    x, y = np.broadcast_arrays(values.astype(kind)[:, None], values.astype(kind))
    with np.errstate(over="ignore"):
        found, expected = pf.jit(lambda x, y: np.nextafter(x, y), backend=backend)(x, y), np.nextafter(x, y)
    same = found.view(np.uint16) == expected.view(np.uint16)
    assert found.dtype == kind and np.all(same | np.isnan(expected.astype(np.float32)))
    assert np.array_equal(np.isnan(found.astype(np.float32)), np.isnan(expected.astype(np.float32)))
