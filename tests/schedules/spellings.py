"""Programs that must be one kernel (or at most a few), each as different people write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import polyfuse as pf


@dataclass(frozen=True)
class Case:
    """`spellings` compute the same from arguments of any one of `specs`; their plans must be equal and launch at most
    `kernels` kernels."""

    name: str
    spellings: tuple[Callable[..., Any], ...]
    specs: tuple[tuple[str, ...], ...]
    kernels: int = 1


# ---------------------------------------------------------------------------------------------- elementwise


def chain(x, y):
    return pf.sigmoid(pf.relu((x + y) * 2) - 1)


def chain_by_functions(x, y):
    doubled = np.multiply(2.0, np.add(y, x))
    positive = np.maximum(doubled, 0)
    return np.divide(1, np.add(1, np.exp(np.negative(np.subtract(positive, 1)))))


def _logistic(v):
    return 1 / (1 + np.exp(-v))


def _positive_part(v):
    return np.maximum(v, 0)


def chain_by_helpers(x, y):
    total = x + y
    return _logistic(_positive_part(total * 2) - 1)


def horizontal(x, y):
    return pf.relu(x) + pf.sigmoid(y)


def horizontal_reordered(x, y):
    right = 1 / (np.exp(-y) + 1)
    left = np.maximum(0, x)
    return right + left


def sine_and_cosine(x):
    return np.sin(x), np.cos(x)


def cosine_first(x):
    c = np.cos(x)
    s = np.sin(x)
    return s, c


def every_other_row(x, y):
    return x[::2] + y


def every_other_row_by_reshape(x, y):
    return np.add(y, x.reshape(x.shape[0] // 2, 2, x.shape[1])[:, 0])


def gathered(x, index, y):
    return x[index] + y


def gathered_by_take(x, index, y):
    return np.add(y, np.take(x, index, axis=0))


def cast_in_a_chain(x, y):
    return np.exp((x * 2).astype(np.float32) + y) * 3


def cast_by_functions(x, y):
    wide = np.asarray(np.multiply(2, x), dtype=np.float32)
    return 3 * np.exp(np.add(y, wide))


def reshaped_transposed_broadcast(x, bias):
    tiles = x.reshape(x.shape[0], 64, 64).transpose(0, 2, 1)
    return tiles * 2 + bias[None, :, None]


def reshaped_transposed_by_functions(x, bias):
    tiles = np.swapaxes(np.reshape(x, (-1, 64, 64)), 1, 2)
    return np.add(np.expand_dims(bias, 1), 2 * tiles)


def two_branches(x, y):
    return np.where(x > 0, np.exp(x), y * 2)


def two_branches_the_other_way(x, y):
    small = 2 * y
    return np.where(~(x > 0), small, np.exp(x))


def joined_then_gelu(x, y):
    return pf.gelu(np.concatenate([x, y], axis=1))


def joined_then_gelu_by_hand(x, y):
    both = np.hstack((x, y))
    return 0.5 * both * (1 + pf.erf(both * (1 / np.sqrt(2).item())))


def plus_transposed(x, y):
    return x + y.T


def plus_transposed_by_einsum(x, y):
    return np.add(np.einsum("ij->ji", y), x)


# ---------------------------------------------------------------------------------------------- stencils


def jacobi(u):
    return _relaxed(_relaxed(u))


def _relaxed(u):
    v = u.copy()
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return v


def jacobi_by_loop(u):
    for _ in range(2):
        north, south, west, east = u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        v = np.array(u)
        v[1:-1, 1:-1] = np.multiply(north + south + west + east, 0.25)
        u = v
    return u


# ---------------------------------------------------------------------------------------------- reductions


def summed_over(axis: int) -> tuple[Callable[..., Any], ...]:
    letters = "ijk"
    kept = letters.replace(letters[axis], "")

    def by_method(x):
        return (np.exp(x) * 2 + 1).sum(axis=axis)

    def by_function(x):
        e = np.exp(x)
        return np.sum(np.add(1, np.multiply(2, e)), axis=axis - 3)

    def by_einsum(x):
        return np.einsum(f"ijk->{kept}", 1 + 2 * np.exp(x))

    return by_method, by_function, by_einsum


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_by_functions(x):
    top = np.max(x, axis=1)
    shifted = np.subtract(x, top[:, None])
    weights = np.exp(shifted)
    total = np.einsum("ij->i", weights)
    return np.divide(weights, np.expand_dims(total, 1))


def softmax_by_library(x):
    return pf.softmax(x, axis=-1)


def layernorm(x, gain, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def layernorm_by_hand(x, gain, bias):
    mean = np.mean(x, axis=1)[:, None]
    centred = x - mean
    variance = np.mean(centred**2, axis=1, keepdims=True)
    return bias + gain * (centred / np.sqrt(1e-5 + variance))


def _centred(x):
    return x - np.mean(x, axis=-1, keepdims=True)


def layernorm_by_helpers(x, gain, bias):
    c = _centred(x)
    deviation = np.sqrt(np.square(c).mean(-1, keepdims=True) + 1e-5)
    return np.add(np.multiply(c / deviation, gain), bias)


def residual_rmsnorm(x, residual, weight):
    h = x + residual
    return h, h / np.sqrt(np.mean(h * h, axis=-1, keepdims=True) + 1e-6) * weight


def residual_rmsnorm_by_functions(x, residual, weight):
    h = np.add(residual, x)
    mean_square = np.mean(np.square(h), axis=1)
    scale = np.sqrt(mean_square + 1e-6)
    return h, np.multiply(weight, h / scale[:, None])


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def log_softmax_by_functions(x):
    d = np.subtract(x, np.max(x, 1, keepdims=True))
    total = np.sum(np.exp(d), 1)
    return np.subtract(d, np.log(total)[:, np.newaxis])


def log_softmax_by_library(x):
    return pf.log_softmax(x, axis=-1)


def batch_norm_relu(x, mean, variance, gain, bias):
    scale = gain / np.sqrt(variance + 1e-5)
    return np.maximum((x - mean[:, None, None]) * scale[:, None, None] + bias[:, None, None], 0)


def batch_norm_relu_by_helpers(x, mean, variance, gain, bias):
    def along_channels(v):
        return v.reshape(1, -1, 1, 1)

    deviation = np.sqrt(along_channels(variance) + 1e-5)
    scaled = (x - along_channels(mean)) * (along_channels(gain) / deviation)
    return pf.relu(along_channels(bias) + scaled)


def mean_squared_difference(x, y):
    return np.mean((x - y) ** 2)


def mean_squared_difference_by_functions(x, y):
    d = np.subtract(x, y)
    return np.square(d).mean()


def over_its_sum(x):
    return x / x.sum()


def over_its_sum_by_einsum(x):
    return np.divide(x, np.einsum("ij->", x))


def euclidean_norm(x):
    return np.sqrt(np.sum(x * x))


def euclidean_norm_by_einsum(x):
    return np.sqrt(np.einsum("i,i->", x, x))


def euclidean_norm_by_product(x):
    return np.sqrt(x @ x)


# ---------------------------------------------------------------------------------------------- contractions


def linear_relu(x, w, bias):
    return pf.relu(x @ w + bias)


def linear_relu_by_einsum(x, w, bias):
    return np.maximum(bias + np.einsum("ij,jk->ik", x, w), 0)


def linear_relu_by_sum(x, w, bias):
    products = x[:, None, :] * w.T[None]
    return np.maximum(products.sum(axis=-1) + bias, 0)


def linear_gelu_dropout(x, w, bias, mask):
    return pf.gelu(x @ w + bias) * mask * (1 / 0.9)


def linear_gelu_dropout_by_functions(x, w, bias, mask):
    before = np.add(np.dot(x, w), bias)
    after = np.multiply(0.5 * before, 1 + pf.erf(before * (1 / np.sqrt(2).item())))
    return np.multiply(1 / 0.9, mask * after)


def normalised_linear(x, mean, rstd, gain, w):
    return ((x - mean[:, None]) * rstd[:, None] * gain) @ w


def normalised_linear_by_einsum(x, mean, rstd, gain, w):
    centred = np.subtract(x, np.expand_dims(mean, 1))
    h = gain * (centred * rstd.reshape(-1, 1))
    return np.einsum("mk,kn->mn", h, w)


def convolution_norm_relu(x, w, mean, variance, gain, bias):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, w)
    return batch_norm_relu(y, mean, variance, gain, bias)


def convolution_norm_relu_by_functions(x, w, mean, variance, gain, bias):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    y = np.moveaxis(np.tensordot(windows, w, axes=([1, 4, 5], [1, 2, 3])), -1, 1)
    return batch_norm_relu_by_helpers(y, mean, variance, gain, bias)


def matrix_both_ways(a, x, y):
    return a @ x, a.T @ y


def matrix_both_ways_by_einsum(a, x, y):
    return np.einsum("ij,j->i", a, x), np.einsum("ij,i->j", a, y)


def matrix_both_ways_by_sums(a, x, y):
    return (a * x).sum(1), (a * y[:, None]).sum(0)


# ---------------------------------------------------------------------------------------------- the table

MATRIX = (("f32[M, N]",), ("f32[16384, 4096]",))
MATRICES = (("f32[M, N]",) * 2, ("f32[16384, 4096]",) * 2)
CUBE = (("f32[A~256, B~256, C~256]",), ("f32[256, 512, 256]",))
IMAGE = (("f32[B~32, C~64, H~128, W~128]", *["f32[C]"] * 4), ("f32[32, 64, 128, 128]", *["f32[64]"] * 4))

CASES = (
    Case("five-op chain", (chain, chain_by_functions, chain_by_helpers), MATRICES),
    Case("relu(x) + sigmoid(y)", (horizontal, horizontal_reordered), MATRICES),
    Case("sin and cos of one input", (sine_and_cosine, cosine_first), MATRIX),
    *(Case(f"pointwise, sum over axis {axis}", summed_over(axis), CUBE) for axis in range(3)),
    Case("softmax", (softmax, softmax_by_functions, softmax_by_library), MATRIX),
    Case(
        "layernorm",
        (layernorm, layernorm_by_hand, layernorm_by_helpers),
        (("f32[M, N]", "f32[N]", "f32[N]"), ("f32[16384, 4096]", "f32[4096]", "f32[4096]")),
    ),
    Case(
        "residual + rmsnorm",
        (residual_rmsnorm, residual_rmsnorm_by_functions),
        (("f32[M, N]", "f32[M, N]", "f32[N]"), ("f32[16384, 4096]", "f32[16384, 4096]", "f32[4096]")),
    ),
    Case("log-softmax", (log_softmax, log_softmax_by_functions, log_softmax_by_library), MATRIX),
    Case("batch norm + relu", (batch_norm_relu, batch_norm_relu_by_helpers), IMAGE),
    Case(
        "relu(x @ w + b)",
        (linear_relu, linear_relu_by_einsum, linear_relu_by_sum),
        (("f32[M, K]", "f32[K, N]", "f32[N]"), ("f32[4096, 4096]", "f32[4096, 4096]", "f32[4096]")),
    ),
    Case(
        "matmul + bias + gelu + dropout mask",
        (linear_gelu_dropout, linear_gelu_dropout_by_functions),
        (
            ("f32[M, K]", "f32[K, N]", "f32[N]", "bool[M, N]"),
            ("f32[4096, 4096]", "f32[4096, 4096]", "f32[4096]", "bool[4096, 4096]"),
        ),
    ),
    Case(
        "normalisation on load of a matmul",
        (normalised_linear, normalised_linear_by_einsum),
        (
            ("f32[M, K~1024]", "f32[M]", "f32[M]", "f32[K]", "f32[K, N~1024]"),
            ("f32[4096, 4096]", "f32[4096]", "f32[4096]", "f32[4096]", "f32[4096, 4096]"),
        ),
    ),
    Case(
        "conv2d + batch norm + relu",
        (convolution_norm_relu, convolution_norm_relu_by_functions),
        (
            ("f32[B~32, C~64, H~56, W~56]", "f32[O~128, C, 3, 3]", *["f32[O]"] * 4),
            ("f32[32, 64, 58, 58]", "f32[128, 64, 3, 3]", *["f32[128]"] * 4),
        ),
    ),
    Case(
        "x[::2] + y",
        (every_other_row, every_other_row_by_reshape),
        (("f32[2*N, M]", "f32[N, M]"), ("f32[16384, 4096]", "f32[8192, 4096]")),
    ),
    Case(
        "x[idx] + y",
        (gathered, gathered_by_take),
        (
            ("f32[V~50000, D~1024]", "i64[N]", "f32[N, D]"),
            ("f32[50000, 1024]", "i64[8192]", "f32[8192, 1024]"),
        ),
    ),
    Case(
        "float16 -> float32 in a chain",
        (cast_in_a_chain, cast_by_functions),
        (("f16[M, N]", "f32[M, N]"), ("f16[16384, 4096]", "f32[16384, 4096]")),
    ),
    Case(
        "reshape, transpose, broadcast",
        (reshaped_transposed_broadcast, reshaped_transposed_by_functions),
        (("f32[M, 4096]", "f32[64]"), ("f32[16384, 4096]", "f32[64]")),
    ),
    Case("where with two branches", (two_branches, two_branches_the_other_way), MATRICES),
    Case(
        "concatenate then gelu",
        (joined_then_gelu, joined_then_gelu_by_hand),
        (("f32[M, N]", "f32[M, K]"), ("f32[16384, 4096]", "f32[16384, 2048]")),
    ),
    Case(
        "x + y.T",
        (plus_transposed, plus_transposed_by_einsum),
        (("f32[M, N]", "f32[N, M]"), ("f32[4096, 8192]", "f32[8192, 4096]")),
    ),
    Case("two Jacobi steps", (jacobi, jacobi_by_loop), (("f32[M, N]",), ("f32[8192, 8192]",))),
    Case(
        "mean squared difference",
        (mean_squared_difference, mean_squared_difference_by_functions),
        MATRICES,
        kernels=2,
    ),
    Case("x / x.sum()", (over_its_sum, over_its_sum_by_einsum), MATRIX, kernels=2),
    Case(
        "A @ x and A.T @ y",
        (matrix_both_ways, matrix_both_ways_by_einsum, matrix_both_ways_by_sums),
        (("f32[M, N]", "f32[N]", "f32[M]"), ("f32[16384, 16384]", "f32[16384]", "f32[16384]")),
    ),
    Case(
        "sqrt(sum(x*x))",
        (euclidean_norm, euclidean_norm_by_einsum, euclidean_norm_by_product),
        (("f32[N~67108864]",), ("f32[67108864]",)),
        kernels=2,
    ),
)
