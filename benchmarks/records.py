"""Programs whose results are records of a few elements: rotations, small matrices, colours, features of points.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix, vector


def rotations(xp: Namespace, q: Array) -> Array:
    """Matrices out of quaternions."""
    w, x, y, z = q[:, 0], q[:, 1], q[:, 2], q[:, 3]
    first = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    second = [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    third = [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]
    return xp.stack([*first, *second, *third], -1).reshape(-1, 3, 3)


def inverses(xp: Namespace, m: Array) -> Array:
    """Of matrices with a large diagonal."""
    a, b, c, d, e, f, g, h, i = (m[:, r, s] for r in range(3) for s in range(3))
    a, e, i = a + 9, e + 9, i + 9
    x, y, z = e * i - f * h, f * g - d * i, d * h - e * g
    rows = [x, c * h - b * i, b * f - c * e, y, a * i - c * g, c * d - a * f, z, b * g - a * h, a * e - b * d]
    return (xp.stack(rows, -1) / (a * x + b * y + c * z)[:, None]).reshape(-1, 3, 3)


def cross_matrices(xp: Namespace, v: Array) -> Array:
    """Of vectors: what takes another one to their cross product."""
    x, y, z = v[:, 0], v[:, 1], v[:, 2]
    o = xp.zeros_like(x)
    return xp.stack([o, -z, y, z, o, -x, -y, x, o], -1).reshape(-1, 3, 3)


def luma_and_chroma(xp: Namespace, x: Array) -> Array:
    r, g, b = x[:, :, 0], x[:, :, 1], x[:, :, 2]
    luma = 0.299 * r + 0.587 * g + 0.114 * b
    return xp.stack([luma, 0.5 * b - 0.168736 * r - 0.331264 * g, 0.5 * r - 0.418688 * g - 0.081312 * b], -1)


def harmonics(xp: Namespace, d: Array) -> Array:
    """Of directions, up to the second degree."""
    x, y, z = d[:, 0], d[:, 1], d[:, 2]
    second = [1.09 * x * y, -1.09 * y * z, 0.315 * (2 * z * z - x * x - y * y), -1.09 * x * z, 0.546 * (x * x - y * y)]
    return xp.stack([0.28 * xp.ones_like(x), -0.488 * y, 0.488 * z, -0.488 * x, *second], -1)


def monomials(xp: Namespace, x: Array, y: Array) -> Array:
    return xp.stack([xp.ones_like(x), x, y, x * x, x * y, y * y], -1)


def corners(xp: Namespace, b: Array) -> Array:
    """Of boxes by a corner, width and height."""
    x, y, w, h = b[:, 0], b[:, 1], b[:, 2], b[:, 3]
    return xp.stack([x, y, x + w, y, x + w, y + h, x, y + h], -1).reshape(-1, 4, 2)


RECORDS = (
    Program("rotation matrices", rotations, (matrix(20000003, 4),)),
    Program("inverses of 3 x 3 f64", inverses, (Input((4000001, 3, 3), "f64"),)),
    Program("cross product matrices", cross_matrices, (matrix(20000003, 3),)),
    Program("luma and chroma of 6001 x 4001", luma_and_chroma, (Input((6001, 4001, 3)),)),
    Program("harmonics of directions", harmonics, (matrix(20000003, 3),)),
    Program("monomials of two", monomials, (vector(20000003), vector(20000003))),
    Program("corners of boxes", corners, (matrix(20000003, 4),)),
)
