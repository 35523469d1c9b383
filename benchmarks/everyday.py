"""What people write over arrays, as it is found in their programs: images, losses, optimisers, normalisations,
attention, time series.

Definitions are as in `benchmarks.programs`, in words that NumPy and torch share.
"""

from __future__ import annotations

from benchmarks.programs import Array, Input, Namespace, Program, matrix, vector

SHORT, LOOSE = 2e-2, 1e-4
"""Relative errors of results of 16 bits, and of sums of very many float32."""


# ---------------------------------------------------------------------------------------------- images


def grey(xp: Namespace, image: Array, weights: Array) -> Array:
    return xp.sum(image * weights, axis=-1)


def planes_of(xp: Namespace, image: Array, mean: Array, scale: Array) -> Array:
    return xp.moveaxis((image - mean) * scale, -1, 0)


def edges(xp: Namespace, x: Array) -> Array:
    gy = x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:] - x[:-2, :-2] - 2 * x[:-2, 1:-1] - x[:-2, 2:]
    gx = x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:] - x[:-2, :-2] - 2 * x[1:-1, :-2] - x[2:, :-2]
    return xp.sqrt(gy * gy + gx * gx)


def gradient(xp: Namespace, x: Array) -> tuple[Array, Array]:
    return (x[2:, 1:-1] - x[:-2, 1:-1]) / 2, (x[1:-1, 2:] - x[1:-1, :-2]) / 2


def sharpened(xp: Namespace, x: Array) -> Array:
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return xp.clip(5 * x[1:-1, 1:-1] - around, 0, 1)


def halved(xp: Namespace, x: Array) -> Array:
    wide = xp.maximum(x[:, :, ::2], x[:, :, 1::2])
    return xp.maximum(wide[:, :, :, ::2], wide[:, :, :, 1::2])


def block_means(xp: Namespace, x: Array) -> Array:
    n, m = x.shape
    return xp.mean(x.reshape(n // 8, 8, m // 8, 8), axis=(1, 3))


def rolled(xp: Namespace, x: Array, y: Array) -> Array:
    return xp.roll(x, (3, 5), (0, 1)) * y


# ---------------------------------------------------------------------------------------------- losses, optimisers


def huber(xp: Namespace, x: Array, y: Array) -> Array:
    d = xp.abs(x - y)
    return xp.mean(xp.where(d < 1, 0.5 * d * d, d - 0.5))


def divergence(xp: Namespace, p: Array, q: Array) -> Array:
    return xp.sum(p * (xp.log(p) - xp.log(q)), axis=-1)


def cosine(xp: Namespace, x: Array, y: Array) -> Array:
    return xp.sum(x * y, axis=-1) / xp.sqrt(xp.sum(x * x, axis=-1) * xp.sum(y * y, axis=-1))


def right(xp: Namespace, logits: Array, labels: Array) -> Array:
    return xp.sum(xp.argmax(logits, -1) == labels)


def smoothed(xp: Namespace, logits: Array, labels: Array) -> Array:
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    logs = shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
    return -0.9 * xp.take_along_axis(logs, labels[:, None], 1)[:, 0] - 0.1 * xp.mean(logs, axis=-1)


def adam(xp: Namespace, p: Array, g: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (xp.sqrt(v) + 1e-8), m, v


def clipped(xp: Namespace, g: Array) -> Array:
    norm = xp.sqrt(xp.sum(g * g))
    return g * (1 / xp.maximum(norm, 1.0))


# ---------------------------------------------------------------------------------------------- layers


def layernorm(xp: Namespace, x: Array, gain: Array, shift: Array) -> Array:
    d = x - xp.mean(x, axis=-1, keepdims=True)
    return d / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * gain + shift


def root_norm(xp: Namespace, x: Array, gain: Array) -> Array:
    return x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def instance_norm(xp: Namespace, x: Array) -> Array:
    d = x - xp.mean(x, axis=(2, 3), keepdims=True)
    return d / xp.sqrt(xp.mean(d * d, axis=(2, 3), keepdims=True) + 1e-5)


def channel_moments(xp: Namespace, x: Array) -> tuple[Array, Array]:
    m = xp.mean(x, axis=(0, 2, 3))
    return m, xp.mean(x * x, axis=(0, 2, 3)) - m * m


def class_logs(xp: Namespace, x: Array) -> Array:
    shifted = x - xp.max(x, axis=1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))


def pooled(xp: Namespace, x: Array, mask: Array) -> Array:
    return xp.sum(x * mask[:, :, None], axis=1) / xp.sum(mask, axis=1, keepdims=True)


def gated_backward(xp: Namespace, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
    s = 1 / (1 + xp.exp(-a))
    return g * b * s * (1 + a * (1 - s)), g * a * s


def fake_quantised(xp: Namespace, x: Array) -> Array:
    scale = xp.max(xp.abs(x), axis=-1, keepdims=True) / 127
    return xp.round(x / scale) * scale


def quantised_groups(xp: Namespace, x: Array) -> Array:
    return fake_quantised(xp, x.reshape(x.shape[0], -1, 128)).reshape(x.shape)


def dequantised(xp: Namespace, q: Array, scale: Array) -> Array:
    return (q - 128) * scale[:, None]


# ---------------------------------------------------------------------------------------------- attention


def softmax_rows(xp: Namespace, x: Array) -> Array:
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def causal(xp: Namespace, x: Array, mask: Array) -> Array:
    return softmax_rows(xp, xp.where(mask > 0, x, -1e4))


def sloped(xp: Namespace, x: Array, slopes: Array, distance: Array) -> Array:
    return softmax_rows(xp, x + slopes[:, None, None] * distance)


def interleaved(xp: Namespace, x: Array, cos: Array, sin: Array) -> Array:
    even, odd = x[..., ::2], x[..., 1::2]
    return xp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def heads(xp: Namespace, x: Array, bias: Array) -> Array:
    return xp.swapaxes(x + bias, 1, 2)


def embedded(xp: Namespace, table: Array, positions: Array, ids: Array) -> Array:
    return table[ids] + positions


# ---------------------------------------------------------------------------------------------- arrays at large


def lower(xp: Namespace, x: Array) -> Array:
    return xp.tril(x)


def updated(xp: Namespace, a: Array, x: Array, y: Array) -> Array:
    return a + 0.5 * x[:, None] * y


def reversed_axes(xp: Namespace, x: Array) -> Array:
    return xp.moveaxis(x, (0, 1, 2), (2, 1, 0)) * 2


def last_to_front(xp: Namespace, x: Array) -> Array:
    return xp.moveaxis(x, 2, 0) * 2


def middle_to_back(xp: Namespace, x: Array) -> Array:
    return xp.moveaxis(x, 1, 2) * 2


def joined(xp: Namespace, x: Array, y: Array, z: Array) -> Array:
    return xp.concatenate([x, y, z], axis=1)


def turned(xp: Namespace, x: Array) -> Array:
    return xp.swapaxes(x, -2, -1) * 2


def differences(xp: Namespace, x: Array) -> Array:
    return x[:, 1:] - x[:, :-1]


def bordered(xp: Namespace, x: Array) -> Array:
    return x[:, 1:-1] * 2


def column_sums(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=0)


def products_of_pairs(xp: Namespace, a: Array, b: Array) -> Array:
    re = a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1]
    return xp.stack([re, a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]], -1)


def butterfly(xp: Namespace, x: Array) -> Array:
    half = x.shape[0] // 2
    return xp.concatenate([x[:half] + x[half:], x[:half] - x[half:]])


def powers(xp: Namespace, x: Array) -> Array:
    return xp.stack([x, x * x, x * x * x], -1)


def great_circles(xp: Namespace, a: Array, b: Array, c: Array, d: Array) -> Array:
    h = xp.sin((c - a) / 2) ** 2 + xp.cos(a) * xp.cos(c) * xp.sin((d - b) / 2) ** 2
    return 12742 * xp.arcsin(xp.sqrt(xp.clip(h, 0, 1)))


def between_points(xp: Namespace, x: Array, y: Array) -> Array:
    d = x[:, None] - y[None]
    return xp.sqrt(xp.sum(d * d, axis=-1))


def smooth(xp: Namespace, x: Array) -> Array:
    n = x.shape[0] - 8
    found = x[:n]
    for k in range(1, 9):
        found = found + x[k : k + n]
    return found / 9


def lagged(xp: Namespace, x: Array) -> Array:
    return xp.mean(x[1000:] * x[:-1000])


def statistics(xp: Namespace, x: Array) -> tuple[Array, Array, Array]:
    m = xp.mean(x, axis=-1)
    return m, xp.sqrt(xp.mean(x * x, axis=-1) - m * m), xp.max(x, axis=-1)


def columns_logsumexp(xp: Namespace, x: Array) -> Array:
    m = xp.max(x, axis=0)
    return m + xp.log(xp.sum(xp.exp(x - m), axis=0))


def best_rows(xp: Namespace, x: Array) -> Array:
    return xp.argmax(x, 0)


def running(xp: Namespace, x: Array) -> Array:
    return xp.cumsum(x, 0)


def sums_between(xp: Namespace, x: Array) -> Array:
    return xp.sum(x, axis=1)


def softmax_between(xp: Namespace, x: Array) -> Array:
    e = xp.exp(x - xp.max(x, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def running_between(xp: Namespace, x: Array) -> Array:
    return xp.cumsum(x, 1)


def densities(xp: Namespace, x: Array, centre: Array, scale: Array) -> Array:
    return xp.exp(x - centre) / scale


def best_in_rows(xp: Namespace, x: Array) -> Array:
    return xp.argmax(x, 1)


def largest_in_rows(xp: Namespace, x: Array) -> Array:
    return xp.max(x, axis=1)


def largest_in_columns(xp: Namespace, x: Array) -> Array:
    return xp.max(x, axis=0)


def of_unit_length(xp: Namespace, x: Array) -> Array:
    return x / xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))


def _halves(*shape: int) -> Input:
    return Input(shape, "bf16")


def _positive(*shape: int) -> Input:
    return Input(shape, positive=True)


_COLOURS, _N = Input((8000, 8001, 3), "u8", below=256), 1 << 24
_CUBE = (401, 403, 405)

EVERYDAY: tuple[Program, ...] = (
    Program("grey of u8", grey, (_COLOURS, vector(3))),
    Program("planes of colours u8", planes_of, (_COLOURS, vector(3), vector(3))),
    Program("edges of 8190 x 8194", edges, (matrix(8190, 8194),), LOOSE),
    Program("gradient of 8192 x 8192", gradient, (matrix(8192, 8192),)),
    Program("sharpened 8000 x 8001", sharpened, (matrix(8000, 8001),)),
    Program("largest of 2 x 2", halved, (Input((64, 64, 126, 130)),)),
    Program("means of 8 x 8", block_means, (matrix(8192, 8192),)),
    Program("rolled by 3 and 5", rolled, (matrix(8191, 8192), matrix(8191, 8192))),
    Program("huber loss", huber, (vector(50_000_000), vector(50_000_000))),
    Program("divergence of rows of 1000", divergence, (_positive(40000, 1000), _positive(40000, 1000)), LOOSE),
    Program("cosines of rows of 768", cosine, (matrix(50000, 768), matrix(50000, 768)), LOOSE),
    Program("accuracy of 1000 classes", right, (matrix(65536, 1000), Input((65536,), "i64", below=1000))),
    Program("smoothed loss of 8192", smoothed, (matrix(8192, 8192), Input((8192,), "i64", below=8192)), LOOSE),
    Program("adam", adam, (vector(_N), vector(_N), vector(_N), _positive(_N))),
    Program("clipped gradient", clipped, (vector(50_000_001),), LOOSE),
    Program("layernorm of 768 bf16", layernorm, (_halves(100000, 768), _halves(768), _halves(768)), SHORT),
    Program("layernorm of 1000 f32", layernorm, (matrix(50000, 1000), vector(1000), vector(1000)), LOOSE),
    Program("root norm of 5120 bf16", root_norm, (_halves(16384, 5120), _halves(5120)), SHORT),
    Program("instance norm of 56 x 56", instance_norm, (Input((64, 256, 56, 56)),), LOOSE),
    Program("moments of channels of 56 x 56", channel_moments, (Input((64, 256, 56, 56)),), LOOSE),
    Program("log softmax of 21 classes", class_logs, (Input((16, 21, 400, 500)),)),
    Program("masked means of 300", pooled, (Input((300, 300, 768)), _positive(300, 300)), LOOSE),
    Program("gated backward bf16", gated_backward, (_halves(8192, 5461),) * 3, SHORT),
    Program("fake quantised rows of 4096 bf16", fake_quantised, (_halves(16384, 4096),), 3e-2),
    Program("fake quantised groups of 128", quantised_groups, (matrix(16384, 4096),), 3e-2),
    Program("dequantised u8", dequantised, (Input((16384, 4096), "u8", below=256), vector(16384))),
    Program("causal softmax bf16", causal, (_halves(96, 1024, 1024), Input((1024, 1024), "u8", below=2)), SHORT),
    Program("sloped softmax bf16", sloped, (_halves(96, 1000, 1000), _halves(96), _halves(1000, 1000)), SHORT),
    Program("interleaved rotary bf16", interleaved, (_halves(64, 1024, 1024), *(_halves(1024, 512),) * 2), SHORT),
    Program("heads of 64 bf16", heads, (_halves(64, 1024, 12, 64), _halves(12, 64)), SHORT),
    Program("heads of 80 bf16", heads, (_halves(64, 1000, 12, 80), _halves(12, 80)), SHORT),
    Program(
        "embedded bf16",
        embedded,
        (_halves(50257, 768), _halves(1024, 768), Input((64, 1024), "i64", below=50257)),
        SHORT,
    ),
    Program("lower triangle", lower, (matrix(8191, 8191),)),
    Program("updated by an outer product", updated, (matrix(8191, 8191), vector(8191), vector(8191))),
    Program("axes of a cube reversed", reversed_axes, (Input(_CUBE),)),
    Program("last axis of a cube in front", last_to_front, (Input(_CUBE),)),
    Program("middle axis of a cube behind", middle_to_back, (Input(_CUBE),)),
    Program("axes of a cube reversed u8", reversed_axes, (Input((801, 403, 405), "u8", below=100),)),
    Program("last axis of a cube in front bf16", last_to_front, (Input(_CUBE, "bf16"),)),
    Program("rows of 300, 500 and 701 bf16 joined", joined, tuple(_halves(60000, n) for n in (300, 500, 701))),
    Program("products of pairs", products_of_pairs, (matrix(_N, 2), matrix(_N, 2))),
    Program("butterfly", butterfly, (matrix(8192, 8191),)),
    Program("three powers", powers, (vector(_N * 2),)),
    Program("great circles", great_circles, (vector(_N),) * 4, 1e-3),
    Program("distances of 8192 and 8000 points", between_points, (matrix(8192, 3), matrix(8000, 3))),
    Program("means of nine neighbours", smooth, (vector(1 << 26),)),
    Program("product a thousand apart", lagged, (vector(1 << 26),), 1e-2),
    Program("three statistics of rows of 1024", statistics, (matrix(65536, 1024),), LOOSE),
    Program("logsumexp of columns", columns_logsumexp, (matrix(8192, 8192),)),
    Program("best of columns", best_rows, (matrix(8192, 8191),)),
    Program("prefixes of columns of 4096", running, (matrix(4096, 16384),), LOOSE),
    Program("sums between 512 and 513", sums_between, (Input((512, 512, 513)),), LOOSE),
    Program("8191 x 8193 turned", turned, (matrix(8191, 8193),)),
    Program("8192 x 8192 turned bf16", turned, (_halves(8192, 8192),)),
    Program("16381 x 8191 turned bf16", turned, (_halves(16381, 8191),)),
    Program("16381 x 8191 turned u8", turned, (Input((16381, 8191), "u8", below=100),)),
    Program("500009 x 257 turned bf16", turned, (_halves(500009, 257),)),
    Program("last axes of 256 x 512 x 768 turned bf16", turned, (_halves(256, 512, 768),)),
    Program("last axes of 300 x 511 x 701 turned", turned, (Input((300, 511, 701)),)),
    Program("differences in rows of 8191", differences, (matrix(8192, 8191),)),
    Program("rows of 303 less their ends", bordered, (matrix(250000, 303),)),
    Program("sums of columns of 16383 x 8191 bf16", column_sums, (_halves(16383, 8191),), SHORT),
    Program("sums of columns of 1000003 x 131 bf16", column_sums, (_halves(1000003, 131),), SHORT),
    Program("softmax of 7 between 5000 and 2500", softmax_between, (Input((5000, 7, 2500)),)),
    Program("softmax of 21 channels bf16", softmax_between, (_halves(16, 21, 512, 512),), SHORT),
    Program("softmax of half a million between", softmax_between, (Input((2, 500000, 100)),), LOOSE),
    Program("sums of half a million between bf16", sums_between, (_halves(2, 500000, 100),), SHORT),
    Program("prefixes between of 255 x 513 x 767", running_between, (Input((255, 513, 767)),), LOOSE),
    Program("prefixes between of 64 x 1000 x 1500 bf16", running_between, (_halves(64, 1000, 1500),), SHORT),
    Program("prefixes between of 4 x 16384 x 2048", running_between, (Input((4, 16384, 2048)),), LOOSE),
    Program("densities in rows of 100", densities, (matrix(1000000, 100), vector(100), _positive(100))),
    Program("best of rows of 257 bf16", best_in_rows, (_halves(500009, 257),)),
    Program("largest of rows of 131 u8", largest_in_rows, (Input((1000003, 131), "u8", below=256),)),
    Program("largest of columns of 1000003 x 131 u8", largest_in_columns, (Input((1000003, 131), "u8", below=256),)),
    Program("rows of two million of unit length bf16", of_unit_length, (_halves(64, 2000003),), SHORT),
)
