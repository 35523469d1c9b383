"""What the functions of ``pf.nn`` compute, from their definitions: loops over results, in float64."""

from __future__ import annotations

from itertools import product
from math import erf, exp, log, sqrt, tanh
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def conv(x: Array, w: Array, bias: Array | None, stride: Any, padding: Any, dilation: Any, groups: int = 1) -> Array:
    """One product of a window and a kernel per result; `padding` is a pair per axis."""
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    n, (o, each), window = x.shape[0], w.shape[:2], w.shape[2:]
    out = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(x.shape[2:], window, stride, dilation, strict=True)]
    y = np.zeros((n, o, *out))
    for b, c, *at in np.ndindex(*y.shape):
        first = c // (o // groups) * each
        places = [
            slice(p * s, p * s + d * (k - 1) + 1, d) for p, k, s, d in zip(at, window, stride, dilation, strict=True)
        ]
        y[(b, c, *at)] = (x[(b, slice(first, first + each), *places)] * w[c]).sum() + (0 if bias is None else bias[c])
    return y


def conv_transpose(
    x: Array, w: Array, bias: Array | None, stride: Any, padding: Any, extra: Any, dilation: Any, groups: int = 1
) -> Array:
    """Every element of `x` adds its multiple of the kernel to the result."""
    n, channels, *space = x.shape
    each, window = w.shape[1], w.shape[2:]
    full = [
        (m - 1) * s + d * (k - 1) + 1 + e for m, s, d, k, e in zip(space, stride, dilation, window, extra, strict=True)
    ]
    y = np.zeros((n, each * groups, *full))
    for b, c, *at in np.ndindex(*x.shape):
        first = c // (channels // groups) * each
        places = [
            slice(p * s, p * s + d * (k - 1) + 1, d) for p, s, d, k in zip(at, stride, dilation, window, strict=True)
        ]
        y[(b, slice(first, first + each), *places)] += x[(b, c, *at)] * w[c]
    cut = [slice(p, m - p) for p, m in zip(padding, full, strict=True)]
    y = y[(..., *cut)]
    return y if bias is None else y + bias.reshape(-1, *[1] * len(window))


def pool(x: Array, window: Any, stride: Any, padding: Any, how: str) -> Array:
    """`how`: max, mean (of all with padding), or inside (the mean of those that are not padding)."""
    out = [(m + 2 * p - k) // s + 1 for m, k, s, p in zip(x.shape[2:], window, stride, padding, strict=True)]
    y = np.zeros((*x.shape[:2], *out))
    for b, c, *at in np.ndindex(*y.shape):
        starts = [a * s - p for a, s, p in zip(at, stride, padding, strict=True)]
        ranges = [range(max(a, 0), min(a + k, m)) for a, k, m in zip(starts, window, x.shape[2:], strict=True)]
        seen = [x[(b, c, *place)] for place in product(*ranges)]
        total = len(seen) if how == "inside" else int(np.prod(window))
        y[(b, c, *at)] = max(seen) if how == "max" else sum(seen) / total
    return y


def resize(x: Array, sizes: Any, align_corners: bool) -> Array:
    """Axis by axis, element by element."""
    for axis, m in enumerate(sizes, start=2):
        n = x.shape[axis]
        rows = []
        for i in range(m):
            at = i * (n - 1) / max(m - 1, 1) if align_corners else (i + 0.5) * n / m - 0.5
            at = min(max(at, 0.0), n - 1.0)
            low = int(at)
            high = min(low + 1, n - 1)
            rows.append(x.take(low, axis) * (1 - (at - low)) + x.take(high, axis) * (at - low))
        x = np.stack(rows, axis)
    return x


def normalised(x: Array, axes: Any, eps: float) -> Array:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def cross_entropy(
    logits: Array, target: Array, weight: Array, ignored: int = -100, smoothing: float = 0.0
) -> tuple[Array, float]:
    """The losses of samples (n, classes) one by one, and the sum of the weights of those that count."""
    losses, total = [], 0.0
    for row, label in zip(logits, target, strict=True):
        if label == ignored:
            losses.append(0.0)
            continue
        log_p = row - log(sum(exp(v) for v in row))
        wanted = np.full(len(row), smoothing / len(row))
        wanted[label] += 1 - smoothing
        losses.append(-sum(q * p * w for q, p, w in zip(wanted, log_p, weight, strict=True)))
        total += weight[label]
    return np.array(losses), total


def attention(q: Array, k: Array, v: Array, seen: Array) -> Array:
    """One query at a time; `seen[i, j]`: whether query i sees key j."""
    y = np.zeros((*q.shape[:-1], v.shape[-1]))
    for *batch, i in np.ndindex(*q.shape[:-1]):
        b = tuple(batch)
        keys = [j for j in range(k.shape[-2]) if seen[i, j]]
        weights = [exp(q[(*b, i)] @ k[(*b, j)] / sqrt(q.shape[-1])) for j in keys]
        y[(*b, i)] = sum(w * v[(*b, j)] for w, j in zip(weights, keys, strict=True)) / sum(weights)
    return y


def rotary(x: Array, positions: Array, base: float, interleaved: bool) -> Array:
    """Each pair of features as a complex number times ``exp(i angle)``."""
    size = x.shape[-1]
    y = np.zeros_like(x)
    for i in range(size // 2):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + size // 2)
        turned = (x[..., a] + 1j * x[..., b]) * np.exp(1j * positions * base ** (-2 * i / size))
        y[..., a], y[..., b] = turned.real, turned.imag
    return y


def _softplus(v: float) -> float:
    return max(v, 0.0) + log(1 + exp(-abs(v)))


def _sigmoid(v: float) -> float:
    return 1 / (1 + exp(-v))


ACTIVATIONS = {
    "relu": lambda v: max(v, 0.0),
    "leaky_relu": lambda v: v if v > 0 else 0.01 * v,
    "elu": lambda v: v if v > 0 else exp(v) - 1,
    "sigmoid": _sigmoid,
    "silu": lambda v: v * _sigmoid(v),
    "softplus": _softplus,
    "gelu": lambda v: v * (1 + erf(v / sqrt(2))) / 2,
    "gelu_tanh": lambda v: v / 2 * (1 + tanh(sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
    "tanh": tanh,
    "relu6": lambda v: min(max(v, 0.0), 6.0),
    "hard_sigmoid": lambda v: 0.0 if v <= -3 else 1.0 if v >= 3 else v / 6 + 0.5,
    "hard_swish": lambda v: v * (0.0 if v <= -3 else 1.0 if v >= 3 else v / 6 + 0.5),
    "log_sigmoid": lambda v: log(_sigmoid(v)),
    "softsign": lambda v: v / (1 + abs(v)),
    "mish": lambda v: v * tanh(_softplus(v)),
    "celu": lambda v: v if v > 0 else exp(v) - 1,
    "selu": lambda v: 1.0507009873554805 * (v if v > 0 else 1.6732632423543772 * (exp(v) - 1)),
}
