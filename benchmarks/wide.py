"""Programs whose predictions were written down before any of them ran: products with themselves, pixels, small
matrices.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.  Products are made by kernels of ours,
not by a library that multiplies.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix, rows_of, vector

OURS = (("library", False),)
SHORT = 8e-3  # relative error of results of 16 bits


def transposed_product(xp: Namespace, a: Array, b: Array) -> Array:
    return a.T @ b


def gram(xp: Namespace, x: Array) -> Array:
    return x.T @ x


def covariance(xp: Namespace, x: Array) -> Array:
    d = x - xp.mean(x, axis=0)
    return d.T @ d / x.shape[0]


def scores(xp: Namespace, x: Array) -> Array:
    return xp.einsum("bqd,bkd->bqk", x, x)


def grams(xp: Namespace, x: Array) -> Array:
    return xp.einsum("bki,bkj->bij", x, x)


def products(xp: Namespace, x: Array, y: Array) -> Array:
    return x @ y


def nearest(xp: Namespace, x: Array, c: Array) -> Array:
    distances = xp.sum(x * x, axis=1)[:, None] - 2 * x @ c.T + xp.sum(c * c, axis=1)
    return xp.sqrt(xp.maximum(-xp.max(-distances, axis=1), 0))


def determinant(xp: Namespace, m: Array) -> Array:
    first = m[:, 0, 0] * (m[:, 1, 1] * m[:, 2, 2] - m[:, 1, 2] * m[:, 2, 1])
    second = m[:, 0, 1] * (m[:, 1, 0] * m[:, 2, 2] - m[:, 1, 2] * m[:, 2, 0])
    return first - second + m[:, 0, 2] * (m[:, 1, 0] * m[:, 2, 1] - m[:, 1, 1] * m[:, 2, 0])


def two_columns(xp: Namespace, x: Array) -> Array:
    return x[:, 3] + x[:, 4]


def column_sum(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=0)


def brightest(xp: Namespace, x: Array) -> Array:
    return xp.max(x.reshape(-1, 3), axis=0)


def largest_nearby(xp: Namespace, x: Array) -> Array:
    m, n = x.shape
    return xp.max(xp.stack([x[i : m - 2 + i, j : n - 2 + j] for i in range(3) for j in range(3)]), axis=0)


def nibbles(xp: Namespace, q: Array) -> Array:
    return xp.stack([q & 15, q >> 4], -1).reshape(q.shape[0], -1)


def near_the_largest(xp: Namespace, x: Array) -> Array:
    return xp.where(x >= xp.max(x, axis=-1, keepdims=True) - 3, x, 0)


def normalised_backward(xp: Namespace, x: Array, gain: Array, g: Array) -> tuple[Array, Array, Array]:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    scale = (xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) ** -0.5
    hat, gained = centred * scale, g * gain
    along = xp.mean(gained, axis=-1, keepdims=True) + hat * xp.mean(gained * hat, axis=-1, keepdims=True)
    return scale * (gained - along), xp.sum(g * hat, axis=0), xp.sum(g, axis=0)


IMAGE = Input((8000, 11000, 3), "u8", below=256)

WIDE: tuple[Program, ...] = (
    *(
        Program(f"{n} columns of {k} times {n}", transposed_product, (matrix(k, n), matrix(k, n)), 1e-4, OURS)
        for k, n in ((1 << 20, 32), (1 << 21, 16), (400_003, 100))
    ),
    Program("16384 x 1024 with itself", gram, (matrix(16384, 1024),), 1e-4, OURS),
    Program("covariance of 48 columns", covariance, (matrix(1_000_000, 48),), 1e-4, OURS),
    Program("64 x 1024 x 64 with itself", scores, (Input((64, 1024, 64)),), 1e-4, OURS),
    Program("100000 x 32 x 16 with itself", grams, (Input((100_000, 32, 16)),), 1e-4, OURS),
    Program("50000 x 16 x 64 times 64 x 16", products, (Input((50_000, 16, 64)), Input((50_000, 64, 16))), 1e-4, OURS),
    Program("distance to the nearest of 32", nearest, (matrix(2_000_000, 16), matrix(32, 16)), 1e-3, OURS),
    Program("determinants", determinant, (Input((10_000_000, 3, 3)),)),
    Program("two of 12 columns", two_columns, (matrix(12_000_000, 12),)),
    *(Program(f"sums of {n} columns bf16", column_sum, (rows_of(n, "bf16"),), 3e-2) for n in (3, 5, 7)),
    Program("brightest colours u8", brightest, (IMAGE,)),
    Program("largest of 3 x 3 u8", largest_nearby, (Input((16000, 16000), "u8", below=256),)),
    Program("nibbles u8", nibbles, (Input((8192, 16384), "u8", below=256),)),
    Program("near the largest of 16384 bf16", near_the_largest, (rows_of(16384, "bf16"),), SHORT),
    Program(
        "layernorm backward bf16",
        normalised_backward,
        (matrix(32768, 4096, "bf16"), vector(4096, "bf16"), matrix(32768, 4096, "bf16")),
        3e-2,
    ),
)
"""Some of the families that plans before them took several times of what memory needs for, by the price."""
