"""The programs of `tests.schedules.spellings` as still other people write them, on odd sizes and other dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import polyfuse as pf
from tests.schedules import spellings as plain

Function = Callable[..., Any]


def chain_in_place(x, y):
    t = np.add(x, y)
    t = t * 2.0
    t = np.maximum(0.0, t)
    t -= 1
    return pf.sigmoid(t)


def softmax_of_columns_of_rows(x):
    top = np.maximum.reduce(x, axis=1)
    e = np.exp(x - np.expand_dims(top, 1))
    return e / np.add.reduce(e, axis=1).reshape(-1, 1)


def layernorm_by_sums(x, gain, bias):
    d = np.subtract(x, np.average(x, axis=-1)[..., None])
    s = np.sqrt(np.square(d).sum(-1, keepdims=True) / x.shape[-1] + 1e-5)
    return np.add(np.multiply(gain, d / s), bias)


def layernorm_by_einsum(x, gain, bias):
    d = x - (x.sum(axis=1) / x.shape[1])[:, None]
    return d / (np.einsum("ij,ij->i", d, d) / x.shape[1] + 1e-5)[:, None] ** 0.5 * gain + bias


def layernorm_by_variance(x, gain, bias):
    m = x.sum(axis=1, keepdims=True) / x.shape[1]
    return ((x - m) / (np.var(x, axis=1)[:, None] + 1e-5) ** 0.5) * gain + bias


def rmsnorm_by_powers(x, residual, weight):
    h = residual + x
    mean_square = np.power(h, 2).sum(axis=-1, keepdims=True) / h.shape[-1]
    return h, (h / (mean_square + 1e-6) ** 0.5) * weight


def rmsnorm_by_einsum(x, residual, weight):
    h = x + residual
    return h, np.multiply(h / np.sqrt(np.einsum("ij,ij->i", h, h)[:, None] / x.shape[1] + 1e-6), weight)


def log_softmax_reduced(x):
    m = x.max(1, keepdims=True)
    return (x - m) - np.log(np.add.reduce(np.exp(x - m), 1))[:, None]


def batch_norm_channels_last(x, mean, variance, gain, bias):
    y = (np.moveaxis(x, 1, -1) - mean) * (gain / np.sqrt(variance + 1e-5)) + bias
    return np.moveaxis(np.maximum(y, 0), -1, 1)


def gelu_dropout_by_einsum(x, w, bias, mask):
    t = np.einsum("ij,jk->ik", x, w) + bias
    return (0.5 * t * (1 + pf.erf(t * (1 / math.sqrt(2))))) * mask * (1 / 0.9)


def normalised_linear_transposed(x, mean, rstd, gain, w):
    return np.tensordot(((x.T - mean) * rstd).T * gain, w, 1)


def convolution_summed(x, w, mean, variance, gain, bias):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(-2, -1))
    y = (windows[:, None] * w[None, :, :, None, None]).sum((2, 5, 6))
    return plain.batch_norm_relu(y, mean, variance, gain, bias)


def jacobi_rebound(u):
    for _ in range(2):
        u = plain._relaxed(u)
    return u


def squared(x, y):
    return np.power(np.subtract(x, y), 2)


MORE: dict[str, tuple[tuple[Function, ...], tuple[str, ...]]] = {
    "five-op chain": (
        (
            chain_in_place,
            lambda x, y: (1 + np.exp(-(np.clip((y + x) * 2, 0, None) - 1))) ** -1,
            lambda x, y: np.true_divide(1.0, 1.0 + np.exp(-(np.maximum((x + y) * np.float32(2), np.float32(0)) - 1))),
        ),
        ("f32[1000, 333]", "f32[1000, 333]"),
    ),
    "relu(x) + sigmoid(y)": (
        (
            lambda x, y: np.clip(x, 0, None) + pf.sigmoid(y),
            lambda x, y: (lambda b, a: a + b)(pf.sigmoid(y), pf.relu(x)),
        ),
        ("f16[M, N]", "f16[M, N]"),
    ),
    "sin and cos of one input": ((lambda x: [f(x) for f in (np.sin, np.cos)],), ("f64[1000003]",)),
    "softmax": ((softmax_of_columns_of_rows, lambda x: pf.nn.softmax(x)), ("f16[M, N~700]",)),
    "layernorm": (
        (layernorm_by_sums, layernorm_by_einsum, layernorm_by_variance),
        ("f64[31, 77]", "f64[77]", "f64[77]"),
    ),
    "residual + rmsnorm": (
        (rmsnorm_by_powers, rmsnorm_by_einsum),
        ("f32[8, 32768]", "f32[8, 32768]", "f32[32768]"),
    ),
    "log-softmax": ((log_softmax_reduced,), ("f32[128, 50257]",)),
    "batch norm + relu": ((batch_norm_channels_last,), ("f16[8, 3, 56, 56]", *["f16[3]"] * 4)),
    "relu(x @ w + b)": (
        (
            lambda x, w, b: np.maximum(np.dot(x, w) + b, 0),
            lambda x, w, b: pf.relu(np.tensordot(x, w, axes=1) + b),
            lambda x, w, b: pf.relu((w.T @ x.T).T + b),
            lambda x, w, b: pf.relu(np.inner(x, w.T) + b),
            lambda x, w, b: pf.relu(np.einsum("kn,mk->mn", w, x) + b[None, :]),
        ),
        ("f32[1000, 300]", "f32[300, 77]", "f32[77]"),
    ),
    "matmul + bias + gelu + dropout mask": (
        (gelu_dropout_by_einsum,),
        ("f32[100, 200]", "f32[200, 300]", "f32[300]", "f32[100, 300]"),
    ),
    "normalisation on load of a matmul": (
        (normalised_linear_transposed,),
        ("f16[512, 256]", "f32[512]", "f32[512]", "f16[256]", "f16[256, 512]"),
    ),
    "conv2d + batch norm + relu": (
        (convolution_summed,),
        ("f32[4, 16, 34, 34]", "f32[32, 16, 3, 3]", *["f32[32]"] * 4),
    ),
    "x[::2] + y": (
        (
            lambda x, y: x[::-1][1::2][::-1] + y,
            lambda x, y: x[np.arange(0, x.shape[0], 2)] + y,
            lambda x, y: x.T[:, ::2].T + y,
        ),
        ("i32[64, 63]", "i32[32, 63]"),
    ),
    "x[idx] + y": (
        (lambda x, i, y: x.take(i, 0) + y, lambda x, i, y: y + x[i, ...]),
        ("f16[9, 64]", "i32[300]", "f16[300, 64]"),
    ),
    "float16 -> float32 in a chain": (
        (lambda x, y: np.exp((x + x).astype("float32") + y) * 3, lambda x, y: np.exp(x * 2 + y) * 3),
        ("f16[1000, 77]", "f32[1000, 77]"),
    ),
    "reshape, transpose, broadcast": (
        (
            lambda x, b: np.einsum("ijk->ikj", x.reshape(-1, 64, 64)) * 2 + b.reshape(64, 1),
            lambda x, b: np.moveaxis(x.reshape(-1, 64, 64), 2, 1) * 2 + np.broadcast_to(b[:, None], (64, 64)),
            lambda x, b: np.transpose(2 * x.reshape((x.shape[0], 64, 64)) + b, (0, 2, 1)),
        ),
        ("f32[100, 4096]", "f32[64]"),
    ),
    "where with two branches": (
        (
            lambda x, y: np.where(np.greater(x, 0), np.exp(x), y + y),
            lambda x, y: np.select([x > 0], [np.exp(x)], y * 2),
        ),
        ("f64[77]", "f64[77]"),
    ),
    "concatenate then gelu": (
        (lambda x, y: pf.gelu(np.column_stack([x, y])), lambda x, y: pf.gelu(np.concatenate((x, y), -1))),
        ("f16[512, 512]", "f16[512, 250]"),
    ),
    "x + y.T": (
        (lambda x, y: np.moveaxis(y, 0, 1) + x, lambda x, y: (x.T + y).T, lambda x, y: x + np.permute_dims(y, (1, 0))),
        ("u8[1000, 700]", "u8[700, 1000]"),
    ),
    "two Jacobi steps": ((jacobi_rebound,), ("f64[300, 301]",)),
    "mean squared difference": (
        (
            lambda x, y: np.mean(squared(x, y)),
            lambda x, y: squared(x, y).sum() / x.size,
            lambda x, y: np.average(squared(x, y)),
        ),
        ("f64[N]", "f64[N]"),
    ),
    "x / x.sum()": (
        (lambda x: x / np.add.reduce(x, axis=None), lambda x: x / np.sum(x, keepdims=True)),
        ("f64[100, 7]",),
    ),
    "A @ x and A.T @ y": (
        (
            lambda a, x, y: (np.dot(a, x), np.dot(y, a)),
            lambda a, x, y: (lambda b: (a @ x, b))(y @ a),
            lambda a, x, y: (np.inner(a, x), np.vecdot(a.T, y)),
            lambda a, x, y: ((a @ x[:, None])[:, 0], (y[None] @ a)[0]),
        ),
        ("f64[2048, 1000]", "f64[1000]", "f64[2048]"),
    ),
    "sqrt(sum(x*x))": (
        (
            lambda x: np.linalg.norm(x),
            lambda x: (x**2).sum() ** 0.5,
            lambda x: np.sqrt(np.vdot(x, x)),
            lambda x: np.sqrt(np.inner(x, x)),
        ),
        ("f32[1000003]",),
    ),
}
