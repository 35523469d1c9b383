"""Programs of other families and sizes than the table's: rows, columns, pixels and matrices that fit no vector.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import (
    Array,
    Input,
    Namespace,
    Program,
    column_sum,
    layernorm,
    matrix,
    row_sum,
    rows_of,
    softmax,
    vector,
    weighted_row_norm,
)

SHORT = 8e-3  # relative error of results of 16 bits


def normalised(xp: Namespace, x: Array) -> Array:
    return x / xp.sqrt(xp.sum(x * x, axis=-1, keepdims=True) + 1e-12)


def softmax_backward(xp: Namespace, y: Array, g: Array) -> Array:
    return y * (g - xp.sum(y * g, axis=-1, keepdims=True))


def bias_relu(xp: Namespace, x: Array, bias: Array) -> Array:
    return xp.maximum(x + bias, 0)


def bias_mask_residual(xp: Namespace, x: Array, bias: Array, mask: Array, residual: Array) -> Array:
    return (x + bias) * mask * 1.25 + residual


def neighbours(xp: Namespace, x: Array) -> Array:
    return x[:, 1:] - x[:, :-1]


def turned(xp: Namespace, x: Array) -> Array:
    return xp.swapaxes(x, 1, 2) * 2


def channels(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=1)


def planes(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=(0, 2))


def weighted_colours(xp: Namespace, x: Array, w: Array) -> Array:
    return xp.sum(x * w, axis=-1)


def everything(xp: Namespace, x: Array) -> Array:
    return x.sum()


def prefix(xp: Namespace, x: Array) -> Array:
    return xp.cumsum(x, -1)


def rows_of_a_table(xp: Namespace, table: Array, index: Array) -> Array:
    return table[index] * 2


def product(xp: Namespace, x: Array, w: Array) -> Array:
    return x @ w


def dense(xp: Namespace, x: Array, w: Array, bias: Array) -> Array:
    return xp.maximum(x @ w + bias, 0)


def box(xp: Namespace, a: Array) -> Array:
    m, n = a.shape
    return sum(a[i : m - 4 + i, j : n - 4 + j] for i in range(5) for j in range(5)) / 25


def halves(n: int) -> tuple[Input, Input]:
    """Rows of 16-bit elements, 268 MB, and one row."""
    return rows_of(n, "bf16"), vector(n, "bf16")


POSITIVE = Input((1555,), "bf16", positive=True)
INDEX = Input((300000,), "i64", below=50000)
ODD = (351, 777, 1555, 3001, 6323)

MORE: tuple[Program, ...] = (
    *(Program(f"softmax of {n} bf16", softmax, halves(n)[:1], SHORT) for n in (85, *ODD)),
    *(Program(f"rows of {n} over their norm bf16", normalised, halves(n)[:1], SHORT) for n in (85, *ODD)),
    *(Program(f"bias and relu, rows of {n} bf16", bias_relu, halves(n), SHORT) for n in (300, *ODD)),
    *(Program(f"softmax backward of {n} bf16", softmax_backward, halves(n)[:1] * 2, SHORT) for n in (1001, 2047)),
    Program("layernorm of 3001 bf16", layernorm, (*halves(3001), vector(3001, "bf16")), 3e-2),
    Program("weighted norms of 1555 bf16", weighted_row_norm, (rows_of(1555, "bf16"), POSITIVE), SHORT),
    Program(
        "bias, mask and residual of 8191 bf16",
        bias_mask_residual,
        (matrix(16383, 8191, "bf16"), vector(8191, "bf16"), *(matrix(16383, 8191, "bf16"),) * 2),
        SHORT,
    ),
    Program("neighbours in rows of 8192 bf16", neighbours, (matrix(16384, 8192, "bf16"),), SHORT),
    *(Program(f"{n} colours to planes", turned, (Input((20, 2160000 // n, n)),)) for n in (3, 5, 8, 12)),
    *(Program(f"planes to {n} colours", turned, (Input((20, n, 2160000 // n)),)) for n in (3, 5, 9, 12)),
    Program("one of 7 colours", weighted_colours, (Input((30, 308571, 7)), vector(7))),
    *(Program(f"sums of rows of {n}", row_sum, (rows_of(n),)) for n in (9, 13, 17, 21, 33)),
    *(Program(f"sums of {m} rows", column_sum, (matrix(m, n),)) for m, n in ((2, 30000001), (10, 6700003))),
    *(Program(f"sums of {s[1]} channels", channels, (Input(s),)) for s in ((9571, 7, 1001), (2000, 50, 671))),
    *(Program(f"sums of channels of {s[2]}", planes, (Input(s),)) for s in ((4096, 256, 49), (64, 336, 3136))),
    Program("sum of 67 million and one", everything, (vector(67_000_001),), 1e-4),
    Program("sum of 134 million and one bf16", everything, (vector(134_000_001, "bf16"),), 3e-2),
    *(Program(f"prefixes of {n}", prefix, (rows_of(n),), 1e-4) for n in (37, 101, 1001, 5003)),
    Program("prefix of 67 million", prefix, (vector(1 << 26),), 1e-4),
    Program("rows of 300 of a table bf16", rows_of_a_table, (matrix(50000, 300, "bf16"), INDEX)),
    *(
        Program(f"{m} x {k} times {k} x {n}", product, (matrix(m, k), matrix(k, n)))
        for m, k, n in ((20_000_000, 3, 3), (4_000_000, 16, 16), (1_000_000, 64, 16), (300_000, 256, 32))
    ),
    Program("1000000 x 64 times 64 x 24, bias, relu", dense, (matrix(1_000_000, 64), matrix(64, 24), vector(24))),
    Program("5 x 5 means of 8001 x 8001", box, (matrix(8001, 8001),)),
)
