"""Long functions of bytes are looked up in tables that a kernel computes; short ones, and what bytes share with others,
are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal

IMAGE = "u8[H~4000, W~6000, 3]"


def gamma(x: Any) -> Any:
    return (255 * (x / 255.0) ** 2.2).astype(np.uint8)


def linear(x: Any) -> Any:
    c = x.astype(np.float32) / np.float32(255)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def luminance(x: Any) -> Any:
    c = linear(x)
    return 0.2126 * c[..., 0] + 0.7152 * c[..., 1] + 0.0722 * c[..., 2]


def signed(x: Any) -> Any:
    return np.abs(np.tanh(x.astype(np.float32) * 0.02)) ** np.float32(0.7)


def planned(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    plan = pf.jit(function, verify=True, **options).plan(*map(pf.spec, specs), target="h200")
    assert_legal(plan)
    return plan


@pytest.mark.parametrize(
    ("function", "spec"), [(gamma, IMAGE), (linear, IMAGE), (luminance, IMAGE), (signed, "i8[N~100000000]")]
)
def test_every_byte_is_computed_once(function: Callable[..., Any], spec: str) -> None:
    plan = planned(function, spec)
    assert len(plan.kernels) == 2
    first, second = plan.source().split("\n\n\ndef ")[1:]
    assert "power(" in first and "power(" not in second and "load(" not in first


@pytest.mark.parametrize("function", [gamma, linear, luminance])
@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_the_bits_are_those_of_the_function(function: Callable[..., Any], target: str) -> None:
    """Of a program that is planned for much, at all bytes."""
    x = np.arange(256 * 3).astype(np.uint8).reshape(16, 16, 3)
    looked_up = pf.jit(function, backend="interpreter", target=target)
    (found,) = run_plan(pf.jit(function).plan(pf.spec(IMAGE), target=target), [x])
    np.testing.assert_array_equal(found, looked_up(x))
    error = 1.0 if function is gamma else 1e-6
    np.testing.assert_allclose(np.asarray(found, np.float64), function(x), rtol=1e-5, atol=error)


def test_numbers_of_a_call_are_part_of_the_table() -> None:
    def powers(x: Any, g: Any) -> Any:
        return (x.astype(np.float32) / 255) ** g

    plan = planned(powers, IMAGE, "f32")
    assert len(plan.kernels) == 2
    x = np.arange(192).astype(np.uint8).reshape(8, 8, 3)
    (found,) = run_plan(plan, [x, np.float32(1.7)])
    np.testing.assert_allclose(found, (x / 255.0) ** 1.7, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: x.astype(np.float32) * 2 + 1, (IMAGE,)),  # short
        (lambda x, y: (x / 255.0) ** (y / 255.0), (IMAGE, IMAGE)),  # of two bytes
        (lambda x: (x / 255.0) ** 2.2, ("u16[N~4000, M~6000]",)),  # of more values than a table has
        (gamma, ("u8[64, 64, 3]",)),  # of little
        (lambda x: (x / 255.0) ** np.arange(3), (IMAGE,)),  # of its place as well
    ],
)
def test_others_are_computed_where_they_are_needed(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    assert len(planned(function, *specs).kernels) == 1


def test_what_the_user_steers_keeps_its_form() -> None:
    assert len(planned(gamma, IMAGE, max_fusion_size=100).kernels) == 1


def test_what_else_bytes_are_needed_for_reads_them() -> None:
    def both(x: Any) -> Any:
        return gamma(x), x.max(), linear(x).sum((0, 1))

    x = np.arange(16 * 16 * 3).astype(np.uint8).reshape(16, 16, 3)
    found = run_plan(planned(both, IMAGE), [x])
    for mine, exact in zip(found, both(x), strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float64), exact, rtol=1e-4, atol=1.0 if mine.ndim == 3 else 0)
