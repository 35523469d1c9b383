"""The benchmark programs: one definition each in NumPy's words, and its inputs.

A definition takes the namespace that it computes with (`numpy` under `polyfuse.jit`, `jax.numpy`, `cupy`, or torch
through `benchmarks.peers`), then its arrays.  Sizes and families are those of which published figures of other
compilers exist; `HELD_OUT` has neighbours of them that no constant of the price was fitted on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

Array = Any
Namespace = Any


@dataclass(frozen=True, slots=True)
class Input:
    """An array to draw: standard normal floats, or integers below `below`."""

    shape: tuple[int, ...]
    dtype: str = "f32"
    below: int = 0
    positive: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """`code(namespace, *arrays)`; `tolerance` is relative to the largest magnitude of a result; `options`: of `jit`."""

    name: str
    code: Callable[..., Any]
    inputs: tuple[Input, ...]
    tolerance: float = 1e-5
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def specs(self) -> list[str]:
        """Each input as a polyfuse spec."""
        return [f"{i.dtype}[{', '.join(map(str, i.shape))}]" for i in self.inputs]


# ---------------------------------------------------------------------------------------------- definitions


def chain(xp: Namespace, x: Array, y: Array) -> Array:
    return 1 / (1 + xp.exp(-(xp.maximum((x + y) * 2, 0) - 1)))


def gelu(xp: Namespace, x: Array) -> Array:
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu_mask_residual(xp: Namespace, x: Array, bias: Array, mask: Array, residual: Array) -> Array:
    return gelu(xp, x + bias) * mask * 1.25 + residual


def silu_times(xp: Namespace, a: Array, b: Array) -> Array:
    return a / (1 + xp.exp(-a)) * b


def sine_and_cosine(xp: Namespace, x: Array) -> tuple[Array, Array]:
    return xp.sin(x), xp.cos(x)


def mean_square_difference(xp: Namespace, a: Array, b: Array) -> Array:
    return ((a - b) ** 2).mean()


def column_sum(xp: Namespace, x: Array) -> Array:
    return x.sum(axis=0)


def everything(xp: Namespace, x: Array) -> Array:
    return x.sum()


def row_dot(xp: Namespace, x: Array, y: Array) -> Array:
    return (x * y).sum(axis=1)


def logsumexp(xp: Namespace, x: Array) -> Array:
    top = xp.max(x, axis=1, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axis=1)) + top[:, 0]


def softmax(xp: Namespace, x: Array) -> Array:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def row_sum(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=-1)


def layernorm(xp: Namespace, x: Array, gain: Array, bias: Array) -> Array:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + 1e-5) * gain + bias


def residual_rmsnorm(xp: Namespace, x: Array, residual: Array, gain: Array) -> tuple[Array, Array]:
    h = x + residual
    return h, h / xp.sqrt(xp.mean(h * h, axis=-1, keepdims=True) + 1e-6) * gain


def cross_entropy(xp: Namespace, logits: Array, target: Array) -> Array:
    picked = xp.take_along_axis(logits, target[:, None], axis=1)[:, 0]
    return logsumexp(xp, logits) - picked


def standardise(xp: Namespace, x: Array) -> Array:
    centred = x - xp.mean(x, axis=0)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=0))


def batchnorm_relu(xp: Namespace, x: Array, mean: Array, variance: Array, gain: Array, bias: Array) -> Array:
    scale = gain / xp.sqrt(variance + 1e-5)
    return xp.maximum((x - mean[:, None]) * scale[:, None] + bias[:, None], 0)


def transposed_add(xp: Namespace, x: Array, y: Array) -> Array:
    return x + y.T


def concatenate_gelu(xp: Namespace, a: Array, b: Array) -> Array:
    return gelu(xp, xp.concatenate((a, b), axis=1))


def strided_add(xp: Namespace, x: Array, y: Array) -> Array:
    return x[::2] + y


def rotary(xp: Namespace, x: Array, cosine: Array, sine: Array) -> Array:
    half = x.shape[-1] // 2
    low, high, c, s = x[..., :half], x[..., half:], cosine[:, None, :], sine[:, None, :]
    return xp.concatenate((low * c - high * s, high * c + low * s), axis=-1)


def jacobi(xp: Namespace, a: Array) -> Array:
    return 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def two_jacobi_steps(xp: Namespace, a: Array) -> Array:
    return jacobi(xp, jacobi(xp, a))


def normal_equations(xp: Namespace, a: Array, x: Array) -> Array:
    return a.T @ (a @ x)


def bicg(xp: Namespace, a: Array, p: Array, r: Array) -> tuple[Array, Array]:
    return a @ p, a.T @ r


# ---------------------------------------------------------------------------------------------- the table


def matrix(rows: int, columns: int, dtype: str = "f32") -> Input:
    return Input((rows, columns), dtype)


def vector(length: int, dtype: str = "f32") -> Input:
    return Input((length,), dtype)


PROGRAMS: tuple[Program, ...] = (
    Program("chain", chain, (matrix(16384, 16384),) * 2),
    Program("chain bf16", chain, (matrix(16384, 16384, "bf16"),) * 2, 8e-3),
    Program(
        "gelu mask residual bf16",
        gelu_mask_residual,
        (matrix(16384, 8192, "bf16"), vector(8192, "bf16"), *(matrix(16384, 8192, "bf16"),) * 2),
        8e-3,
    ),
    Program("silu(a) * b bf16", silu_times, (matrix(16384, 11264, "bf16"),) * 2, 8e-3),
    Program("sin, cos", sine_and_cosine, (matrix(16384, 16384),)),
    Program("mean square difference", mean_square_difference, (matrix(16384, 16384),) * 2),
    Program("column sum", column_sum, (matrix(16384, 16384),), 1e-4),
    Program("row dot", row_dot, (matrix(16384, 16384),) * 2, 1e-4),
    Program("logsumexp", logsumexp, (matrix(16384, 16384),)),
    Program("softmax", softmax, (matrix(16384, 4096),)),
    Program("softmax bf16", softmax, (matrix(16384, 4096, "bf16"),), 8e-3),
    Program("softmax long", softmax, (matrix(4096, 32768),)),
    Program("softmax longest", softmax, (matrix(512, 262144),)),
    Program("layernorm", layernorm, (matrix(16384, 4096), vector(4096), vector(4096))),
    Program(
        "residual rmsnorm bf16",
        residual_rmsnorm,
        (matrix(16384, 4096, "bf16"), matrix(16384, 4096, "bf16"), vector(4096, "bf16")),
        8e-3,
    ),
    Program("cross-entropy", cross_entropy, (matrix(8192, 32000), Input((8192,), "i64", below=32000))),
    Program("standardise axis 0", standardise, (matrix(16384, 8192),)),
    Program(
        "batchnorm relu",
        batchnorm_relu,
        (Input((128, 256, 4096)), vector(256), Input((256,), positive=True), vector(256), vector(256)),
    ),
    Program("x + y.T", transposed_add, (matrix(8192, 8192),) * 2),
    Program("concatenate gelu", concatenate_gelu, (matrix(8192, 4096), matrix(8192, 8192))),
    Program("x[::2] + y", strided_add, (matrix(32768, 8192), matrix(16384, 8192))),
    Program(
        "rotary bf16",
        rotary,
        (Input((4, 4096, 32, 128), "bf16"), matrix(4096, 64, "bf16"), matrix(4096, 64, "bf16")),
        8e-3,
    ),
    Program("two Jacobi steps", two_jacobi_steps, (matrix(8192, 8192),)),
    Program("A^T (A x)", normal_equations, (matrix(16384, 16384), vector(16384)), 1e-4),
    Program("A p, A^T r", bicg, (matrix(16384, 16384), vector(16384), vector(16384)), 1e-4),
)


# ------------------------------------------------------------------------------- programs that nothing was fitted on


def weighted_row_norm(xp: Namespace, x: Array, w: Array) -> Array:
    return xp.sqrt(xp.sum(x * x * w, axis=1))


def middle_softmax(xp: Namespace, x: Array) -> Array:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def group_normalised(xp: Namespace, x: Array) -> Array:
    centred = x - xp.mean(x, axis=(2, 3), keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=(2, 3), keepdims=True) + 1e-5)


def three_outputs(xp: Namespace, x: Array, y: Array) -> tuple[Array, Array, Array]:
    s = x + y
    return s * s, xp.sum(s, axis=1), xp.max(s, axis=1)


def permuted_scale(xp: Namespace, x: Array, s: Array) -> Array:
    return x.swapaxes(0, 2) * s


def blur(xp: Namespace, a: Array) -> Array:
    rows = (a[:-2] + 2 * a[1:-1] + a[2:]) * 0.25
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) * 0.25


def heat(xp: Namespace, u: Array) -> Array:
    c = u[1:-1, 1:-1, 1:-1]
    near = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
    return c + 0.1 * (near + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6 * c)


def covariance_diagonal(xp: Namespace, x: Array, y: Array) -> Array:
    return ((x - xp.mean(x, axis=0)) * (y - xp.mean(y, axis=0))).sum(axis=0)


def reversed_difference(xp: Namespace, x: Array) -> Array:
    return xp.flip(x, (1,)) - x


def tiny(xp: Namespace, x: Array) -> Array:
    return softmax(xp, x * 0.125)


HELD_OUT: tuple[Program, ...] = (
    Program("odd chain", chain, (matrix(16383, 16381),) * 2),
    Program("odd softmax", softmax, (matrix(16385, 4093),)),
    Program("short rows softmax", softmax, (matrix(1 << 21, 37),)),
    Program(
        "weighted row norm bf16",
        weighted_row_norm,
        (matrix(30000, 5003, "bf16"), Input((5003,), "bf16", positive=True)),
        8e-3,
    ),
    Program("softmax over a middle axis", middle_softmax, (Input((512, 250, 1000)),)),
    Program("group normalisation", group_normalised, (Input((64, 192, 96, 100)),)),
    Program("square, row sum and row maximum", three_outputs, (matrix(20000, 6001),) * 2, 1e-4),
    Program("permuted scale", permuted_scale, (Input((300, 511, 700)), Input((300,)))),
    Program("separable blur", blur, (matrix(12001, 9999),)),
    Program("heat in three dimensions", heat, (Input((420, 510, 610)),)),
    Program("covariance of columns", covariance_diagonal, (matrix(30000, 3001),) * 2, 1e-3),
    Program("reversed difference f16", reversed_difference, (matrix(20001, 8191, "f16"),), 2e-3),
    Program("tiny softmax", tiny, (matrix(64, 50),)),
)

SEED = 20261122
SMALLEST = 64  # extent that is drawn


def drawn(program: Program, seed: int = SEED) -> Program:
    """`program` at sizes between 0.7 and 1.4 times its own, each drawn once wherever it occurs."""
    draw = random.Random(f"{program.name} {seed}")
    extents = dict.fromkeys(n for i in program.inputs for n in i.shape if n >= SMALLEST)
    sizes = {n: round(n * math.exp(draw.uniform(math.log(0.7), math.log(1.4)))) for n in extents}
    inputs = tuple(replace(i, shape=tuple(sizes.get(n, n) for n in i.shape)) for i in program.inputs)
    return replace(program, name=f"{program.name}, drawn", inputs=inputs)


DRAWN: tuple[Program, ...] = tuple(drawn(program) for program in HELD_OUT if program.code is not tiny)
"""Predicted before they ran: see tests/schedules/benchmark_plans.txt and its history."""

HOST: tuple[Program, ...] = (
    Program("chain 32", chain, (matrix(32, 32),) * 2),
    Program("chain 1024", chain, (matrix(1024, 1024),) * 2),
    Program("softmax 64 x 50", tiny, (matrix(64, 50),)),
    Program("layernorm 128 x 768", layernorm, (matrix(128, 768), vector(768), vector(768))),
)
"""Programs so small that a call costs the host more than the device."""

MERGED = (("atomics", True), ("tiles", {"sum": {"atomic": 1}}))
ATOMICS: tuple[Program, ...] = tuple(
    Program(f"{name}{suffix}", code, (matrix(*shape),), 1e-4, options)
    for name, code, shape in (
        ("column sum", column_sum, (16384, 16384)),
        ("column sum 1000000 x 64", column_sum, (1000000, 64)),
        ("sum of everything", everything, (16384, 16384)),
    )
    for suffix, options in (("", ()), (" (atomics)", MERGED))
)
"""Sums whose blocks meet in memory, beside those that the last block finishes: no part of any other table, for their
results need not have the same bits twice."""

SHORT_ROWS, MIDDLE_ROWS = (10, 37, 50, 66, 101, 130, 200), (300, 301, 515, 1030, 1100)
LONG_ROWS = (1540, 2050, 2051, 3001, 5002, 5004, 10004)


def rows_of(length: int, dtype: str = "f32") -> Input:
    """268 MB."""
    return matrix(268_000_000 // (length * (2 if dtype == "bf16" else 4)), length, dtype)


LENGTHS: tuple[Program, ...] = (
    *(Program(f"softmax of {n}", softmax, (rows_of(n),)) for n in (*SHORT_ROWS, *MIDDLE_ROWS, *LONG_ROWS)),
    *(
        Program(f"softmax of {n} bf16", softmax, (rows_of(n, "bf16"),), 8e-3)
        for n in (66, 101, 300, 1100, 2051, 5004)
    ),
    *(Program(f"sums of {n}", row_sum, (rows_of(n),)) for n in (101, 300, 1100, 2051)),
    *(Program(f"layernorm of {n}", layernorm, (rows_of(n), vector(n), vector(n))) for n in (300, 1100, 2051)),
)
"""Rows of lengths that are no model's."""
