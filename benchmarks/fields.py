"""Programs of other fields than networks' usual layers: recurrent cells, grids of physics, images, points and boxes,
audio, prices, and losses; as they are written there, at large sizes.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

import math

from benchmarks.programs import Array, Input, Namespace, Program, matrix, vector

SHORT, LOOSE, CANCELLING = 2e-2, 1e-3, 5e-2
"""Relative errors of results of 16 bits, of sums of very many float32, and of variances of windows."""


def _ordered(xp: Namespace, x: Array, axes: tuple[int, ...]) -> Array:
    return xp.permute(x, axes) if hasattr(x, "permute") else xp.transpose(x, axes)


def _sigmoid(xp: Namespace, x: Array) -> Array:
    return 1 / (1 + xp.exp(-x))


# ---------------------------------------------------------------------------------------------- networks


def lstm(xp: Namespace, gates: Array, bias: Array, cell: Array) -> tuple[Array, Array]:
    gates, width = gates + bias, cell.shape[1]
    i, f, u, o = (gates[:, k * width : (k + 1) * width] for k in range(4))
    new = _sigmoid(xp, f) * cell + _sigmoid(xp, i) * xp.tanh(u)
    return _sigmoid(xp, o) * xp.tanh(new), new


def gru(xp: Namespace, a: Array, b: Array, h: Array) -> Array:
    n = h.shape[1]
    r, z = _sigmoid(xp, a[:, :n] + b[:, :n]), _sigmoid(xp, a[:, n : 2 * n] + b[:, n : 2 * n])
    return (1 - z) * xp.tanh(a[:, 2 * n :] + r * b[:, 2 * n :]) + z * h


def geglu(xp: Namespace, x: Array) -> Array:
    half = x.shape[-1] // 2
    a, g = x[..., :half], x[..., half:]
    return a * (0.5 * g * (1 + xp.tanh(0.7978845608028654 * (g + 0.044715 * g * g * g))))


def dropped_layernorm(xp: Namespace, x: Array, residual: Array, mask: Array, gain: Array, bias: Array) -> Array:
    h = residual + x * mask * 1.1111
    centred = h - xp.mean(h, axis=-1, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * gain + bias


def modulated(xp: Namespace, x: Array, scale: Array, shift: Array) -> Array:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    n = centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-6)
    return n * (1 + scale[:, None, :]) + shift[:, None, :]


def head_norm(xp: Namespace, x: Array, gain: Array) -> Array:
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def gated_by_means(xp: Namespace, x: Array) -> Array:
    return x * _sigmoid(xp, xp.mean(x, axis=(2, 3), keepdims=True))


def global_response(xp: Namespace, x: Array, gain: Array, shift: Array) -> Array:
    n = xp.sqrt(xp.sum(x * x, axis=(1, 2), keepdims=True))
    return gain * (x * (n / (xp.mean(n, axis=-1, keepdims=True) + 1e-6))) + shift + x


def local_response(xp: Namespace, x: Array) -> Array:
    """Over five neighbouring channels."""
    q, channels = x * x, x.shape[1]
    none = q[:, :2] * 0
    padded = xp.concatenate((none, q, none), axis=1)
    return x / (2 + 1e-4 / 5 * sum(padded[:, k : k + channels] for k in range(5))) ** 0.75


def masked_means(xp: Namespace, x: Array, mask: Array) -> Array:
    return xp.sum(x * mask[:, :, None], axis=1) / xp.sum(mask[:, :, None], axis=1)


def quantised_columns(xp: Namespace, w: Array) -> tuple[Array, Array]:
    scale = xp.max(xp.abs(w), axis=0, keepdims=True) / 127
    return xp.clip(xp.round(w / scale), -127, 127), scale


def adamw(xp: Namespace, p: Array, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p * (1 - 1e-4) - 1e-3 * (m / 0.1) / (xp.sqrt(v / 0.001) + 1e-8), m, v


# ---------------------------------------------------------------------------------------------- losses


def distillation(xp: Namespace, student: Array, teacher: Array) -> Array:
    def log_softmax(x: Array) -> Array:
        z = x * 0.5 - xp.max(x * 0.5, axis=-1, keepdims=True)
        return z - xp.log(xp.sum(xp.exp(z), axis=-1, keepdims=True))

    p, q = log_softmax(student), log_softmax(teacher)
    return xp.mean(xp.sum(xp.exp(q) * (q - p), axis=-1)) * 4


def focal(xp: Namespace, x: Array, target: Array) -> Array:
    p = _sigmoid(xp, x)
    loss = xp.maximum(x, 0) - x * target + xp.log1p(xp.exp(-xp.abs(x)))
    q = p * target + (1 - p) * (1 - target)
    return xp.mean((0.25 * target + 0.75 * (1 - target)) * loss * (1 - q) ** 2)


def dice(xp: Namespace, x: Array, target: Array) -> Array:
    p, over = _sigmoid(xp, x), (2, 3)
    both = xp.sum(p * target, axis=over)
    return xp.mean(1 - (2 * both + 1) / (xp.sum(p, axis=over) + xp.sum(target, axis=over) + 1))


def weighted_bce(xp: Namespace, x: Array, target: Array, weight: Array) -> Array:
    return xp.mean(weight * (xp.maximum(x, 0) - x * target + xp.log1p(xp.exp(-xp.abs(x)))), axis=-1)


# ---------------------------------------------------------------------------------------------- physics


def gray_scott(xp: Namespace, u: Array, v: Array) -> tuple[Array, Array]:
    def laplacian(a: Array) -> Array:
        return xp.roll(a, 1, 0) + xp.roll(a, -1, 0) + xp.roll(a, 1, 1) + xp.roll(a, -1, 1) - 4 * a

    r = u * v * v
    return u + 0.16 * laplacian(u) - r + 0.06 * (1 - u), v + 0.08 * laplacian(v) + r - 0.122 * v


def maxwell(xp: Namespace, e: Array, hx: Array, hy: Array) -> tuple[Array, Array, Array]:
    """A step of Yee's scheme in two dimensions: the field inside, and both of the other."""
    hx, hy = hx - 0.5 * (e[:, 1:] - e[:, :-1]), hy + 0.5 * (e[1:, :] - e[:-1, :])
    curl = (hy[1:, 1:-1] - hy[:-1, 1:-1]) - (hx[1:-1, 1:] - hx[1:-1, :-1])
    return e[1:-1, 1:-1] + 0.5 * curl, hx, hy


def seismic(xp: Namespace, p: Array, before: Array, speed: Array) -> Array:
    """A step of the wave equation, of eighth order in space."""
    weights, inner = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560), tuple(n - 8 for n in p.shape)

    def at(a: Array, axis: int = 0, step: int = 0) -> Array:
        i, j, k = (4 + (step if d == axis else 0) for d in range(3))
        return a[i : i + inner[0], j : j + inner[1], k : k + inner[2]]

    found = 3 * weights[0] * at(p)
    for axis in range(3):
        for step in range(1, 5):
            found = found + weights[step] * (at(p, axis, step) + at(p, axis, -step))
    return 2 * at(p) - at(before) + at(speed) * found


def shallow_water(xp: Namespace, h: Array, u: Array, v: Array) -> tuple[Array, Array, Array]:
    def dx(a: Array) -> Array:
        return (xp.roll(a, -1, 1) - xp.roll(a, 1, 1)) * 0.5

    def dy(a: Array) -> Array:
        return (xp.roll(a, -1, 0) - xp.roll(a, 1, 0)) * 0.5

    new_h = h - 0.01 * (dx(h * u) + dy(h * v))
    return new_h, u - 0.01 * (u * dx(u) + v * dy(u) + 9.8 * dx(h)), v - 0.01 * (u * dx(v) + v * dy(v) + 9.8 * dy(h))


def weno(xp: Namespace, f: Array) -> Array:
    """Reconstruction of fifth order along rows (Jiang and Shu, Efficient implementation of weighted ENO schemes, 1996).
    """
    n = f.shape[1] - 4
    a, b, c, d, e = (f[:, k : k + n] for k in range(5))
    s0 = 13 / 12 * (a - 2 * b + c) ** 2 + 0.25 * (a - 4 * b + 3 * c) ** 2
    s1 = 13 / 12 * (b - 2 * c + d) ** 2 + 0.25 * (b - d) ** 2
    s2 = 13 / 12 * (c - 2 * d + e) ** 2 + 0.25 * (3 * c - 4 * d + e) ** 2
    w0, w1, w2 = 0.1 / (1e-6 + s0) ** 2, 0.6 / (1e-6 + s1) ** 2, 0.3 / (1e-6 + s2) ** 2
    q0, q1, q2 = (2 * a - 7 * b + 11 * c) / 6, (-b + 5 * c + 2 * d) / 6, (2 * c + 5 * d - e) / 6
    return (w0 * q0 + w1 * q1 + w2 * q2) / (w0 + w1 + w2)


def attraction(xp: Namespace, places: Array, mass: Array) -> Array:
    d = places[:, None, :] - places[None, :, :]
    r = xp.sum(d * d, axis=2) + 0.01
    return xp.sum(d * (mass / (r * xp.sqrt(r)))[:, :, None], axis=0)


# ---------------------------------------------------------------------------------------------- images


MEDIAN = (
    *((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3)),
    *((5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)),
)
"""Comparisons that leave the median of nine in the fifth place (Paeth, Median finding on a 3 x 3 grid, 1990)."""


def median(xp: Namespace, x: Array) -> Array:
    n, m = x.shape[0] - 2, x.shape[1] - 2
    v = [x[i : i + n, j : j + m] for i in range(3) for j in range(3)]
    for i, j in MEDIAN:
        v[i], v[j] = xp.minimum(v[i], v[j]), xp.maximum(v[i], v[j])
    return v[4]


def sobel(xp: Namespace, x: Array) -> Array:
    """With the outermost pixels repeated."""
    t = xp.concatenate((x[:1], x, x[-1:]), axis=0)
    t = xp.concatenate((t[:, :1], t, t[:, -1:]), axis=1)
    n, m = x.shape

    def at(i: int, j: int) -> Array:
        return t[i : i + n, j : j + m]

    gx = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0)
    gy = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2)
    return xp.sqrt(gx * gx + gy * gy)


def similarity(xp: Namespace, a: Array, b: Array) -> Array:
    """Structural similarity in windows of 7 x 7."""

    def of_rows(x: Array) -> Array:
        n = x.shape[0] - 6
        return sum(x[i : i + n] for i in range(7))

    def of_columns(x: Array) -> Array:
        n = x.shape[1] - 6
        return sum(x[:, i : i + n] for i in range(7))

    def box(x: Array) -> Array:
        return of_columns(of_rows(x)) / 49

    ma, mb = box(a), box(b)
    va, vb, c = box(a * a) - ma * ma, box(b * b) - mb * mb, box(a * b) - ma * mb
    return xp.mean((2 * ma * mb + 1e-4) * (2 * c + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4)))


def normalised_images(xp: Namespace, x: Array, mean: Array, deviation: Array) -> Array:
    return _ordered(xp, (x - mean) / deviation, (0, 3, 1, 2))


def hsv(xp: Namespace, x: Array) -> Array:
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    value = xp.maximum(xp.maximum(r, g), b)
    d = value - xp.minimum(xp.minimum(r, g), b)
    z = xp.where(d == 0, 1.0, d)
    hue = xp.where(value == r, (g - b) / z, xp.where(value == g, 2 + (b - r) / z, 4 + (r - g) / z)) / 6
    return xp.stack((hue - xp.floor(hue), d / xp.where(value == 0, 1.0, value), value), -1)


def composed(xp: Namespace, a: Array, b: Array, unit: Array) -> Array:
    """One image with transparency over another."""
    fa, fb = a[..., 3:] * unit, b[..., 3:] * unit
    whole = fa + fb * (1 - fa)
    return (a[..., :3] * fa + b[..., :3] * fb * (1 - fa)) / xp.where(whole == 0, 1.0, whole)


def less_luma(xp: Namespace, x: Array) -> Array:
    return x - (0.3 * x[..., 0:1] + 0.6 * x[..., 1:2] + 0.1 * x[..., 2:3])


def wavelet(xp: Namespace, x: Array) -> tuple[Array, Array, Array, Array]:
    a, b, c, d = x[::2, ::2], x[::2, 1::2], x[1::2, ::2], x[1::2, 1::2]
    return (a + b + c + d) / 2, (a - b + c - d) / 2, (a + b - c - d) / 2, (a - b - c + d) / 2


def pixel_shuffle(xp: Namespace, x: Array) -> Array:
    b, c, h, w = x.shape
    y = _ordered(xp, x.reshape(b, c // 4, 2, 2, h, w), (0, 1, 4, 2, 5, 3))
    return y.reshape(b, c // 4, h * 2, w * 2)


def doubled(xp: Namespace, x: Array) -> Array:
    b, c, h, w = x.shape
    row = xp.stack((x, x), -1)
    return xp.stack((row, row), 3).reshape(b, c, 2 * h, 2 * w)


def shifted_windows(xp: Namespace, x: Array) -> Array:
    b, h, w, c = x.shape
    y = xp.roll(x, (-3, -3), (1, 2)).reshape(b, h // 7, 7, w // 7, 7, c)
    return _ordered(xp, y, (0, 1, 3, 2, 4, 5)).reshape(-1, 49, c)


def patches(xp: Namespace, x: Array) -> Array:
    b, c, h, w = x.shape
    y = _ordered(xp, x.reshape(b, c, h // 16, 16, w // 16, 16), (0, 2, 4, 3, 5, 1))
    return y.reshape(b, (h // 16) * (w // 16), 256 * c)


# ---------------------------------------------------------------------------------------------- points and boxes


def complex_product(xp: Namespace, x: Array, y: Array) -> Array:
    real, other = x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1], x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]
    return xp.stack((real, other), -1)


def rotated(xp: Namespace, q: Array, v: Array) -> Array:
    """Vectors by unit quaternions."""

    def cross(a: Array, b: Array) -> Array:
        pairs = ((1, 2), (2, 0), (0, 1))
        return xp.stack([a[:, i] * b[:, j] - a[:, j] * b[:, i] for i, j in pairs], -1)

    t = 2 * cross(q[:, 1:], v)
    return v + q[:, :1] * t + cross(q[:, 1:], t)


def centres_and_sizes(xp: Namespace, b: Array) -> Array:
    centre = (b[:, 0] + b[:, 2]) / 2, (b[:, 1] + b[:, 3]) / 2
    return xp.stack([*centre, b[:, 2] - b[:, 0], b[:, 3] - b[:, 1]], -1)


def clipped_scores(xp: Namespace, x: Array) -> Array:
    mean = xp.mean(x, axis=0)
    return xp.clip((x - mean) / xp.sqrt(xp.mean((x - mean) ** 2, axis=0)), -3, 3)


def between_extremes(xp: Namespace, x: Array) -> Array:
    low, high = -xp.max(-x, axis=0), xp.max(x, axis=0)
    return (x - low) / (high - low)


# ---------------------------------------------------------------------------------------------- audio, prices


def frames(xp: Namespace, x: Array, window: Array) -> Array:
    """Of 1024 samples, 256 apart."""
    y = x.reshape(-1, 256)
    n = y.shape[0] - 3
    return xp.concatenate([y[k : k + n] for k in range(4)], axis=1) * window


def frame_energies(xp: Namespace, x: Array, window: Array) -> Array:
    f = frames(xp, x, window)
    return xp.log(xp.mean(f * f, axis=1) + 1e-9)


def decibels(xp: Namespace, x: Array) -> Array:
    """Below the loudest of a row, down to -80."""
    d = 10 * xp.log10(xp.maximum(x, 1e-10))
    return xp.maximum(d - xp.max(d, axis=-1, keepdims=True), -80.0)


def normalised_frames(xp: Namespace, x: Array) -> Array:
    centred = x - xp.mean(x, axis=1, keepdims=True)
    return centred / (xp.sqrt(xp.mean(centred * centred, axis=1, keepdims=True)) + 1e-6)


def autocorrelations(xp: Namespace, x: Array) -> Array:
    c, n = x - xp.mean(x, axis=1, keepdims=True), x.shape[1]
    variance = xp.mean(c * c, axis=1)
    return xp.stack([xp.mean(c[:, k:] * c[:, : n - k], axis=1) / variance for k in range(1, 9)])


def trapezoids(xp: Namespace, y: Array) -> Array:
    return xp.sum((y[:, 1:] + y[:, :-1]) * 0.5, axis=1)


def moving_means(xp: Namespace, x: Array) -> Array:
    c = xp.cumsum(x, 1)
    return (c[:, 50:] - c[:, :-50]) / 50


def asian_option(xp: Namespace, z: Array) -> Array:
    prices = xp.exp(xp.cumsum(z * 0.01 - 0.00005, 1))
    return xp.mean(xp.maximum(xp.mean(prices, axis=1) - 1.0, 0.0))


def black_scholes(xp: Namespace, s: Array, k: Array, t: Array) -> tuple[Array, Array]:
    def cdf(x: Array) -> Array:
        """Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17."""
        a = xp.abs(x)
        q = 1 / (1 + 0.2316419 * a)
        p = q * (0.319381530 + q * (-0.356563782 + q * (1.781477937 + q * (-1.821255978 + q * 1.330274429))))
        tail = math.sqrt(1 / (2 * math.pi)) * xp.exp(-0.5 * a * a) * p
        return xp.where(x > 0, 1 - tail, tail)

    v = 0.3 * xp.sqrt(t)
    d = (xp.log(s / k) + (0.02 + 0.045) * t) / v
    discounted = k * xp.exp(-0.02 * t)
    call = s * cdf(d) - discounted * cdf(d - v)
    return call, call - s + discounted


PIXELS, IMAGE, POSITIVE = Input((8000, 8000, 4), "u8", below=256), matrix(8192, 8192), Input((64000001,), positive=True)
SAMPLES, WINDOW = vector(256 * 262144), vector(1024)
BATCH, MASK = Input((65536, 1001)), Input((65536, 1001), "u8", below=2)

FIELDS: tuple[Program, ...] = (
    Program(
        "lstm cells of 16384 x 2048 bf16",
        lstm,
        (matrix(16384, 8192, "bf16"), vector(8192, "bf16"), matrix(16384, 2048, "bf16")),
        SHORT,
    ),
    Program("gru cells of 32768 x 1000", gru, (*(matrix(32768, 3000),) * 2, matrix(32768, 1000))),
    Program("gated gelu of 5120 bf16", geglu, (matrix(16384, 10240, "bf16"),), SHORT),
    Program(
        "layernorm of 1024 behind dropout",
        dropped_layernorm,
        (*(matrix(32768, 1024),) * 2, Input((32768, 1024), "u8", below=2), *(vector(1024),) * 2),
    ),
    Program(
        "modulated layernorm of 1152 bf16",
        modulated,
        (Input((256, 256, 1152), "bf16"), *(matrix(256, 1152, "bf16"),) * 2),
        SHORT,
    ),
    Program("norms of heads of 128 bf16", head_norm, (Input((8, 4096, 32, 128), "bf16"), vector(128, "bf16")), SHORT),
    Program("channels of 28 x 28 gated by means", gated_by_means, (Input((512, 256, 28, 28)),)),
    Program("channels of 56 x 56 gated by means bf16", gated_by_means, (Input((128, 256, 56, 56), "bf16"),), SHORT),
    Program("global response of 1024", global_response, (Input((256, 14, 14, 1024)), *(vector(1024),) * 2), LOOSE),
    Program("local response of 96 channels", local_response, (Input((256, 96, 55, 55)),), 1e-4),
    Program(
        "masked means of 512 x 768 bf16",
        masked_means,
        (Input((256, 512, 768), "bf16"), Input((256, 512), "u8", below=2)),
        SHORT,
    ),
    Program("quantised columns bf16", quantised_columns, (matrix(16384, 8192, "bf16"),), SHORT),
    Program(
        "adamw of bf16 beside f32",
        adamw,
        (*(vector(60000000, "bf16"),) * 2, vector(60000000), Input((60000000,), positive=True)),
        SHORT,
    ),
    Program("distillation of 32000 bf16", distillation, (matrix(8192, 32000, "bf16"),) * 2, SHORT),
    Program("focal loss", focal, (Input((64, 100000, 20)), Input((64, 100000, 20), "u8", below=2)), LOOSE),
    Program("dice of 512 x 512", dice, (Input((64, 8, 512, 512)), Input((64, 8, 512, 512), "u8", below=2)), LOOSE),
    Program("weighted cross-entropy of rows of 1001", weighted_bce, (BATCH, MASK, vector(1001))),
    Program("reaction and diffusion 8191 x 8192", gray_scott, (matrix(8191, 8192),) * 2),
    Program("maxwell 8192 x 8192", maxwell, (IMAGE, matrix(8192, 8191), matrix(8191, 8192))),
    Program("seismic 520 x 520 x 520", seismic, (Input((520, 520, 520)),) * 3),
    Program("shallow water 8192 x 8192", shallow_water, (IMAGE,) * 3),
    Program("weno of rows of 8196", weno, (matrix(8192, 8196),), LOOSE),
    Program("attraction of 16384", attraction, (matrix(16384, 3), Input((16384,), positive=True)), LOOSE),
    Program("median of 3 x 3", median, (matrix(8002, 8002),)),
    Program("median of 3 x 3 u8", median, (Input((16002, 16002), "u8", below=256),)),
    Program("edges of 8191 x 8191 repeated", sobel, (matrix(8191, 8191),)),
    Program("similarity of 8000 x 8000", similarity, (matrix(8000, 8000),) * 2, CANCELLING),
    Program(
        "normalised images of 224 x 224 u8",
        normalised_images,
        (Input((512, 224, 224, 3), "u8", below=256), vector(3), Input((3,), positive=True)),
    ),
    Program("hue, saturation, value", hsv, (Input((8000, 8000, 3), positive=True),), 1e-4),
    Program("images over images u8", composed, (PIXELS, PIXELS, Input((1,), positive=True)), LOOSE),
    Program("colours less luma", less_luma, (Input((8000, 8000, 3)),)),
    Program("wavelets of 16384 x 16384", wavelet, (matrix(16384, 16384),)),
    Program("pixels shuffled bf16", pixel_shuffle, (Input((32, 256, 128, 128), "bf16"),)),
    Program("pixels doubled", doubled, (Input((64, 64, 128, 128)),)),
    Program("shifted windows of 7 x 7 bf16", shifted_windows, (Input((256, 56, 56, 192), "bf16"),)),
    Program("patches of 16 x 16", patches, (Input((256, 3, 224, 224)),)),
    Program("complex products", complex_product, (Input((50000001, 2)),) * 2),
    Program("vectors rotated", rotated, (matrix(20000003, 4), matrix(20000003, 3))),
    Program("centres and sizes", centres_and_sizes, (matrix(50000000, 4),)),
    Program("clipped scores of 100", clipped_scores, (matrix(1000000, 100),), LOOSE),
    Program("between extremes of 100", between_extremes, (matrix(1000000, 100),)),
    Program("frames of 1024", frames, (SAMPLES, WINDOW)),
    Program("energies of frames of 1024", frame_energies, (SAMPLES, WINDOW)),
    Program("decibels of rows of 4001", decibels, (Input((16384, 4001), positive=True),)),
    Program("normalised frames of 80", normalised_frames, (Input((1024, 1000, 80)),), LOOSE),
    Program("autocorrelations of rows of 4096", autocorrelations, (matrix(20000, 4096),), LOOSE),
    Program("trapezoids of rows of 8191", trapezoids, (matrix(16384, 8191),), LOOSE),
    Program("moving means of rows of 5000", moving_means, (matrix(20000, 5000),), LOOSE),
    Program("asian option of 252 days", asian_option, (matrix(262144, 252),), LOOSE),
    Program("options of 64 million", black_scholes, (POSITIVE,) * 3, 1e-4),
)
