"""Programs for each strategy, random arrays for them, and what NumPy computes in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import polyfuse as pf

Array = np.ndarray[Any, Any]
Random = np.random.Generator

FLOATS = ("f2", "bf16", "f4", "f8")
INTEGERS = ("i1", "u1", "i4", "i8")
EXTENTS = (0, 1, 1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 100, 127)
"""Sizes at and around the widths of vectors, warps and tiles."""


@dataclass(frozen=True)
class Example:
    """`function` of arrays with the shapes that `shapes` makes of a few extents.

    `strategy`: asked for at the `typical` extents, which are too small for the price to choose it, for the kernel that
    computes `value` (by default the first output).  `dtypes`: of all arrays, but the ones named in `fixed` by position.
    `least`, `largest`: of random extents.
    """

    name: str
    strategy: str
    function: Callable[..., Any]
    shapes: Callable[..., Sequence[tuple[int, ...]]]
    typical: tuple[int, ...]
    dtypes: tuple[str, ...] = FLOATS
    fixed: tuple[tuple[int, str], ...] = ()
    least: int = 0
    largest: int = 127
    value: str = ""

    def extents(self, random: Random) -> tuple[int, ...]:
        """Random arguments for `shapes`: mostly small, one of them larger now and then."""
        allowed = [n for n in EXTENTS if self.least <= n <= self.largest]
        found = [int(random.choice(allowed)) for _ in self.typical]
        if random.random() < 0.25 and self.largest == 127:
            found[random.integers(len(found))] = int(random.integers(200, 3000))
        return tuple(found)

    def arrays(self, random: Random, extents: Sequence[int], dtype: str, layout: str = "") -> list[Array]:
        fixed = dict(self.fixed)
        found = []
        for k, shape in enumerate(self.shapes(*extents)):
            name = fixed.get(k, dtype)
            values = _values(random, shape, name)
            found.append(laid_out(values, layout or str(random.choice(LAYOUTS))))
        return found


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if name == "bf16" else np.dtype(name)


def _values(random: Random, shape: Sequence[int], name: str) -> Array:
    if name.startswith("index"):
        limit = max(1, int(name.removeprefix("index")))
        return random.integers(-limit, limit, shape)
    dtype = numpy_dtype(name)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    return random.uniform(-2, 2, shape).astype(dtype)


LAYOUTS = ("plain", "plain", "transposed", "strided", "reversed", "offset", "unaligned")


def laid_out(values: Array, layout: str) -> Array:
    """Equal values in other memory."""
    if not values.ndim or layout == "plain":
        return values
    match layout:
        case "transposed":
            return np.ascontiguousarray(values.T).T
        case "strided":
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            wide[..., ::2] = values
            return wide[..., ::2]
        case "reversed":
            return np.ascontiguousarray(values[..., ::-1])[..., ::-1]
        case "offset" | "unaligned":
            skip = values.itemsize if layout == "offset" else 1
            memory = np.zeros(values.nbytes + skip, np.uint8)
            view = memory[skip:].view(values.dtype).reshape(values.shape)
            view[...] = values
            return view
    raise AssertionError(layout)


def expected(function: Callable[..., Any], arrays: Sequence[Array]) -> list[Array]:
    """NumPy's results with floats widened to float64."""
    wide = [a.astype(np.float64) if a.dtype.kind not in "biu" else a for a in arrays]
    with np.errstate(all="ignore"):
        found = function(*wide)
    return [np.asarray(f) for f in (found if isinstance(found, tuple) else (found,))]


TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-11}


def assert_close(got: Any, wanted: Sequence[Array], narrowest: str) -> None:
    """Equal integers; floats within the rounding of the narrowest dtype involved, relative to the largest value."""
    results = list(got) if isinstance(got, tuple) else [got]
    assert len(results) == len(wanted)
    for result, reference in zip(results, wanted, strict=True):
        result = np.asarray(result)
        assert result.shape == reference.shape
        if result.dtype.kind in "biu":
            np.testing.assert_array_equal(result, reference)
            continue
        tolerance = max(TOLERANCE[narrowest], TOLERANCE[result.dtype.name]) if narrowest in TOLERANCE else 2e-5
        scale = np.max(np.abs(reference), initial=1.0, where=np.isfinite(reference))
        np.testing.assert_allclose(result.astype(np.float64), reference, rtol=tolerance, atol=tolerance * scale)


# ---------------------------------------------------------------------------------------------- programs


def polynomial(x, y):
    return np.maximum((x + y) * 2, 0) - x * y


def several_results(x, bias):
    t = x * 2 + bias
    return t, np.where(t > 0, t, bias), t.astype(np.float32)


def mixed_integers(x, mask):
    return np.where(mask, x // 3, x % 5) + abs(x)


def broadcast_sum(x, y):
    return x[:, None, :] + y[None, :, None]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def normalised(x, gain):
    c = x - x.mean(axis=-1, keepdims=True)
    return c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + 1) * gain


def row_positions(x):
    return x.argmax(axis=-1), x.argmin(axis=-1), x.max(axis=-1)


def row_integers(x):
    return x.sum(axis=1), x.min(axis=1), (x > 2).any(axis=1), (x > 2).sum(axis=1)


def column_statistics(x):
    return x.sum(axis=0), (x * x).mean(axis=0)


def standardised_columns(x):
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1)


def column_positions(x):
    return x.argmax(axis=0), x.max(axis=0)


def middle_sum(x):
    return np.exp(x).sum(axis=1)


def both_sums(x):
    return x.sum(axis=0), x.sum(axis=1)


def outer_sum(x):
    return (x * 2).sum(axis=(0, 2))


def pooled(x):
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2)).max(axis=(3, 4))


def pooled_apart(x):
    return np.lib.stride_tricks.sliding_window_view(x, (2, 3), (0, 1))[::2, ::3].sum(axis=(2, 3)) * 0.5


def directions(p):
    lengths = np.sqrt((p * p).sum(axis=1, keepdims=True) + 1)
    return p / lengths, lengths


def plus_transposed(x, y):
    return x + y.T


def permuted(x):
    return np.transpose(x, (2, 0, 1)) * 2 + 1


def two_relaxations(u):
    for _ in range(2):
        v = u.copy()
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = v
    return u


def heat(u):
    centre = u[1:-1, 1:-1, 1:-1]
    near = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
    return centre + 0.125 * (near + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2])


def differences(x):
    return x[1:] - x[:-1]


def mirrored(x):
    return x[:, ::-1] + x


def pairs(x):
    return x[:, ::2] * x[:, 1::2]


def smoothed_twice(x):
    y = x[:-2] + x[1:-1] + x[2:]
    return y[:-2] + y[1:-1] + y[2:]


def linear_relu(x, w, bias):
    return np.maximum(x @ w + bias, 0)


def transposed_product(x, y):
    return np.einsum("ki,kj->ij", x, y)


def batched_product(x, y):
    return x @ y


def matrix_vector(a, x):
    return a @ x


def convolution(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def running_sums(x):
    return np.cumsum(x, axis=-1)


def running_column_sums(x):
    sums = np.cumsum(x, axis=0)
    return sums * 2


def running_from_the_end(x):
    return np.flip(np.cumsum(np.flip(x, -1), -1), -1) - x


def running_maximum(x):
    return np.maximum.accumulate(x, axis=1)


def rows_by_index(table, index, y):
    return table[index] + y


def picked(x, index):
    return np.take_along_axis(x, index, 1) * 2


def joined(x, y):
    return np.concatenate([x, y * 2], axis=1) + 1


def padded(x):
    return np.pad(x, ((1, 2), (0, 3)), constant_values=1.5) * 2


def rolled(x):
    return np.roll(x, 3, axis=1) - x


def interleaved(x, y):
    return np.stack([x, y], axis=-1).reshape(x.shape[0], -1)


def updated(x, y):
    z = x.copy()
    z[::2] = y[::2] * 3
    return z


def every_other(x, y):
    return x[::2] + y, x[::-1][:1]


def whole_sum(x):
    return x.sum()


def mean_squared(x, y):
    return np.mean((x - y) ** 2)


def whole_extremes(x):
    return x.max(), x.min()


def tall_column_sums(x):
    return np.abs(x).sum(axis=0)


def over_its_sum(x):
    return x / np.abs(x).sum()


def odd_contraction(x, y):
    return np.einsum("ijk,kji->k", x, y)


def activations(x, y):
    return pf.sigmoid(x) * np.tanh(y) + pf.gelu(x)


def distances(a, b):
    return ((a[:, None] - b[None]) ** 2).sum(axis=-1)


def nearest(a, b):
    d = np.abs(a[:, None] - b[None]).sum(axis=-1)
    return d.argmin(axis=1), d.min(axis=1)


def densities(a, b):
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=-1)).sum(axis=1)


def forces(p):
    d = p[None] - p[:, None]
    q = (d * d).sum(axis=-1) + 0.125
    return (d / (q * np.sqrt(q))[..., None]).sum(axis=1)


def quadratic_forms(x, a):
    return ((x @ a) * x).sum(axis=-1)


EXAMPLES = (
    Example("polynomial", "pointwise", polynomial, lambda m, n: [(m, n)] * 2, (64, 128), FLOATS + INTEGERS),
    Example("several results", "pointwise", several_results, lambda m, n: [(m, n), (n,)], (64, 128)),
    Example(
        "masked integers", "pointwise", mixed_integers, lambda m, n: [(m, n)] * 2, (64, 128), INTEGERS, ((1, "?"),)
    ),
    Example("broadcast", "pointwise", broadcast_sum, lambda m, n, k: [(m, n), (k,)], (8, 16, 9), largest=16),
    Example("pooled", "in_thread", pooled, lambda m, n: [(2, m, n)], (64, 64), FLOATS + INTEGERS, least=3),
    Example("pooled with strides", "in_thread", pooled_apart, lambda m, n: [(m, n)], (64, 64), least=3, largest=64),
    Example("directions", "in_thread", directions, lambda n: [(n, 3)], (500,), least=1, value="lengths"),
    Example("distances", "pairs", distances, lambda m, n: [(m, 5), (n, 5)], (64, 96), FLOATS + INTEGERS),
    Example("nearest", "pairs", nearest, lambda m, n: [(m, 4), (n, 4)], (64, 96), least=1),
    Example("densities", "pairs", densities, lambda m, n: [(m, 3), (n, 3)], (64, 96)),
    Example("forces", "pairs", forces, lambda n: [(n, 3)], (96,), ("f4", "f8"), least=1),
    Example("quadratic forms", "row_tiles", quadratic_forms, lambda m, k: [(m, k), (k, k)], (64, 32), largest=100),
    Example("softmax", "rows", softmax, lambda m, n: [(m, n)], (8, 512), least=1),
    Example("normalised", "rows", normalised, lambda m, n: [(m, n), (n,)], (8, 512), least=1),
    Example("row positions", "rows", row_positions, lambda m, n: [(m, n)], (8, 512), FLOATS + INTEGERS, least=1),
    Example("row integers", "rows", row_integers, lambda m, n: [(m, n)], (8, 512), INTEGERS, least=1),
    Example("column statistics", "columns", column_statistics, lambda m, n: [(m, n)], (512, 64), least=1),
    Example("standardised columns", "columns", standardised_columns, lambda m, n: [(m, n)], (512, 64), least=1),
    Example("column positions", "columns", column_positions, lambda m, n: [(m, n)], (512, 64), least=1),
    Example("middle sum", "columns", middle_sum, lambda m, n, k: [(m, n, k)], (4, 64, 32), largest=33),
    Example("outer sum", "rows", outer_sum, lambda m, n, k: [(m, n, k)], (4, 64, 32), FLOATS + INTEGERS, largest=33),
    Example("both sums", "rows", both_sums, lambda m, n: [(m, n)], (256, 256), FLOATS + INTEGERS),
    Example("plus transposed", "tiles", plus_transposed, lambda m, n: [(m, n), (n, m)], (512, 512), FLOATS + INTEGERS),
    Example("permuted", "tiles", permuted, lambda m, n, k: [(m, n, k)], (64, 64, 64), largest=33),
    Example("two relaxations", "stencil", two_relaxations, lambda m, n: [(m, n)], (256, 256), least=2),
    Example("two relaxations", "windows", two_relaxations, lambda m, n: [(m, n)], (256, 256), least=5),
    Example("heat", "windows", heat, lambda m, n, k: [(m, n, k)], (16, 32, 64), least=3, largest=40),
    Example("differences", "windows", differences, lambda n: [(n,)], (4096,), FLOATS + INTEGERS, least=2),
    Example("mirrored", "windows", mirrored, lambda m, n: [(m, n)], (64, 256), FLOATS + INTEGERS),
    Example("pairs", "windows", pairs, lambda m, n: [(m, 2 * n)], (64, 256), FLOATS + INTEGERS, largest=64),
    Example("smoothed twice", "pointwise", smoothed_twice, lambda n: [(n,)], (512,), least=7),
    Example(
        "linear + relu", "contraction", linear_relu, lambda m, n, k: [(m, k), (k, n), (n,)], (64, 64, 64), largest=100
    ),
    Example(
        "transposed product", "contraction", transposed_product, lambda m, n, k: [(k, m), (k, n)], (64, 64, 64),
        FLOATS + INTEGERS, largest=100,
    ),
    Example(
        "batched product", "contraction", batched_product, lambda b, m, n, k: [(b, m, k), (b, k, n)], (2, 32, 32, 32),
        largest=33,
    ),
    Example("matrix @ vector", "rows", matrix_vector, lambda m, n: [(m, n), (n,)], (256, 512), FLOATS + INTEGERS),
    Example(
        "convolution", "contraction", convolution, lambda c, o, h, w: [(2, c, h + 2, w + 2), (o, c, 3, 3)],
        (16, 16, 16, 16), least=1, largest=16,
    ),
    Example("running sums", "rows", running_sums, lambda m, n: [(m, n)], (8, 512), FLOATS + INTEGERS),
    Example(
        "running column sums", "columns", running_column_sums, lambda m, n: [(m, n)], (64, 64), FLOATS + INTEGERS,
        value="sums",
    ),
    Example("running from the end", "pointwise", running_from_the_end, lambda m, n: [(m, n)], (8, 512)),
    Example("running maximum", "rows", running_maximum, lambda m, n: [(m, n)], (8, 512), FLOATS + INTEGERS),
    Example(
        "rows by index", "pointwise", rows_by_index, lambda m, n: [(50, n), (m,), (m, n)], (64, 64),
        FLOATS + INTEGERS, ((1, "index50"),),
    ),
    Example(
        "picked along an axis", "pointwise", picked, lambda m, n: [(m, 20), (m, n)], (64, 64), FLOATS + INTEGERS,
        ((1, "index20"),),
    ),
    Example("joined", "pointwise", joined, lambda m, n, k: [(m, n), (m, k)], (64, 32, 31), FLOATS + INTEGERS),
    Example("padded", "pointwise", padded, lambda m, n: [(m, n)], (64, 64)),
    Example("rolled", "pointwise", rolled, lambda m, n: [(m, n)], (64, 64), FLOATS + INTEGERS, least=3),
    Example("interleaved", "pointwise", interleaved, lambda m, n: [(m, n)] * 2, (64, 64), FLOATS + INTEGERS, least=1),
    Example("updated rows", "pointwise", updated, lambda m, n: [(m, n)] * 2, (64, 64), FLOATS + INTEGERS),
    Example("every other", "pointwise", every_other, lambda m, n: [(2 * m, n), (m, n)], (64, 64), FLOATS + INTEGERS),
    Example("activations", "pointwise", activations, lambda m, n: [(m, n)] * 2, (64, 64)),
    Example("whole sum", "rows", whole_sum, lambda m, n: [(m, n)], (700, 300), FLOATS + INTEGERS),
    Example("mean squared", "rows", mean_squared, lambda m, n: [(m, n)] * 2, (700, 300), least=1),
    Example("whole extremes", "rows", whole_extremes, lambda m, n: [(m, n)], (700, 300), FLOATS + INTEGERS, least=1),
    Example("tall column sums", "columns", tall_column_sums, lambda m, n: [(m, n)], (70_000, 3), FLOATS + INTEGERS),
    Example("over its sum", "pointwise", over_its_sum, lambda m, n: [(m, n)], (700, 300), least=1),
    Example("odd contraction", "rows", odd_contraction, lambda m, n, k: [(m, n, k), (k, n, m)], (9, 8, 30), largest=16),
)
