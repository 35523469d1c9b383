"""Twelve programs, each in NumPy's functions, in methods and operators, in the Array API's namespace and in index
notation: one plan.

The namespace is what the array itself gives (``x.__array_namespace__()``), so that code written for any library of the
standard is traced as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyfuse as pf

i, j, k, b = pf.indices("i j k b")
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Program:
    """One computation in its spellings, and what it is given."""

    specs: tuple[str, ...]
    functions: Function
    methods: Function
    standard: Function
    indices: Function


# ---------------------------------------------------------------------------------------------- an activated layer


def layer(x, w, c):
    return np.maximum(np.add(np.matmul(x, w), c), 0)


def layer_by_methods(x, w, c):
    return (x @ w + c).clip(0, None)


def layer_by_standard(x, w, c):
    xp = x.__array_namespace__()
    return xp.maximum(xp.matmul(x, w) + c, 0)


def layer_by_indices(x, w, c):
    y = pf.empty()
    y[i, j] = pf.maximum(pf.sum(k, x[i, k] * w[k, j]) + c[j], 0)
    return y


# ---------------------------------------------------------------------------------------------- softmax


def softmax(x):
    e = np.exp(np.subtract(x, np.max(x, axis=1, keepdims=True)))
    return np.divide(e, np.sum(e, axis=1, keepdims=True))


def softmax_by_methods(x):
    e = (x - x.max(axis=-1, keepdims=True)).exp()
    return e / e.sum(axis=-1, keepdims=True)


def softmax_by_standard(x):
    xp = x.__array_namespace__()
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def softmax_by_indices(x):
    m, e, s, y = pf.empty(), pf.empty(), pf.empty(), pf.empty()
    m[i] = pf.max(j, x[i, j])
    e[i, j] = pf.exp(x[i, j] - m[i])
    s[i] = pf.sum(j, e[i, j])
    y[i, j] = e[i, j] / s[i]
    return y


# ---------------------------------------------------------------------------------------------- standardised columns


def standardised(x):
    return np.divide(np.subtract(x, np.mean(x, axis=0)), np.std(x, axis=0))


def standardised_by_methods(x):
    return (x - x.mean(0)) / x.std(0)


def standardised_by_standard(x):
    xp = x.__array_namespace__()
    return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0)


def standardised_by_indices(x):
    m, v, y = pf.empty(), pf.empty(), pf.empty()
    m[j] = pf.mean(i, x[i, j])
    v[j] = pf.mean(i, (x[i, j] - m[j]) ** 2)
    y[i, j] = (x[i, j] - m[j]) / pf.sqrt(v[j])
    return y


# ---------------------------------------------------------------------------------------------- five-point stencil


def heat(u):
    new = np.zeros_like(u)
    new[1:-1, 1:-1] = np.multiply(np.add(np.add(u[:-2, 1:-1], u[2:, 1:-1]), np.add(u[1:-1, :-2], u[1:-1, 2:])), 0.25)
    return new


def heat_by_methods(u):
    new = pf.zeros(u.shape, u.dtype)
    new[1:-1, 1:-1] = ((u[:-2, 1:-1] + u[2:, 1:-1]) + (u[1:-1, :-2] + u[1:-1, 2:])) / 4
    return new


def heat_by_standard(u):
    xp = u.__array_namespace__()
    new = xp.zeros_like(u)
    new[1:-1, 1:-1] = xp.add(u[:-2, 1:-1] + u[2:, 1:-1], u[1:-1, :-2] + u[1:-1, 2:]) / 4
    return new


def heat_by_indices(u):
    new = pf.zeros(u.shape, u.dtype)
    new[i, j] = ((u[i - 1, j] + u[i + 1, j]) + (u[i, j - 1] + u[i, j + 1])) / 4
    return new


# ---------------------------------------------------------------------------------------------- transposed sum


def symmetric(a):
    return np.multiply(np.add(a, np.transpose(a)), 0.5)


def symmetric_by_methods(a):
    return (a + a.T) / 2


def symmetric_by_standard(a):
    xp = a.__array_namespace__()
    return (a + xp.permute_dims(a, (1, 0))) / 2


def symmetric_by_indices(a):
    y = pf.empty()
    y[i, j] = (a[i, j] + a[j, i]) / 2
    return y


# ---------------------------------------------------------------------------------------------- distances of points


def distances(p, q):
    d = np.subtract(p[:, np.newaxis], q[np.newaxis])
    return np.sqrt(np.einsum("ijk,ijk->ij", d, d))


def distances_by_methods(p, q):
    return ((p[:, None, :] - q[None, :, :]) ** 2).sum(axis=-1).sqrt()


def distances_by_standard(p, q):
    xp = p.__array_namespace__()
    return xp.sqrt(xp.sum(xp.square(xp.expand_dims(p, axis=1) - xp.expand_dims(q, axis=0)), axis=-1))


def distances_by_indices(p, q):
    y = pf.empty()
    y[i, j] = pf.sqrt(pf.sum(k, (p[i, k] - q[j, k]) ** 2))
    return y


# ---------------------------------------------------------------------------------------------- prefix sums


def prefix(x):
    return np.cumsum(x)


def prefix_by_methods(x):
    return x.cumsum()


def prefix_by_standard(x):
    return x.__array_namespace__().cumulative_sum(x)


def prefix_by_indices(x):
    s = pf.zeros(x.shape, x.dtype)
    s[0] = x[0]
    s[i] = s[i - 1] + x[i]
    return s


# ---------------------------------------------------------------------------------------------- lower triangle


def triangle(a):
    return np.sum(np.tril(a), axis=1)


def triangle_by_methods(a):
    keep = np.arange(a.shape[1]) <= np.arange(a.shape[0])[:, None]
    return np.where(keep, a, 0).sum(axis=1)


def triangle_by_standard(a):
    xp = a.__array_namespace__()
    return xp.sum(xp.tril(a), axis=1)


def triangle_by_indices(a):
    y = pf.empty()
    y[i] = pf.sum(j, pf.where(j <= i, a[i, j], 0))
    return y


# ---------------------------------------------------------------------------------------------- batched products


def batched(a, c):
    return np.einsum("bik,bkj->bij", a, c)


def batched_by_methods(a, c):
    return a @ c


def batched_by_standard(a, c):
    return a.__array_namespace__().matmul(a, c)


def batched_by_indices(a, c):
    y = pf.empty()
    y[b, i, j] = pf.sum(k, a[b, i, k] * c[b, k, j])
    return y


# ---------------------------------------------------------------------------------------------- rows looked up


def lookup(table, at):
    return np.multiply(np.take(table, at, axis=0), 2)


def lookup_by_methods(table, at):
    return table[at] * 2


def lookup_by_standard(table, at):
    return table.__array_namespace__().take(table, at, axis=0) * 2


def lookup_by_indices(table, at):
    y = pf.empty()
    y[i, j] = table[at[i], j] * 2
    return y


# ---------------------------------------------------------------------------------------------- differences, reversed


def flipped(x):
    return np.absolute(np.flip(np.diff(x)))


def flipped_by_methods(x):
    return abs((x[1:] - x[:-1])[::-1])


def flipped_by_standard(x):
    xp = x.__array_namespace__()
    return xp.abs(xp.flip(xp.diff(x)))


def flipped_by_indices(x):
    n = x.shape[0]
    at = pf.indices("at", within=n - 1)
    y = pf.empty()
    y[at] = pf.absolute(x[n - 1 - at] - x[n - 2 - at])
    return y


# ---------------------------------------------------------------------------------------------- log-likelihood


def likelihood(x):
    top = np.max(x, axis=1, keepdims=True)
    total = np.sum(np.exp(np.subtract(x, top)), axis=1)
    return np.add(np.log(total), top[:, 0])


def likelihood_by_methods(x):
    top = x.max(axis=1)
    return (x - top[:, None]).exp().sum(axis=1).log() + top


def likelihood_by_standard(x):
    xp = x.__array_namespace__()
    top = xp.max(x, axis=1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axis=1)) + xp.squeeze(top, axis=1)


def likelihood_by_indices(x):
    top, y = pf.empty(), pf.empty()
    top[i] = pf.max(j, x[i, j])
    y[i] = pf.log(pf.sum(j, pf.exp(x[i, j] - top[i]))) + top[i]
    return y


PROGRAMS = {
    "layer": Program(
        ("f32[N, K]", "f32[K, M]", "f32[M]"), layer, layer_by_methods, layer_by_standard, layer_by_indices
    ),
    "softmax": Program(("f32[N, M]",), softmax, softmax_by_methods, softmax_by_standard, softmax_by_indices),
    "standardised": Program(
        ("f32[N, M]",), standardised, standardised_by_methods, standardised_by_standard, standardised_by_indices
    ),
    "heat": Program(("f32[N, M]",), heat, heat_by_methods, heat_by_standard, heat_by_indices),
    "symmetric": Program(("f32[N, N]",), symmetric, symmetric_by_methods, symmetric_by_standard, symmetric_by_indices),
    "distances": Program(
        ("f64[N, 3]", "f64[M, 3]"), distances, distances_by_methods, distances_by_standard, distances_by_indices
    ),
    "prefix": Program(("f32[N]",), prefix, prefix_by_methods, prefix_by_standard, prefix_by_indices),
    "triangle": Program(("f32[N, N]",), triangle, triangle_by_methods, triangle_by_standard, triangle_by_indices),
    "batched": Program(
        ("f32[B, N, K]", "f32[B, K, M]"), batched, batched_by_methods, batched_by_standard, batched_by_indices
    ),
    "lookup": Program(("f32[V, M]", "i64[N]"), lookup, lookup_by_methods, lookup_by_standard, lookup_by_indices),
    "flipped": Program(("f32[N]",), flipped, flipped_by_methods, flipped_by_standard, flipped_by_indices),
    "likelihood": Program(
        ("f32[N, M]",), likelihood, likelihood_by_methods, likelihood_by_standard, likelihood_by_indices
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_four_spellings_have_one_plan(name: str) -> None:
    program = PROGRAMS[name]
    specs = [pf.spec(s) for s in program.specs]
    plan = pf.jit(program.functions).plan(*specs, target="h200")
    for other in (program.methods, program.standard, program.indices):
        assert pf.jit(other).plan(*specs, target="h200") == plan, other.__name__


def test_there_are_twelve_and_they_differ() -> None:
    plans = [
        pf.jit(p.functions).plan(*map(pf.spec, p.specs), target="h200")
        for p in PROGRAMS.values()
        if p.specs == ("f32[N, M]",)
    ]
    assert len(PROGRAMS) == 12
    assert all(a != b for n, a in enumerate(plans) for b in plans[:n])
