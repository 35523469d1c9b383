"""When what a kernel reads is loaded: before it is waited for, or where it is used."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import polyfuse as pf


def source(function: Any, *specs: str) -> str:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200").source()


def normalised(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias


def test_operands_of_an_epilogue_are_loaded_where_they_are_used() -> None:
    """Their registers are then not held while a quotient is made, which has a branch."""
    text = source(normalised, "f32[N~16384, 4096]", "f32[4096]", "f32[4096]")
    lines = [re.sub(r"(_\d+)? = .*", "", line.strip()) for line in text.splitlines() if " = " in line]
    assert lines.index("divide_") + 1 == lines.index("gain") and lines.index("bias") > lines.index("gain") + 1
    assert lines.index("x") < lines.index("sum_")


def test_operands_without_a_wait_before_are_loaded_at_once() -> None:
    text = source(lambda x, y: (np.exp(x) / (1 + x * x)) * y, "f32[N~65536, 4096]", "f32[N, 4096]")
    assert text.index("y = load") < text.index("exp(")
