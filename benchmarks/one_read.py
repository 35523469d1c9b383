"""Programs that one read of their input is enough for, where it takes more than a row or a column at a time: windows,
turned pixels, small covariances, prefixes that are read backwards, sums of one array along several axes.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix, vector
from benchmarks.wide import covariance

SHORT = 8e-3  # relative error of results of 16 bits


def quarter_turn(xp: Namespace, image: Array) -> Array:
    return xp.flip(xp.swapaxes(image, 0, 1), (0,))


def residual(xp: Namespace, u: Array, b: Array) -> Array:
    r = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4 - u[1:-1, 1:-1] - b[1:-1, 1:-1]
    return xp.sum(r * r)


def total_variation(xp: Namespace, x: Array) -> Array:
    return xp.sum(xp.abs(x[1:] - x[:-1])) + xp.sum(xp.abs(x[:, 1:] - x[:, :-1]))


def laplace_norm(xp: Namespace, u: Array) -> Array:
    c = u[1:-1, 1:-1, 1:-1]
    lines = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    d = lines + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:] - 6 * c
    return xp.sum(d * d)


def normal_equations(xp: Namespace, x: Array, y: Array) -> tuple[Array, Array]:
    return x.T @ x, x.T @ y


def suffix(xp: Namespace, x: Array) -> Array:
    return xp.flip(xp.cumsum(xp.flip(x, (-1,)), -1), (-1,))


def running(xp: Namespace, x: Array) -> Array:
    return xp.cumsum(x, 1)


def margins(xp: Namespace, x: Array) -> tuple[Array, Array, Array]:
    return xp.sum(x, axis=0), xp.sum(x, axis=1), xp.sum(x)


def spread(xp: Namespace, x: Array) -> Array:
    d = x - xp.mean(x, axis=0)
    return xp.mean(d * d, axis=0)


def bits(xp: Namespace, q: Array) -> Array:
    return xp.stack([q >> k & 1 for k in range(8)], -1).reshape(q.shape[0], -1)


def negative(xp: Namespace, image: Array) -> Array:
    return 255 - image


def count(xp: Namespace, x: Array) -> Array:
    return xp.sum(x > 0.5, axis=1)


def centred_rows(xp: Namespace, x: Array) -> Array:
    return x - xp.mean(x, axis=1, keepdims=True) - xp.mean(x, axis=0) + xp.mean(x)


ONE_READ: tuple[Program, ...] = (
    Program("quarter turn of 8192 x 8192 x 3 u8", quarter_turn, (Input((8192, 8192, 3), "u8", below=256),)),
    Program("Jacobi residual 8191 x 8193", residual, (matrix(8191, 8193), matrix(8191, 8193)), 1e-4),
    Program("total variation 8191 x 8193", total_variation, (matrix(8191, 8193),), 1e-4),
    Program("norm of the Laplacian of 403 x 401 x 400", laplace_norm, (Input((403, 401, 400)),), 1e-4),
    *(Program(f"covariance of {n} columns", covariance, (matrix((1 << 26) // n, n),), 1e-4) for n in (3, 8, 12)),
    Program("normal equations of 8", normal_equations, (matrix(1 << 23, 8), vector(1 << 23)), 1e-4),
    Program("suffix sums of 67 million", suffix, (vector(1 << 26),), 1e-4),
    Program("suffix sums of rows of 4096", suffix, (matrix(16384, 4096),), 1e-4),
    Program("prefixes along the middle of 512 x 512 x 513", running, (Input((512, 512, 513)),), 1e-4),
    Program("margins of 16384 x 4099", margins, (matrix(16384, 4099),), 1e-3),  # the sum of all nearly cancels
    Program("sums of all, of rows and of columns, taken away", centred_rows, (matrix(16384, 4096),), 1e-4),
    Program("variances of columns f16", spread, (matrix(65536, 2048, "f16"),), SHORT),
    Program("bits u8", bits, (Input((8192, 4096), "u8", below=256),)),
    Program("negative u8", negative, (Input((16381, 16383), "u8", below=256),)),
    Program("counts of rows of 3001", count, (matrix(22000, 3001),)),
)
