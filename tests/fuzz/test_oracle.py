"""What the oracle must leave open, each found by a right program that it called wrong, and what it must not."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import check, expectation
from polyfuse.fuzz.program import WrittenProgram


def program(*lines: str, arrays: tuple[ArrayValue, ...]) -> WrittenProgram:
    parameters = ", ".join(f"x{k}" for k in range(len(arrays)))
    return WrittenProgram(f"def program({parameters}):\n" + "".join(f"    {line}\n" for line in lines), arrays)


OPEN = {
    "limits of a narrow dtype": program(
        "v1 = np.nan_to_num(x0)", "return v1[::-1], v1.sum()", arrays=(ArrayValue((9,), "f16", "special", 891),)
    ),
    "truth of a sum that may be zero": program(
        "v1 = (x0 - x0.mean()) / (x0.std() + 1)",
        "return np.all(np.sum(v1, axis=-1), keepdims=True)",
        arrays=(ArrayValue((6,), "f32", "whole", 593),),
    ),
    "truth of what may underflow": program(
        "v1 = np.power(np.abs(x0), np.clip(x0, -2, 2))",
        "v1[...] *= v1",
        "return v1, np.all(v1, axis=-1)",
        arrays=(ArrayValue((9,), "bf16", "extreme", 995, None, 1),),
    ),
    "equality of values closer than their bounds": program(
        "return x0 != np.cumsum(x0[::-1], axis=0)[::-1]", arrays=(ArrayValue((513,), "bf16", "extreme", 279, None, 3),)
    ),
    "a product that is finite within a sum only": program(
        "v2 = x0.T @ np.maximum(x0, 3)",
        "return np.exp(v2 - v2.max(axis=-1, keepdims=True))",
        arrays=(ArrayValue((17, 2), "f64", "extreme", 358),),
    ),
    "a constant that was computed in float32": program(
        "return np.fmin(x0, pf.rsqrt(np.sign(np.full((8,), 2.5, f32)) + 1))",
        arrays=(ArrayValue((8,), "f64", "special", 756),),
    ),
    "a short constant that was computed in bfloat16": program(
        "return pf.gelu_tanh(np.ones_like(x0)) + x0", arrays=(ArrayValue((8,), "bf16", "whole", 256),)
    ),
    "a whole number that was computed in float32": program(
        "return np.arctanh(np.tanh(np.ones(x0.shape, f32)))", arrays=(ArrayValue((8,), "f32", "whole", 256),)
    ),
    "fma of float64": program("return pf.fma(x0, x0, x0)", arrays=(ArrayValue((4, 4, 4), "f64", "normal", 575),)),
}


@pytest.mark.parametrize("written", OPEN.values(), ids=OPEN.keys())
def test_right_programs_are_not_called_wrong(written: WrittenProgram) -> None:
    report = check(written, 0, "interpreter")
    assert report.failure is None and not report.refused, report


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("np.signbit(x0)", True),  # bits of an argument
        ("np.copysign(2, np.flip(x0))[::-1]", True),
        ("np.signbit(x0 - x0)", False),
        ("np.copysign(2, np.sqrt(-np.abs(x0)))", False),
        ("np.isnan(x0 - x0)", True),
    ],
)
def test_the_sign_of_a_nan_is_known_where_it_was_moved(line: str, known: bool) -> None:
    written = program(f"return {line}", arrays=(ArrayValue((90,), "f32", "special", 3),))
    nan = np.isnan(written.arguments()[0])
    assert nan.sum() >= 2
    assert np.isfinite(expectation(written).bounds[0][nan]).all() == known


@pytest.mark.parametrize(
    "line", ["x0 == x0", "x0.sum() == 5", "x0 * 0.1 != 0.7", "np.all(x0 + 9)", "np.nan_to_num(x0)", "x0.prod() * 1e9"]
)
def test_what_is_certain_stays_known(line: str) -> None:
    written = program(f"return {line}", arrays=(ArrayValue((40,), "f32", "normal", 3),))
    assert np.isfinite(expectation(written).bounds[0]).all()
