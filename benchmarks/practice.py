"""Programs of daily practice in numerical work: images, fields on grids, series, geometry, statistics, and layers with
channels last; as they are written there, at large sizes.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix, vector

SHORT, LOOSE = 2e-2, 1e-3
"""Relative errors of results of 16 bits, and of sums of very many float32."""


def _sigmoid(xp: Namespace, x: Array) -> Array:
    return 1 / (1 + xp.exp(-x))


def _laplacian(xp: Namespace, a: Array) -> Array:
    return xp.roll(a, 1, 0) + xp.roll(a, -1, 0) + xp.roll(a, 1, 1) + xp.roll(a, -1, 1) - 4 * a


def _box(a: Array) -> Array:
    """Sums of 3 x 3."""
    total = 0
    for i in range(3):
        for j in range(3):
            total = total + a[i : a.shape[0] - 2 + i, j : a.shape[1] - 2 + j]
    return total


def _moving(a: Array, count: int) -> Array:
    """Sums of so many neighbours of a row."""
    total, n = 0, a.shape[1] - count + 1
    for k in range(count):
        total = total + a[:, k : k + n]
    return total


# ---------------------------------------------------------------------------------------------- images


def bilateral(xp: Namespace, x: Array) -> Array:
    n, m, centre, total, weights = x.shape[0] - 4, x.shape[1] - 4, x[2:-2, 2:-2], 0, 0
    for i in range(5):
        for j in range(5):
            v = x[i : i + n, j : j + m]
            w = xp.exp(-((v - centre) ** 2) * 8.0 - ((i - 2) ** 2 + (j - 2) ** 2) / 4.5)
            total, weights = total + w * v, weights + w
    return total / weights


def blurred(xp: Namespace, x: Array) -> Array:
    taps, m, n, rows, total = [0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03], x.shape[1] - 6, x.shape[0] - 6, 0, 0
    for i, tap in enumerate(taps):
        rows = rows + tap * x[:, i : i + m]
    for i, tap in enumerate(taps):
        total = total + tap * rows[i : i + n]
    return total


def _extreme(f: Namespace, a: Array) -> Array:
    m, n = a.shape[1] - 2, a.shape[0] - 2
    r = f(f(a[:, :m], a[:, 1 : m + 1]), a[:, 2:])
    return f(f(r[:n], r[1 : n + 1]), r[2:])


def opened(xp: Namespace, x: Array) -> Array:
    return _extreme(xp.maximum, _extreme(xp.minimum, x))


def morphological_gradient(xp: Namespace, x: Array) -> Array:
    return _extreme(xp.maximum, x) - _extreme(xp.minimum, x)


def corners(xp: Namespace, x: Array) -> Array:
    """Harris and Stephens (1988)."""
    gx, gy = (x[1:-1, 2:] - x[1:-1, :-2]) * 0.5, (x[2:, 1:-1] - x[:-2, 1:-1]) * 0.5
    a, b, c = _box(gx * gx), _box(gy * gy), _box(gx * gy)
    return a * b - c * c - 0.05 * (a + b) ** 2


def binary_patterns(xp: Namespace, x: Array) -> Array:
    found = 0
    for k, (i, j) in enumerate(((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))):
        v = x[i : x.shape[0] - 2 + i, j : x.shape[1] - 2 + j]
        found = found + xp.where(v >= x[1:-1, 1:-1], 1 << k, 0)
    return found


def doubled_bilinearly(xp: Namespace, x: Array) -> Array:
    b, h, w = x.shape
    r = xp.concatenate([x[:, :1], x, x[:, -1:]], axis=1)
    y = xp.stack([0.75 * x + 0.25 * r[:, :h], 0.75 * x + 0.25 * r[:, 2:]], 2).reshape(b, 2 * h, w)
    c = xp.concatenate([y[:, :, :1], y, y[:, :, -1:]], axis=2)
    return xp.stack([0.75 * y + 0.25 * c[:, :, :w], 0.75 * y + 0.25 * c[:, :, 2:]], 3).reshape(b, 2 * h, 2 * w)


def demosaicked(xp: Namespace, x: Array) -> Array:
    return xp.stack([x[::2, ::2], 0.5 * (x[::2, 1::2] + x[1::2, ::2]), x[1::2, 1::2]], -1)


def tone_mapped(xp: Namespace, x: Array) -> Array:
    luma = 0.2126 * x[:, 0] + 0.7152 * x[:, 1] + 0.0722 * x[:, 2]
    s = 0.18 * luma / xp.exp(xp.mean(xp.log(luma + 1e-4)))
    return x * (s * (1 + s / 16) / (1 + s) / (luma + 1e-4))[:, None]


def integral_image(xp: Namespace, x: Array) -> Array:
    return xp.cumsum(xp.cumsum(x, 0), 1)


def normals(xp: Namespace, h: Array) -> Array:
    dx, dy = h[1:-1, 2:] - h[1:-1, :-2], h[2:, 1:-1] - h[:-2, 1:-1]
    length = xp.sqrt(dx * dx + dy * dy + 4)
    return xp.stack([-dx / length, -dy / length, 2 / length], -1)


def motion(xp: Namespace, u: Array, v: Array, ix: Array, iy: Array, it: Array) -> tuple[Array, Array]:
    """A step of Horn and Schunck (1981)."""
    a, b = 0.25 * _laplacian(xp, u) + u, 0.25 * _laplacian(xp, v) + v
    k = (ix * a + iy * b + it) / (1.0 + ix * ix + iy * iy)
    return a - ix * k, b - iy * k


# ---------------------------------------------------------------------------------------------- fields


def perona_malik(xp: Namespace, x: Array) -> Array:
    c, flow = x[1:-1, 1:-1], 0
    for d in (x[:-2, 1:-1] - c, x[2:, 1:-1] - c, x[1:-1, :-2] - c, x[1:-1, 2:] - c):
        flow = flow + xp.exp(-((d * 4) ** 2)) * d
    return c + 0.2 * flow


def diffused(xp: Namespace, u: Array) -> Array:
    c, flow = u[1:-1, 1:-1, 1:-1], 0
    for d in range(3):
        for part in (slice(None, -2), slice(2, None)):
            at = [slice(1, -1)] * 3
            at[d] = part
            g = u[tuple(at)] - c
            flow = flow + g / (1 + (g * 3) ** 2)
    return c + 0.14 * flow


def conducted(xp: Namespace, u: Array, k: Array) -> Array:
    inside = (slice(1, -1),) * 3
    flow = 0
    for d in range(3):
        for part in (slice(None, -2), slice(2, None)):
            at = (*inside[:d], part, *inside[d + 1 :])
            flow = flow + 0.5 * (k[inside] + k[at]) * (u[at] - u[inside])
    return u[inside] + 0.1 * flow


def cahn_hilliard(xp: Namespace, c: Array) -> Array:
    return c + 0.01 * _laplacian(xp, c**3 - c - 0.5 * _laplacian(xp, c))


def burgers(xp: Namespace, u: Array, v: Array) -> tuple[Array, Array]:
    c, d = u[1:-1, 1:-1], v[1:-1, 1:-1]

    def step(a: Array) -> Array:
        around = a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2] - 4 * a[1:-1, 1:-1]
        west, north = a[1:-1, 1:-1] - a[1:-1, :-2], a[1:-1, 1:-1] - a[:-2, 1:-1]
        return a[1:-1, 1:-1] - 0.1 * c * west - 0.1 * d * north + 0.05 * around

    return step(u), step(v)


def four_sweeps(xp: Namespace, x: Array) -> Array:
    for _ in range(4):
        x = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return x


# ---------------------------------------------------------------------------------------------- series and statistics


def rolling_scores(xp: Namespace, x: Array) -> Array:
    w, n, squares = 20, x.shape[1] - 19, 0
    mean = _moving(x, w) / w
    for i in range(w):
        squares = squares + (x[:, i : i + n] - mean) ** 2
    return (x[:, w - 1 :] - mean) / xp.sqrt(squares / w + 1e-6)


def relative_strength(xp: Namespace, p: Array) -> Array:
    d = p[:, 1:] - p[:, :-1]
    gains, losses = _moving(xp.maximum(d, 0.0), 14), _moving(xp.maximum(-d, 0.0), 14)
    return 100 - 100 / (1 + gains / (losses + 1e-6))


def decayed_deviations(xp: Namespace, r: Array) -> Array:
    v, d = r * r, 0.94
    for k in (1, 2, 4, 8, 16):
        v = v + xp.concatenate([v[:, :k] * 0, v[:, :-k]], axis=1) * d**k
    return xp.sqrt(v * (1 - d))


def filtered(xp: Namespace, x: Array, taps: Array) -> Array:
    total, n = 0, x.shape[1] - 30
    for k in range(31):
        total = total + taps[k] * x[:, k : k + n]
    return total


def kalman(xp: Namespace, x: Array, p: Array, z: Array, f: Array, r: Array) -> tuple[Array, Array]:
    expected, variance = f * x, f * p * f + 0.1
    gain = variance / (variance + r)
    return expected + gain * (z - expected), (1 - gain) * variance


def haar_twice(xp: Namespace, x: Array) -> Array:
    for _ in range(2):
        a, b = x[:, ::2], x[:, 1::2]
        x = xp.concatenate([(a + b) * 0.70710678, (a - b) * 0.70710678], axis=1)
    return x


def whitened(xp: Namespace, x: Array) -> Array:
    c = x - xp.mean(x, axis=0)
    return c / xp.sqrt(xp.mean(c * c, axis=0) + 1e-5)


def correlated(xp: Namespace, a: Array, b: Array) -> Array:
    a, b = a - xp.mean(a, axis=1, keepdims=True), b - xp.mean(b, axis=1, keepdims=True)
    return xp.sum(a * b, axis=1) / xp.sqrt(xp.sum(a * a, axis=1) * xp.sum(b * b, axis=1))


def four_moments(xp: Namespace, x: Array) -> tuple[Array, Array, Array, Array]:
    mean = xp.mean(x, axis=1, keepdims=True)
    z = x - mean
    v = xp.mean(z * z, axis=1)
    return mean[:, 0], v, xp.mean(z**3, axis=1) / v**1.5, xp.mean(z**4, axis=1) / v**2


def logistic_gradient(xp: Namespace, x: Array, w: Array, y: Array) -> Array:
    return x.T @ (_sigmoid(xp, x @ w) - y) / x.shape[0]


def softmax_gradient(xp: Namespace, x: Array, w: Array, y: Array) -> Array:
    z = x @ w
    e = xp.exp(z - xp.max(z, axis=1, keepdims=True))
    return x.T @ (e / xp.sum(e, axis=1, keepdims=True) - y) / x.shape[0]


# ---------------------------------------------------------------------------------------------- geometry


def quaternion_products(xp: Namespace, p: Array, q: Array) -> Array:
    a, b, c, d = (p[:, i] for i in range(4))
    e, f, g, h = (q[:, i] for i in range(4))
    real = a * e - b * f - c * g - d * h
    return xp.stack(
        [real, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e], -1
    )


def inverses(xp: Namespace, m: Array) -> Array:
    """Of matrices with a large diagonal: others are near singular ones, whose inverses have no digits."""
    a, b, c, d, e, f, g, h, i = (m[:, r, s] for r in range(3) for s in range(3))
    a, e, i = a + 9, e + 9, i + 9
    x, y, z = e * i - f * h, f * g - d * i, d * h - e * g
    rows = [x, c * h - b * i, b * f - c * e, y, a * i - c * g, c * d - a * f, z, b * g - a * h, a * e - b * d]
    return xp.stack(rows, -1) / (a * x + b * y + c * z)[:, None]


def kernels(xp: Namespace, a: Array, b: Array) -> Array:
    return xp.exp(-0.5 * xp.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=2))


def rendered(xp: Namespace, sigma: Array, red: Array, green: Array, step: Array) -> tuple[Array, Array, Array]:
    """Volumes along rays."""
    alpha = 1 - xp.exp(-sigma * step)
    left = xp.cumprod(1 - alpha + 1e-10, 1)
    w = alpha * xp.concatenate([left[:, :1] * 0 + 1, left[:, :-1]], axis=1)
    return xp.sum(w * red, axis=1), xp.sum(w * green, axis=1), xp.sum(w, axis=1)


# ---------------------------------------------------------------------------------------------- channels last, backward


def group_norm(xp: Namespace, x: Array, gain: Array, bias: Array) -> Array:
    n, h, w, c = x.shape
    y = x.reshape(n, h * w, 32, c // 32)
    z = y - xp.mean(y, axis=(1, 3), keepdims=True)
    variance = xp.mean(z * z, axis=(1, 3), keepdims=True)
    return (z / xp.sqrt(variance + 1e-5)).reshape(n, h, w, c) * gain + bias


def batch_norm(xp: Namespace, x: Array, gain: Array, bias: Array) -> Array:
    z = x - xp.mean(x, axis=(0, 1, 2))
    return xp.maximum(z / xp.sqrt(xp.mean(z * z, axis=(0, 1, 2)) + 1e-5) * gain + bias, 0)


def largest(xp: Namespace, x: Array) -> Array:
    """Of 3 x 3 around every second element."""
    h, w = (x.shape[2] - 3) // 2 + 1, (x.shape[3] - 3) // 2 + 1
    found = x[:, :, : 2 * h - 1 : 2, : 2 * w - 1 : 2]
    for i, j in ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)):
        found = xp.maximum(found, x[:, :, i : i + 2 * h - 1 : 2, j : j + 2 * w - 1 : 2])
    return found


def rms_backward(xp: Namespace, x: Array, g: Array, gain: Array) -> tuple[Array, Array]:
    r, scaled = 1 / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-6), g * gain
    return r * scaled - x * (r**3 * xp.mean(scaled * x, axis=1, keepdims=True)), xp.sum(g * x * r, axis=0)


def layer_scale(xp: Namespace, x: Array, y: Array, gain: Array, bias: Array) -> Array:
    z = y - xp.mean(y, axis=1, keepdims=True)
    variance = xp.mean(z * z, axis=1, keepdims=True)
    return x + z / xp.sqrt(variance + 1e-6) * gain[:, None, None] + bias[:, None, None]


SQUARE, PADDED = matrix(8192, 8192), matrix(8194, 8194)
LINE, POSITIVE = vector(60000000), Input((60000000,), positive=True)

PRACTICE: tuple[Program, ...] = (
    Program("bilateral 5 x 5", bilateral, (matrix(6001, 6001),), 1e-4),
    Program("blurred by seven taps", blurred, (SQUARE,)),
    Program("opened u8", opened, (Input((16001, 16001), "u8", below=256),)),
    Program("morphological gradient u8", morphological_gradient, (Input((12002, 12002), "u8", below=256),)),
    Program("corners", corners, (SQUARE,), 1e-4),
    Program("binary patterns u8", binary_patterns, (Input((8194, 8194), "u8", below=256),)),
    Program("doubled bilinearly", doubled_bilinearly, (Input((256, 256, 256)),)),
    Program("demosaicked", demosaicked, (matrix(12000, 12000),)),
    Program("tone mapped", tone_mapped, (Input((32, 3, 1080, 1920), positive=True),), LOOSE),
    Program("integral image", integral_image, (SQUARE,), LOOSE),
    Program("normals of heights", normals, (PADDED,)),
    Program("motion", motion, (SQUARE,) * 5),
    Program("perona and malik", perona_malik, (SQUARE,)),
    Program("diffused in three dimensions", diffused, (Input((450, 450, 450)),)),
    Program("conducted in three dimensions", conducted, (Input((512, 512, 512)),) * 2),
    Program("cahn and hilliard", cahn_hilliard, (SQUARE,)),
    Program("burgers", burgers, (SQUARE,) * 2),
    Program("four sweeps", four_sweeps, (SQUARE,)),
    Program("rolling scores of 20", rolling_scores, (matrix(16384, 5040),), LOOSE),
    Program("relative strength of 14", relative_strength, (matrix(16384, 5001),), LOOSE),
    Program("decayed deviations", decayed_deviations, (matrix(16384, 5040),), LOOSE),
    Program("filtered by 31 taps", filtered, (matrix(8192, 8222), vector(31)), 1e-4),
    Program("kalman", kalman, (LINE, POSITIVE, LINE, LINE, POSITIVE), 1e-4),
    Program("haar twice", haar_twice, (matrix(16384, 8192),)),
    Program("whitened columns of 257", whitened, (matrix(300000, 257),), LOOSE),
    Program("correlated rows", correlated, (matrix(65536, 2048),) * 2, LOOSE),
    Program("four moments of rows of 4001", four_moments, (matrix(32768, 4001),), LOOSE),
    Program("logistic gradient of 512", logistic_gradient, (matrix(262144, 512), vector(512), vector(262144)), LOOSE),
    Program(
        "softmax gradient of 784 by 10",
        softmax_gradient,
        (matrix(400000, 784), matrix(784, 10), matrix(400000, 10)),
        LOOSE,
    ),
    Program("quaternion products", quaternion_products, (matrix(20000001, 4),) * 2),
    Program("inverses of 3 x 3", inverses, (Input((8000000, 3, 3)),), 1e-1),
    Program("kernels of 8 dimensions", kernels, (matrix(16384, 8), matrix(8192, 8)), 1e-4),
    Program(
        "rendered rays of 192",
        rendered,
        (Input((262144, 192), positive=True), *(matrix(262144, 192),) * 2, Input((262144, 192), positive=True)),
        LOOSE,
    ),
    Program(
        "group norm of 8 channels last bf16",
        group_norm,
        (Input((64, 56, 56, 256), "bf16"), *(vector(256, "bf16"),) * 2),
        5e-2,
    ),
    Program("group norm of 4 channels last", group_norm, (Input((64, 56, 56, 128)), *(vector(128),) * 2), LOOSE),
    Program("batch norm of channels last", batch_norm, (Input((64, 56, 56, 256)), *(vector(256),) * 2), LOOSE),
    Program("largest of 3 x 3 around every second bf16", largest, (Input((128, 64, 112, 112), "bf16"),)),
    Program("root norm backward bf16", rms_backward, (*(matrix(16384, 4096, "bf16"),) * 2, vector(4096, "bf16")), 5e-2),
    Program("layer scale of 192 channels", layer_scale, (*(Input((64, 192, 56, 56)),) * 2, *(vector(192),) * 2), LOOSE),
)
