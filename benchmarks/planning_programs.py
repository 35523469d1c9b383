"""Large programs of different shapes, to time the planner on: chains, alternations, time loops, width, sharing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import polyfuse as pf


@dataclass(frozen=True, slots=True)
class Case:
    """A function of arrays, and the specifications of its arguments."""

    function: Callable[..., Any]
    specs: tuple[str, ...]

    def plan(self) -> pf.Plan:
        """A fresh plan for an H200."""
        return pf.jit(self.function).plan(*map(pf.spec, self.specs), target="h200")


OPERATIONS_PER_BLOCK = 21  # statements that one residual block adds to the program
ROWS, MATRIX = "f32[M~16384, 4096]", "f32[4096, 4096]"


def residual_blocks(operations: int) -> Case:
    """``x`` through blocks: x + gelu(layernorm(x) * gain + bias), scaled by the largest magnitude of a row."""

    def program(x: Any, gain: Any, bias: Any) -> Any:
        for _ in range(max(1, operations // OPERATIONS_PER_BLOCK)):
            centred = x - x.mean(axis=-1, keepdims=True)
            deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
            x = x + pf.gelu(centred / deviation * gain + bias)
            x = x / (1 + np.abs(x).max(axis=-1, keepdims=True))
        return x

    return Case(program, (ROWS, "f32[4096]", "f32[4096]"))


def pointwise_chain(operations: int) -> Case:
    """One operation after another, no two neighbours alike."""
    steps: Sequence[Callable[[Any], Any]] = (np.tanh, np.exp, np.abs, np.sqrt, np.negative, np.sin, np.cos)

    def program(x: Any) -> Any:
        for k in range(operations // 2):
            x = steps[k % len(steps)](x) + (1 + k)
        return x

    return Case(program, (ROWS,))


def softmax_and_matmul(layers: int) -> Case:
    """``x = softmax(x) @ w``, again and again."""

    def program(x: Any, w: Any) -> Any:
        for _ in range(layers):
            e = np.exp(x - x.max(axis=-1, keepdims=True))
            x = (e / e.sum(axis=-1, keepdims=True)) @ w
        return x

    return Case(program, (ROWS, MATRIX))


def stencil_steps(steps: int) -> Case:
    """A time loop, unrolled: five-point averages of the interior, which shrinks by one element on every side."""

    def program(x: Any) -> Any:
        for _ in range(steps):
            x = (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * np.float32(0.2)
        return x

    return Case(program, (MATRIX,))


def independent_outputs(outputs: int) -> Case:
    """Many results that share nothing but what they read."""

    def program(x: Any, y: Any) -> Any:
        return tuple(np.sin(x + k) * y for k in range(outputs))

    return Case(program, ("f32[1024, 1024]", "f32[1024, 1024]"))


def deep_sharing(steps: int) -> Case:
    """Every value is read three times: a program that is small as a graph and endless as a tree."""

    def program(x: Any) -> Any:
        for _ in range(steps):
            x = x * x + x
        return x

    return Case(program, (ROWS,))


def many_inputs(inputs: int) -> Case:
    """A weighted sum of as many arrays."""

    def program(*arrays: Any) -> Any:
        total = arrays[0]
        for k, array in enumerate(arrays[1:]):
            total = total + array * (2 + k)
        return total

    return Case(program, ("f32[1024, 1024]",) * inputs)
