"""Memory-bound programs: NumPy code that polyfuse runs unchanged, and the same computation in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """`code` runs on NumPy arrays; `torch` makes the same function from the torch module; `arguments` makes the input
    for matrices of n rows and n columns."""

    name: str
    code: Callable[..., Any]
    torch: Callable[[Any], Callable[..., Any]]
    arguments: Callable[[np.random.Generator, int], Arrays]
    tolerance: float = 2e-5


def normal(generator: np.random.Generator, *shape: int) -> Any:
    return generator.standard_normal(shape, dtype=np.float32)


def one(generator: np.random.Generator, n: int) -> Arrays:
    return (normal(generator, n, n),)


def two(generator: np.random.Generator, n: int) -> Arrays:
    return normal(generator, n, n), normal(generator, n, n)


def matrix_and_vectors(vectors: int) -> Callable[[np.random.Generator, int], Arrays]:
    return lambda generator, n: (normal(generator, n, n), *(normal(generator, n) for _ in range(vectors)))


# ---------------------------------------------------------------------------------------------- elementwise


def chain(x, y):
    return 1 / (1 + np.exp(-(np.maximum((x + y) * 2, 0) - 1)))


def bias_relu(x, b):
    return np.maximum(x + b, 0)


def batchnorm_relu(x, mean, variance, gain, bias):
    scale = gain / np.sqrt(variance + 1e-5)
    return np.maximum((x - mean[:, None, None]) * scale[:, None, None] + bias[:, None, None], 0)


def images(generator: np.random.Generator, n: int) -> Arrays:
    channels = max(1, n // 64)
    x = normal(generator, channels, channels, n // channels, n // channels)
    variance = np.abs(normal(generator, channels)) + 0.5
    return x, normal(generator, channels), variance, normal(generator, channels), normal(generator, channels)


def transposed_add(x, y):
    return x + y.T


def strided_add(x, y):
    return x[::2] + y


def gather_add(x, rows, y):
    return x[rows] + y


def concatenate_gelu(x, y):
    z = np.concatenate([x, y], axis=1)
    return 0.5 * z * (1 + np.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))


def relu_plus_sigmoid(x, y):
    return np.maximum(x, 0) + 1 / (1 + np.exp(-y))


def sine_and_cosine(x):
    return np.sin(x), np.cos(x)


def half_chain(x, y):
    return np.exp(np.minimum(x, 1).astype(np.float32) * 0.5) + y


def two_branches(x, y):
    return np.where(x > y, x * 2 + 1, y * y - 3)


def regrouped(x, bias):
    n, m = x.shape
    return x.reshape(n, m // 8, 8).transpose(1, 0, 2) * 2 + bias.reshape(m // 8, 1, 8)


# ---------------------------------------------------------------------------------------------- rows


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def layernorm(x, gain, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * gain + bias


def residual_rmsnorm(x, y, gain):
    h = x + y
    return h, h / np.sqrt((h * h).mean(axis=-1, keepdims=True) + 1e-6) * gain


def cross_entropy(x, labels):
    m = x.max(axis=1)
    chosen = np.take_along_axis(x, labels[:, None], axis=1)[:, 0]
    return np.log(np.exp(x - m[:, None]).sum(axis=1)) + m - chosen


def row_sums_of_squares(x, y):
    d = x - y
    return (d * d).sum(axis=1)


def cumulative_sum(x):
    return np.cumsum(x, axis=1)


# ---------------------------------------------------------------------------------------------- columns and totals


def column_sum(x):
    return x.sum(axis=0)


def mean_squared_error(x, y):
    d = x - y
    return (d * d).mean()


def normalised(x):
    return x / x.sum()


def norm(x):
    return np.sqrt((x * x).sum())


def both_products(a, x, y):
    return a @ x, a.T @ y


# ---------------------------------------------------------------------------------------------- stencils


def step(u):
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) * 0.25


def two_jacobi_steps(u):
    return step(step(u))


PROGRAMS = (
    Program("five-op chain", chain, lambda t: lambda x, y: t.sigmoid(t.relu((x + y) * 2) - 1), two),
    Program("bias + relu", bias_relu, lambda t: lambda x, b: t.relu(x + b), matrix_and_vectors(1)),
    Program("softmax", softmax, lambda t: lambda x: t.softmax(x, -1), one),
    Program(
        "layernorm",
        layernorm,
        lambda t: lambda x, g, b: t.nn.functional.layer_norm(x, x.shape[-1:], g, b, 1e-5),
        matrix_and_vectors(2),
    ),
    Program(
        "residual + rmsnorm",
        residual_rmsnorm,
        lambda t: lambda x, y, g: (x + y, (x + y) * t.rsqrt(((x + y) ** 2).mean(-1, keepdim=True) + 1e-6) * g),
        lambda generator, n: (*two(generator, n), normal(generator, n)),
    ),
    Program("log-softmax", log_softmax, lambda t: lambda x: t.log_softmax(x, -1), one),
    Program(
        "batchnorm + relu",
        batchnorm_relu,
        lambda t: lambda x, m, v, g, b: t.relu(t.nn.functional.batch_norm(x, m, v, g, b, eps=1e-5)),
        images,
    ),
    Program("mean squared error", mean_squared_error, lambda t: lambda x, y: ((x - y) ** 2).mean(), two),
    Program("column sum", column_sum, lambda t: lambda x: x.sum(0), one, 1e-4),
    Program(
        "x / x.sum()",
        normalised,
        lambda t: lambda x: x / x.sum(),
        lambda generator, n: (generator.random((n, n), dtype=np.float32),),
    ),
    Program("x + y.T", transposed_add, lambda t: lambda x, y: x + y.T, two),
    Program("two jacobi steps", two_jacobi_steps, lambda t: two_jacobi_steps, one),
    Program("cumulative sum", cumulative_sum, lambda t: lambda x: t.cumsum(x, 1), one, 1e-4),
    Program(
        "cross-entropy rows",
        cross_entropy,
        lambda t: lambda x, k: t.nn.functional.cross_entropy(x, k, reduction="none"),
        lambda generator, n: (normal(generator, n, n), generator.integers(0, n, n)),
    ),
    Program(
        "x[::2] + y",
        strided_add,
        lambda t: strided_add,
        lambda generator, n: (normal(generator, n, n), normal(generator, n // 2, n)),
    ),
    Program(
        "x[idx] + y",
        gather_add,
        lambda t: gather_add,
        lambda generator, n: (normal(generator, n, n), generator.integers(0, n, n), normal(generator, n, n)),
    ),
    Program(
        "concatenate + gelu",
        concatenate_gelu,
        lambda t: lambda x, y: t.nn.functional.gelu(t.cat([x, y], 1), approximate="tanh"),
        lambda generator, n: (normal(generator, n, n // 2), normal(generator, n, n // 2)),
    ),
    Program("relu + sigmoid", relu_plus_sigmoid, lambda t: lambda x, y: t.relu(x) + t.sigmoid(y), two),
    Program("sin, cos", sine_and_cosine, lambda t: lambda x: (t.sin(x), t.cos(x)), one),
    Program(
        "float16 -> float32 in a chain",
        half_chain,
        lambda t: lambda x, y: t.exp(t.clamp(x, max=1).float() * 0.5) + y,
        lambda generator, n: (normal(generator, n, n).astype(np.float16), normal(generator, n, n)),
        2e-3,
    ),
    Program("where", two_branches, lambda t: lambda x, y: t.where(x > y, x * 2 + 1, y * y - 3), two),
    Program(
        "reshape, transpose, broadcast",
        regrouped,
        lambda t: lambda x, b: x.reshape(len(x), -1, 8).permute(1, 0, 2) * 2 + b.reshape(-1, 1, 8),
        lambda generator, n: (normal(generator, n, n // 8 * 8), normal(generator, n // 8 * 8)),
    ),
    Program("row sums of squares", row_sums_of_squares, lambda t: lambda x, y: ((x - y) ** 2).sum(1), two, 1e-4),
    Program("sqrt(sum(x * x))", norm, lambda t: lambda x: t.sqrt((x * x).sum()), one, 1e-4),
    Program(
        "A x, A^T y",
        both_products,
        lambda t: lambda a, x, y: (a @ x, a.T @ y),
        matrix_and_vectors(2),
        1e-3,
    ),
)
