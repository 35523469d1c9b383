"""Different spellings of one computation trace to equal programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.frontends.numpy_like import activations, elementwise, reductions, spec, trace

sigmoid, relu = activations.sigmoid, activations.relu

Function = Callable[..., Any]

ONE: dict[str, list[Function]] = {
    "square": [lambda x: x * x, lambda x: x**2, lambda x: np.square(x), lambda x: np.power(x, 2), lambda x: x**2.0],
    "double": [lambda x: x + x, lambda x: 2 * x, lambda x: x * 2.0, lambda x: x / 0.5],
    "half": [lambda x: x / 2, lambda x: 0.5 * x, lambda x: np.divide(x, 2.0)],
    "negative": [lambda x: -x, lambda x: x * -1, lambda x: np.negative(x), lambda x: x / -1],
    "difference": [lambda x: x - x.T, lambda x: x + (-x.T), lambda x: -x.T + x, lambda x: np.subtract(x, x.T)],
    "mean": [
        lambda x: x.mean(1),
        lambda x: x.sum(1) / x.shape[1],
        lambda x: np.average(x, 1),
        lambda x: np.mean(x, axis=-1),
    ],
    "mean of all": [lambda x: x.mean(), lambda x: x.sum() / x.size, lambda x: np.sum(x) / (x.shape[0] * x.shape[1])],
    "relu": [
        lambda x: relu(x),
        lambda x: np.maximum(x, 0),
        lambda x: np.maximum(0.0, x),
        lambda x: np.clip(x, 0, None),
    ],
    "sigmoid": [lambda x: sigmoid(x), lambda x: 1 / (1 + np.exp(-x)), lambda x: np.reciprocal(np.exp(-x) + 1.0)],
    "clip": [lambda x: np.clip(x, 1, 2), lambda x: x.clip(1, 2), lambda x: np.minimum(np.maximum(x, 1), 2)],
    "variance": [lambda x: x.var(-1), lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1)],
    "softmax": [
        lambda x: reductions.softmax(x),
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - np.max(x, axis=1)[:, None]).sum(1)[:, np.newaxis],
    ],
    "compare": [lambda x: x > 1, lambda x: np.less(1, x), lambda x: np.greater(x, 1.0)],
    "compare arrays": [lambda x: x > x.T, lambda x: np.less(x.T, x)],
    "where": [
        lambda x: np.where(x > 1, x, 0),
        lambda x: np.where(~(x > 1), 0, x),
        lambda x: elementwise.where(np.less(1, x), x, 0.0),
    ],
    "transposes": [
        lambda x: x,
        lambda x: x.T.T,
        lambda x: x.reshape(-1, 8, 4).reshape(x.shape),
        lambda x: x[::-1][::-1],
    ],
    "casts": [
        lambda x: x,
        lambda x: x.astype(np.float64).astype(np.float32),
        lambda x: x.astype("f4"),
        lambda x: x / 1,
    ],
    "identities": [
        lambda x: x,
        lambda x: x * 1,
        lambda x: x - 0,
        lambda x: +x,
        lambda x: -np.negative(x),
        lambda x: x[...],
    ],
    "column": [
        lambda x: x[:, :, None] * x.sum(1)[:, None, None],
        lambda x: x[..., None] * x.sum(1, keepdims=True)[..., None],
    ],
    "l2": [
        lambda x: np.linalg.norm(x, axis=1),
        lambda x: np.sqrt((x * x).sum(1)),
        lambda x: np.sqrt(np.einsum("ij,ij->i", x, x)),
    ],
    "trace": [lambda x: np.trace(x), lambda x: np.einsum("ii", x), lambda x: np.diagonal(x).sum()],
    "gather": [lambda x: x[:, np.arange(4)], lambda x: x[:, :4], lambda x: np.take(x, np.arange(4), axis=1)],
    "method": [lambda x: x.sum(0), lambda x: np.add.reduce(x), lambda x: np.sum(x, axis=(0,))],
}

TWO: dict[str, list[Function]] = {
    "product": [
        lambda a, b: a @ b,
        lambda a, b: np.dot(a, b),
        lambda a, b: np.einsum("ij,jk->ik", a, b),
        lambda a, b: np.tensordot(a, b, 1),
        lambda a, b: np.tensordot(a, b, ([1], [0])),
        lambda a, b: (a[:, None, :] * b.T[None]).sum(-1),
    ],
    "order": [lambda a, b: a * 2 + b.T, lambda a, b: b.T + 2 * a, lambda a, b: np.add(b.T, np.multiply(a, 2))],
    "written": [
        lambda a, b: np.concatenate([a, b.T]),
        lambda a, b: np.vstack([a, b.T]),
        lambda a, b: np.append(a, np.transpose(b), 0),
    ],
}


def digests(functions: list[Function], *specs: str) -> set[bytes]:
    return {trace(f, [spec(s) for s in specs]).program.digest for f in functions}


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name: str) -> None:
    square = name in ("trace", "difference", "compare arrays")
    assert len(digests(ONE[name], "f32[N, N]" if square else "f32[N, 32]")) == 1


@pytest.mark.parametrize("name", TWO)
def test_two_operands(name: str) -> None:
    assert len(digests(TWO[name], "f32[N, K]", "f32[K, N]")) == 1


DIFFERENT: dict[str, tuple[Function, Function]] = {
    "signed zero": (lambda x: x + 0.0, lambda x: x),
    "zero minus": (lambda x: 0 - x, lambda x: -x),
    "nan in relu": (lambda x: np.where(x > 0, x, 0), lambda x: np.maximum(x, 0)),
    "reciprocal": (lambda x: x / 3, lambda x: x * (1 / 3)),
    "lossy cast": (lambda x: x.astype("f2").astype("f4"), lambda x: x),
    "not less": (lambda x: ~(x < 1), lambda x: x >= 1),
    "zeros": (lambda x: x * 0.0, lambda x: x * -0.0),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_in_a_bit_stays_different(name: str) -> None:
    assert len(digests(list(DIFFERENT[name]), "f32[N, 32]")) == 2


def test_names_lines_and_hints_are_no_part_of_the_digest() -> None:
    def first(x: Any) -> Any:
        h = np.exp(x)
        return h + 1

    def second(y: Any) -> Any:
        return 1 + np.exp(y)

    assert trace(first, [spec("f32[N~64]")]).program.digest == trace(second, [spec("f32[N]")]).program.digest
